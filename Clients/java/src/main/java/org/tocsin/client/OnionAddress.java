// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.io.ByteArrayOutputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.Locale;
import java.util.Optional;

/** Addresses of v3 onion services (rend-spec-v3, "Encoding onion addresses"), and Base32 (RFC 4648). */
final class OnionAddress {
    static final String SUFFIX = ".onion";

    private static final int KEY_LENGTH = 32;

    private OnionAddress() {}

    static boolean isOnion(String host) {
        return host.toLowerCase(Locale.ROOT).endsWith(SUFFIX);
    }

    /** The part of an address before {@code .onion}; subdomains are not part of it. */
    static String label(String host) {
        String name = host.toLowerCase(Locale.ROOT);
        String rest = name.substring(0, name.length() - SUFFIX.length());
        return rest.substring(rest.lastIndexOf('.') + 1);
    }

    /** What a signature for a node at this host names: the public key in an onion address; zeros for any other host. */
    static byte[] signed(String host) {
        byte[] none = new byte[KEY_LENGTH];
        if (!isOnion(host)) {
            return none;
        }
        return base32(label(host))
                .map(bytes -> Arrays.copyOf(bytes, KEY_LENGTH))
                .orElse(none);
    }

    /** Whether a label has the right length, version and checksum. */
    static boolean isValid(String label) {
        Optional<byte[]> decoded = label.length() == 56 ? base32(label) : Optional.empty();
        if (decoded.isEmpty() || decoded.get()[34] != 3) {
            return false;
        }
        try {
            MessageDigest hash = MessageDigest.getInstance("SHA3-256");
            hash.update(Bytes.of(".onion checksum"));
            hash.update(decoded.get(), 0, 32);
            hash.update((byte) 3);
            return Arrays.equals(hash.digest(), 0, 2, decoded.get(), 32, 34);
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException("SHA3-256 is not available", error);
        }
    }

    /** Decodes unpadded Base32 of either case. */
    static Optional<byte[]> base32(String text) {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        int bits = 0;
        int count = 0;
        for (char c : text.toLowerCase(Locale.ROOT).toCharArray()) {
            int value = "abcdefghijklmnopqrstuvwxyz234567".indexOf(c);
            if (value < 0) {
                return Optional.empty();
            }
            bits = bits << 5 | value;
            count += 5;
            if (count >= 8) {
                count -= 8;
                output.write(bits >>> count);
                bits &= (1 << count) - 1;
            }
        }
        return Optional.of(output.toByteArray());
    }
}
