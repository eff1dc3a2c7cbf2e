// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

/** The library that this one needs. The check has a class of its own, because the JVM loads BouncyCastle with the others. */
final class BouncyCastle {
    private BouncyCastle() {}

    /**
     * Checks that the library is there.
     *
     * @throws NoClassDefFoundError with a sentence in place of the name of a class
     */
    static void require() {
        try {
            Class.forName("org.bouncycastle.crypto.digests.Blake2bDigest");
        } catch (ClassNotFoundException error) {
            throw new NoClassDefFoundError("BouncyCastle is missing: add org.bouncycastle:bcprov-jdk18on to the class path, "
                    + "or use tocsin-client.jar, which contains it");
        }
    }
}
