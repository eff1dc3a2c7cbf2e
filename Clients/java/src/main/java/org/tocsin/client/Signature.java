// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

/** The sender key of a submission, and its signature of the envelope's digest (PROTOCOL §3). */
public final class Signature {
    private final byte[] key;
    private final byte[] signature;
    /** Names this key as the successor of another one; {@code null} if there is none. */
    private final byte[] succession;

    Signature(byte[] key, byte[] signature) {
        this(key, signature, null);
    }

    Signature(byte[] key, byte[] signature, byte[] succession) {
        this.key = key;
        this.signature = signature;
        this.succession = succession;
    }

    /** The same signature, by a key that succeeds the one of an earlier pairing with the same phone. */
    Signature succeeding(PairingToken pairing, PairingToken earlier) {
        if (pairing.handle().isPresent() || !pairing.identity().equals(earlier.identity())) {
            throw new IllegalArgumentException("the earlier pairing has another device token");
        }
        byte[] message = Bytes.join(Bytes.of("tnp1-successor"), key, Bytes.of(pairing.identity()));
        Signature old = Crypto.sign(earlier.senderSeed(), message);
        return new Signature(key, signature, Bytes.join(old.key, old.signature));
    }

    /**
     * The public sender key.
     *
     * @return 32 bytes
     */
    public byte[] key() {
        return key.clone();
    }

    /**
     * The Ed25519 signature.
     *
     * @return 64 bytes
     */
    public byte[] signature() {
        return signature.clone();
    }

    void encode(Bytes.Output output) {
        output.field(0x11, key);
        output.field(0x12, signature);
        if (succession != null) {
            output.field(0x82, succession);
        }
    }

    /** Prints nothing of the key. */
    @Override
    public String toString() {
        return "<Signature redacted>";
    }
}
