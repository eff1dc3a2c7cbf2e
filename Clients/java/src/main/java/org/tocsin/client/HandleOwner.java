// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.io.IOException;
import java.nio.file.Path;

/** The key of a handle's owner, who may change or end the handle (PROTOCOL §11). Prints without the key. */
public final class HandleOwner {
    private final byte[] seed;

    private HandleOwner(byte[] seed) {
        this.seed = seed;
    }

    /**
     * The owner whose key all programs with a pairing can derive. Keep it in a file, because it is derived from the device
     * token, which may change.
     *
     * @param pairing a pairing token with a device token
     * @return the owner
     */
    public static HandleOwner of(PairingToken pairing) {
        return new HandleOwner(pairing.senderSeed());
    }

    /**
     * Reads the key from a file that {@link #save} or {@code tocsin register} has written.
     *
     * @param file the file
     * @return the owner
     * @throws IOException also if other users of the machine can access the file
     */
    public static HandleOwner read(Path file) throws IOException {
        return new HandleOwner(KeyFile.read(file, "is not the key of a handle's owner, which has 32 bytes"));
    }

    /**
     * Creates a file with the key.
     *
     * @param file a file that does not exist
     * @throws IOException if the file cannot be created
     */
    public void save(Path file) throws IOException {
        KeyFile.create(file, seed);
    }

    Signature sign(byte[] message) {
        return Crypto.sign(seed, message);
    }

    /** Prints nothing of the content. */
    @Override
    public String toString() {
        return "<HandleOwner redacted>";
    }
}
