// SPDX-License-Identifier: Apache-2.0
package org.tocsin.phone;

import java.math.BigInteger;
import java.util.Arrays;
import java.util.Map;
import org.bouncycastle.crypto.digests.Blake2bDigest;

/** The proof of work that a node requires of a REGISTER (PROTOCOL §5). */
public final class HandleChallenge {
    static final String PATH = "/v1/handles/challenge";
    static final int LENGTH = 24;
    private static final int SEED = 16;
    /** The largest hash, as its first eight bytes. */
    private static final BigInteger LARGEST = BigInteger.ONE.shiftLeft(64).subtract(BigInteger.ONE);
    /** The most hashes that a phone computes. */
    private static final long MAXIMUM_EFFORT = 1 << 24;

    private final byte[] seed;
    private final long effort;
    /** The onion that a signature must name; {@code null} if the node has not said. */
    private final byte[] onionKey;

    private HandleChallenge(byte[] seed, long effort, byte[] onionKey) {
        this.seed = seed;
        this.effort = effort;
        this.onionKey = onionKey;
    }

    /**
     * Reads the answer to {@code GET /v1/handles/challenge}.
     *
     * @param body the answer's body
     * @return the challenge
     * @throws PhoneException if it is none
     */
    public static HandleChallenge parse(byte[] body) throws PhoneException {
        Map<String, Object> fields = Json.object(body);
        Object effort = fields.get("effort");
        byte[] seed = fields.get("seed") instanceof String ? Bytes.ofHex((String) fields.get("seed")) : null;
        byte[] onion = fields.get("onion") instanceof String ? Bytes.ofHex((String) fields.get("onion")) : null;
        if (!(effort instanceof Long)
                || (Long) effort < 0
                || (Long) effort > 0xFFFFFFFFL
                || seed == null
                || seed.length != SEED
                || onion == null) {
            throw new PhoneException("the node's answer is not understood: the challenge lacks seed, effort or onion");
        }
        return new HandleChallenge(seed, (Long) effort, onion);
    }

    /** Reads the payload of PUZZLE, or the same 24 bytes of WELCOME. */
    static HandleChallenge ofPuzzle(byte[] bytes, int start) {
        return new HandleChallenge(
                Arrays.copyOfRange(bytes, start, start + SEED), Bytes.number(bytes, start + SEED, 4), null);
    }

    /**
     * The expected number of hashes.
     *
     * @return 0 if the node requires none
     */
    public long effort() {
        return effort;
    }

    byte[] onionKey() {
        return onionKey;
    }

    /**
     * Searches for a proof, which takes seconds on a slow phone: call it off the main thread. Interrupting the thread ends the
     * search.
     *
     * @param call the REGISTER to prove
     * @return the proof
     * @throws PhoneException if the node requires more than 2^24 hashes, or the thread was interrupted
     */
    public byte[] solve(HandleCall call) throws PhoneException {
        if (effort > MAXIMUM_EFFORT) {
            throw new PhoneException("the node requires more work than a phone can do");
        }
        long wanted = Math.max(effort, 1);
        // Shifted by 2^63, because Java compares with a sign.
        long target = LARGEST.divide(BigInteger.valueOf(wanted)).longValue() + Long.MIN_VALUE;
        byte[] common = Bytes.join(Bytes.of("tnp1-puzzle"), seed, call.digest(), Bytes.number(wanted, 4));
        Blake2bDigest beginning = new Blake2bDigest(null, 32, null, null);
        beginning.update(common, 0, common.length);
        byte[] hash = new byte[32];
        long nonce = Bytes.number(Crypto.random(8), 0, 8);
        while (!Thread.currentThread().isInterrupted()) {
            Blake2bDigest digest = new Blake2bDigest(beginning);
            digest.update(Bytes.number(nonce, 8), 0, 8);
            digest.doFinal(hash, 0);
            if (Bytes.number(hash, 0, 8) + Long.MIN_VALUE <= target) {
                return Bytes.join(Arrays.copyOf(seed, 4), Bytes.number(wanted, 4), Bytes.number(nonce, 8));
            }
            nonce++;
        }
        throw new PhoneException("interrupted");
    }
}
