// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

/** The sender key of a submission, and its signature of the envelope's digest (PROTOCOL §3). */
public final class Signature {
    private final byte[] key;
    private final byte[] signature;

    Signature(byte[] key, byte[] signature) {
        this.key = key;
        this.signature = signature;
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
    }

    /** Prints nothing of the key. */
    @Override
    public String toString() {
        return "<Signature redacted>";
    }
}
