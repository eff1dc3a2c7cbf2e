// SPDX-License-Identifier: Apache-2.0
package org.tocsin.phone;

import java.io.ByteArrayOutputStream;
import java.math.BigInteger;
import java.nio.charset.Charset;
import java.util.Arrays;
import org.bouncycastle.util.encoders.Base64;
import org.bouncycastle.util.encoders.DecoderException;

/** Bytes and texts. What Android has had only since its version 8 comes from BouncyCastle. */
final class Bytes {
    private static final Charset UTF_8 = Charset.forName("UTF-8");

    private Bytes() {}

    static byte[] of(String text) {
        return text.getBytes(UTF_8);
    }

    static String text(byte[] bytes) {
        return new String(bytes, UTF_8);
    }

    static byte[] join(byte[]... parts) {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        for (byte[] part : parts) {
            output.write(part, 0, part.length);
        }
        return output.toByteArray();
    }

    /** The lowest {@code count} bytes of a number, the highest first. */
    static byte[] number(long value, int count) {
        byte[] bytes = new byte[count];
        for (int index = 0; index < count; index++) {
            bytes[index] = (byte) (value >>> (8 * (count - 1 - index)));
        }
        return bytes;
    }

    /** A number of at most 32 bytes, as 32 bytes. */
    static byte[] number(BigInteger value) {
        byte[] bytes = value.toByteArray();
        byte[] output = new byte[32];
        // A leading zero for the sign is possible.
        int length = Math.min(bytes.length, output.length);
        System.arraycopy(bytes, bytes.length - length, output, output.length - length, length);
        return output;
    }

    /** The number that {@code count} bytes are, the highest first. */
    static long number(byte[] bytes, int start, int count) {
        long value = 0;
        for (int index = start; index < start + count; index++) {
            value = value << 8 | (bytes[index] & 0xFF);
        }
        return value;
    }

    static String hex(byte[] bytes) {
        StringBuilder output = new StringBuilder();
        for (byte value : bytes) {
            output.append(Character.forDigit((value >> 4) & 15, 16)).append(Character.forDigit(value & 15, 16));
        }
        return output.toString();
    }

    /** The bytes of hexadecimal digits in either case; {@code null} if the text is something else. */
    static byte[] ofHex(String text) {
        if (text.length() % 2 != 0) {
            return null;
        }
        byte[] bytes = new byte[text.length() / 2];
        for (int index = 0; index < text.length(); index++) {
            char digit = text.charAt(index);
            int value = digit < 0x80 ? Character.digit(digit, 16) : -1;
            if (value < 0) {
                return null;
            }
            bytes[index / 2] = (byte) (bytes[index / 2] << 4 | value);
        }
        return bytes;
    }

    /** The bytes of Base32 (RFC 4648 §6) in either case and without padding; {@code null} if the text is something else. */
    static byte[] ofBase32(String text) {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        int buffer = 0;
        int count = 0;
        for (char digit : text.toCharArray()) {
            int value;
            if ((digit | 0x20) >= 'a' && (digit | 0x20) <= 'z') {
                value = (digit | 0x20) - 'a';
            } else if (digit >= '2' && digit <= '7') {
                value = digit - '2' + 26;
            } else {
                return null;
            }
            buffer = buffer << 5 | value;
            count += 5;
            if (count >= 8) {
                count -= 8;
                output.write(buffer >> count);
            }
        }
        return output.toByteArray();
    }

    static String base64(byte[] bytes) {
        return Base64.toBase64String(bytes);
    }

    /** Unpadded Base64url (RFC 4648 §5). */
    static String urlBase64(byte[] bytes) {
        return base64(bytes).replace('+', '-').replace('/', '_').replace("=", "");
    }

    /** The bytes of Base64; {@code null} if the text is something else. */
    static byte[] ofBase64(String text) {
        try {
            return Base64.decode(text);
        } catch (DecoderException error) {
            return null;
        }
    }

    /** A text without the spaces that pad it. */
    static byte[] withoutPadding(byte[] text) {
        int end = text.length;
        while (end > 0 && text[end - 1] == ' ') {
            end--;
        }
        return Arrays.copyOf(text, end);
    }
}
