// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.io.IOException;
import java.nio.file.Path;

/** The key of a site: a sender that the operators of its nodes know (PROTOCOL §10). Prints without the key. */
public final class SiteKey {
    private final byte[] seed;

    /**
     * Makes the key of a seed.
     *
     * @param seed the 32 bytes that {@code tocsin site key} writes
     * @throws IllegalArgumentException if the length is wrong
     */
    public SiteKey(byte[] seed) {
        if (seed.length != KeyFile.LENGTH) {
            throw new IllegalArgumentException("a site's key has " + KeyFile.LENGTH + " bytes");
        }
        this.seed = seed.clone();
    }

    /**
     * Reads the file that {@code tocsin site key} writes.
     *
     * @param file the file
     * @return the key
     * @throws IOException also if other users of the machine can read the file
     */
    public static SiteKey read(Path file) throws IOException {
        return new SiteKey(KeyFile.read(file, "is not a site's key: tocsin site key FILE makes one"));
    }

    /** AUTH for a connection to this host whose WELCOME has a puzzle with this seed. */
    byte[] authentication(byte[] puzzleSeed, String host) {
        return Wire.auth(
                Crypto.sign(seed, Bytes.join(Bytes.of("tnp1-site"), puzzleSeed, OnionAddress.signed(host))));
    }
}
