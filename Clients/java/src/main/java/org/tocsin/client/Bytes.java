// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;

/** Encodes numbers and fields as bytes. */
final class Bytes {
    private Bytes() {}

    static byte[] of(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** A big-endian number. */
    static byte[] number(long value, int width) {
        byte[] bytes = new byte[width];
        for (int index = 0; index < width; index++) {
            bytes[index] = (byte) (value >>> 8 * (width - 1 - index));
        }
        return bytes;
    }

    /** The bytes after their length as u16. */
    static byte[] prefixed(byte[] bytes) {
        return join(number(bytes.length, 2), bytes);
    }

    static byte[] join(byte[]... parts) {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        for (byte[] part : parts) {
            output.writeBytes(part);
        }
        return output.toByteArray();
    }

    static boolean isHex(String text) {
        return text.chars().allMatch(c -> Character.digit(c, 16) >= 0 && c < 0x80);
    }

    /** The payload of a frame while it is being written. */
    static final class Output {
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        void append(byte[] part) {
            bytes.writeBytes(part);
        }

        void field(int tag, byte[] value) {
            bytes.write(tag);
            append(prefixed(value));
        }

        byte[] bytes() {
            return bytes.toByteArray();
        }

        /** The frame with this type. */
        byte[] frame(int type) {
            return join(number(bytes.size() + 1L, 4), new byte[] {(byte) type}, bytes.toByteArray());
        }
    }
}
