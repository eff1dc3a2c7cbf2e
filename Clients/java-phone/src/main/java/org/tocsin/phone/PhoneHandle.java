// SPDX-License-Identifier: Apache-2.0
package org.tocsin.phone;

import java.util.Arrays;

/**
 * What stands for the phone at one node, in the place of its device token (PROTOCOL §7). Who has it can ring the phone, unless
 * the handle has sender keys. Prints without its content.
 */
public final class PhoneHandle {
    static final String PREFIX = "handle:";
    static final int LENGTH = 32;

    private final byte[] bytes;

    PhoneHandle(byte[] bytes) {
        this.bytes = bytes;
    }

    /**
     * Reads a handle.
     *
     * @param text 64 hexadecimal digits, with or without {@code handle:} before them
     * @return the handle
     * @throws PhoneException if the text is none
     */
    public static PhoneHandle parse(String text) throws PhoneException {
        byte[] bytes = Bytes.ofHex(text.startsWith(PREFIX) ? text.substring(PREFIX.length()) : text);
        if (bytes == null || bytes.length != LENGTH) {
            throw new PhoneException("a handle is handle: and 64 hexadecimal digits");
        }
        return new PhoneHandle(bytes);
    }

    byte[] bytes() {
        return bytes.clone();
    }

    /**
     * The handle as in a pairing token, to store where secrets belong.
     *
     * @return {@code handle:} and 64 hexadecimal digits
     */
    public String reveal() {
        return PREFIX + Bytes.hex(bytes);
    }

    /** Compares with another handle. */
    @Override
    public boolean equals(Object other) {
        return other instanceof PhoneHandle && Arrays.equals(bytes, ((PhoneHandle) other).bytes);
    }

    /** Fits {@link #equals}. */
    @Override
    public int hashCode() {
        return Arrays.hashCode(bytes);
    }

    /** Prints nothing of the content. */
    @Override
    public String toString() {
        return "<PhoneHandle redacted>";
    }
}
