// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.util.Arrays;
import java.util.concurrent.atomic.AtomicBoolean;
import org.bouncycastle.crypto.digests.Blake2bDigest;

/** A proof of work, and the search for it (PROTOCOL §5). */
final class Proof {
    /** Hashes between two looks at the clock: a few milliseconds. */
    private static final int BATCH = 4096;

    private final byte[] seedPrefix;
    private final long effort;
    private final long nonce;

    private Proof(Wire.Puzzle puzzle, long nonce) {
        seedPrefix = Arrays.copyOf(puzzle.seed(), 4);
        effort = puzzle.effort();
        this.nonce = nonce;
    }

    /** Whether the proof satisfies an effort. */
    boolean covers(long required) {
        return effort >= required;
    }

    boolean isFor(Wire.Puzzle puzzle) {
        return Arrays.equals(seedPrefix, 0, 4, puzzle.seed(), 0, 4);
    }

    /** The value of SUBMIT's field 0x10. */
    byte[] encoded() {
        return Bytes.join(seedPrefix, Bytes.number(effort, 4), Bytes.number(nonce, 8));
    }

    /**
     * Searches on the calling thread.
     *
     * @param start the first nonce; a random one, so that a restarted search does not repeat the previous one
     * @param deadline the value of {@link System#nanoTime()} at which the search ends
     * @return the proof, or {@code null} if the deadline passed or the search was cancelled
     */
    static Proof search(Wire.Puzzle puzzle, byte[] digest, long start, long deadline, AtomicBoolean cancelled) {
        Blake2bDigest prefix = new Blake2bDigest(null, 32, null, null);
        for (byte[] part : new byte[][] {
            Bytes.of("tnp1-puzzle"), puzzle.seed(), digest, Bytes.number(puzzle.effort(), 4)
        }) {
            prefix.update(part, 0, part.length);
        }
        long target = Long.divideUnsigned(-1L, Math.max(1, puzzle.effort()));
        byte[] hash = new byte[32];
        long nonce = start;
        while (!cancelled.get() && deadline - System.nanoTime() > 0) {
            for (int tries = 0; tries < BATCH; tries++, nonce++) {
                Blake2bDigest attempt = new Blake2bDigest(prefix);
                attempt.update(Bytes.number(nonce, 8), 0, 8);
                attempt.doFinal(hash, 0);
                if (Long.compareUnsigned(head(hash), target) <= 0) {
                    return new Proof(puzzle, nonce);
                }
            }
        }
        return null;
    }

    private static long head(byte[] hash) {
        long number = 0;
        for (int index = 0; index < 8; index++) {
            number = number << 8 | hash[index] & 0xFF;
        }
        return number;
    }
}
