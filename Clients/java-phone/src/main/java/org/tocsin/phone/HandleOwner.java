// SPDX-License-Identifier: Apache-2.0
package org.tocsin.phone;

/**
 * The key of the owner of handles, who alone may change or end them (PROTOCOL §7). One owner has the handles of one user of the
 * phone: nodes can see that handles have the same owner. Prints without the key. Without it, handles cannot follow a new device
 * token.
 */
public final class HandleOwner {
    private static final int SEED = 32;

    private final byte[] seed;

    private HandleOwner(byte[] seed) {
        this.seed = seed;
    }

    /**
     * Makes a new owner.
     *
     * @return the owner
     */
    public static HandleOwner create() {
        return new HandleOwner(Crypto.random(SEED));
    }

    /**
     * Takes an existing key.
     *
     * @param seed the private key of Ed25519, 32 bytes
     * @return the owner
     * @throws IllegalArgumentException for another length
     */
    public static HandleOwner of(byte[] seed) {
        if (seed.length != SEED) {
            throw new IllegalArgumentException("an owner's key has 32 bytes");
        }
        return new HandleOwner(seed.clone());
    }

    /**
     * The private key, to store where secrets belong.
     *
     * @return 32 bytes
     */
    public byte[] reveal() {
        return seed.clone();
    }

    byte[] publicKey() {
        return Crypto.publicKey(seed);
    }

    byte[] sign(byte[] message) {
        return Crypto.sign(seed, message);
    }

    /** Prints no part of the key. */
    @Override
    public String toString() {
        return "<HandleOwner redacted>";
    }
}
