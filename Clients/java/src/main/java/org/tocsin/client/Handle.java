// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.util.Arrays;
import java.util.HexFormat;

/**
 * What stands for a phone at one node, in the place of its device token (PROTOCOL §11). Who has it can ring the phone.
 * Prints without its content.
 */
public final class Handle {
    /** The text before a handle in a pairing token, in the place of the device token. */
    public static final String PREFIX = "handle:";

    private static final int LENGTH = 32;

    private final byte[] bytes;

    private Handle(byte[] bytes) {
        this.bytes = bytes;
    }

    static Handle of(byte[] bytes) {
        if (bytes.length != LENGTH) {
            throw new IllegalArgumentException("a handle has " + LENGTH + " bytes");
        }
        return new Handle(bytes.clone());
    }

    /**
     * Parses a handle.
     *
     * @param text {@code handle:}, which may be missing, and 64 hexadecimal digits
     * @return the handle
     * @throws IllegalArgumentException if the text is not a handle
     */
    public static Handle parse(String text) {
        String digits = text.startsWith(PREFIX) ? text.substring(PREFIX.length()) : text;
        if (digits.length() != 2 * LENGTH || !Bytes.isHex(digits)) {
            throw new IllegalArgumentException("a handle is " + PREFIX + " and " + 2 * LENGTH + " hexadecimal digits");
        }
        return new Handle(HexFormat.of().parseHex(digits));
    }

    /**
     * The handle as in a pairing token.
     *
     * @return {@code handle:} and 64 hexadecimal digits
     */
    public String reveal() {
        return PREFIX + HexFormat.of().formatHex(bytes);
    }

    byte[] bytes() {
        return bytes.clone();
    }

    /** Whether both are the same handle. */
    @Override
    public boolean equals(Object other) {
        return other instanceof Handle handle && Arrays.equals(handle.bytes, bytes);
    }

    /** The hash of the bytes. */
    @Override
    public int hashCode() {
        return Arrays.hashCode(bytes);
    }

    /** Prints nothing of the content. */
    @Override
    public String toString() {
        return "<Handle redacted>";
    }
}
