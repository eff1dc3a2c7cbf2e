// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.nio.charset.StandardCharsets;
import java.util.Optional;

/** A sealed notification whose fields conform to PROTOCOL §3. Prints without its content. */
public final class Envelope {
    /** The longest time that Apple and Google keep a notification, in seconds: 28 days. */
    public static final int MAXIMUM_TTL = 2_419_200;

    private final Magic magic;
    /** Empty if there is a handle. */
    private final String deviceToken;

    private final Handle handle;
    private final byte[] iv;
    private final byte[] ciphertext;
    private final Options options;
    private final byte[] digest;

    /**
     * How an envelope is delivered.
     *
     * @param app the name of an app of the node; empty for its first app
     * @param ttl seconds that the push service may keep the notification; 0 for now or never
     * @param isUrgent whether the provider delivers at once, and not when it suits the phone's battery
     * @param sound whether the phone plays a sound
     * @param collapseId a later notification with the same id replaces an earlier one
     */
    public record Options(String app, int ttl, boolean isUrgent, boolean sound, Optional<String> collapseId) {
        /** The node's first app, 28 days, urgent, with a sound, replacing nothing. */
        public static final Options DEFAULT = new Options("", MAXIMUM_TTL, true, true, Optional.empty());

        /**
         * These options for another app.
         *
         * @param name the name of an app of the node
         * @return the options
         */
        public Options withApp(String name) {
            return new Options(name, ttl, isUrgent, sound, collapseId);
        }

        /**
         * These options with another time to live.
         *
         * @param seconds from 0 to {@link #MAXIMUM_TTL}
         * @return the options
         */
        public Options withTtl(int seconds) {
            return new Options(app, seconds, isUrgent, sound, collapseId);
        }

        /**
         * These options without a sound.
         *
         * @return the options
         */
        public Options silent() {
            return new Options(app, ttl, isUrgent, false, collapseId);
        }
    }

    /**
     * Creates an envelope and checks its fields.
     *
     * @param magic the push service
     * @param deviceToken the device token, as in the pairing token
     * @param iv the initialisation vector: 16 printable ASCII characters for {@code PIPE}, 12 bytes for {@code SEALED};
     *     empty for Web Push
     * @param ciphertext the encrypted notification; for {@code SEALED} with the tag at its end; for Web Push the
     *     whole message (RFC 8291)
     * @param format the format, which selects the rules
     * @param options how it is delivered
     * @throws RejectionException with the first rule that a field breaks
     */
    public Envelope(
            Magic magic, String deviceToken, byte[] iv, byte[] ciphertext, EnvelopeFormat format, Options options)
            throws RejectionException {
        this(magic, deviceToken, null, iv, ciphertext, format, options);
    }

    /** As above; {@code handle} is {@code null}, or addresses the phone in the place of the device token. */
    Envelope(
            Magic magic,
            String deviceToken,
            Handle handle,
            byte[] iv,
            byte[] ciphertext,
            EnvelopeFormat format,
            Options options)
            throws RejectionException {
        if (handle == null) {
            checkDeviceToken(magic, deviceToken);
        }
        if (magic == Magic.WEB) {
            checkWebPush(iv, ciphertext);
        } else {
            checkSealed(format, iv, ciphertext);
        }
        if (options.ttl < 0 || options.ttl > MAXIMUM_TTL) {
            throw new RejectionException(108, "ttl is not between 0 and " + MAXIMUM_TTL + " seconds");
        }
        if (options.collapseId.isPresent()) {
            checkCollapseId(options.collapseId.get());
        }
        this.magic = magic;
        this.deviceToken = deviceToken;
        this.handle = handle;
        this.iv = iv.clone();
        this.ciphertext = ciphertext.clone();
        this.options = options;
        digest = Crypto.blake2b(
                null,
                Bytes.of("tnp1-envelope"),
                Bytes.prefixed(Bytes.of(options.app)),
                Bytes.prefixed(Bytes.of(handle == null ? magic.text() : "")),
                Bytes.prefixed(handle == null ? Bytes.of(deviceToken) : handle.bytes()),
                Bytes.prefixed(iv),
                Bytes.prefixed(ciphertext));
    }

    /**
     * The identity of the envelope, by which the node recognises a resend.
     *
     * @return 32 bytes
     */
    public byte[] digest() {
        return digest.clone();
    }

    /** What the sender addresses the phone by. */
    String address() {
        return handle == null ? deviceToken : handle.reveal();
    }

    boolean isByHandle() {
        return handle != null;
    }

    /** Appends the fields of SUBMIT that come from the envelope and from {@code acceptQueued}, in ascending order. */
    void encode(Bytes.Output output, boolean acceptQueued) {
        if (handle == null) {
            output.field(0x01, Bytes.of(magic.text()));
            output.field(0x02, Bytes.of(deviceToken));
        }
        if (iv.length > 0) {
            output.field(0x03, iv);
        }
        output.field(0x04, ciphertext);
        if (options.ttl != MAXIMUM_TTL) {
            output.field(0x05, Bytes.number(options.ttl, 4));
        }
        if (!options.isUrgent) {
            output.field(0x06, new byte[] {5});
        }
        if (!options.sound) {
            output.field(0x07, new byte[] {0});
        }
        options.collapseId.ifPresent(id -> output.field(0x08, Bytes.of(id)));
        if (acceptQueued) {
            output.field(0x09, new byte[] {1});
        }
        if (!options.app.isEmpty()) {
            output.field(0x0A, Bytes.of(options.app));
        }
        if (handle != null) {
            output.field(0x0B, handle.bytes());
        }
    }

    /** The one rule for device tokens, here and in a node. */
    static void checkDeviceToken(Magic magic, String token) throws RejectionException {
        int length = Bytes.of(token).length;
        if (magic == Magic.WEB) {
            WebPush.checkEndpoint(token);
        } else if (length < 1 || length > 512) {
            throw new RejectionException(102, "the device token must be 1 to 512 bytes");
        } else if (magic == Magic.ANDROID) {
            if (token.chars().anyMatch(c -> c <= 0x20 || c == 0x7F)) {
                throw new RejectionException(
                        102, "a Google device token must be text without spaces or control characters");
            }
        } else if (length % 2 != 0 || length > 200 || !Bytes.isHex(token)) {
            throw new RejectionException(
                    102, "an Apple device token must be 2 to 200 hexadecimal digits, an even number");
        }
    }

    private static final String OTHER_FORMAT =
            "the notification has the format %s, but the app takes %s: is it a pairing of another app?";

    private static void checkSealed(EnvelopeFormat format, byte[] iv, byte[] ciphertext) throws RejectionException {
        if (format == EnvelopeFormat.PIPE) {
            if (iv.length == 12) {
                throw new RejectionException(103, String.format(OTHER_FORMAT, "sealed", "pipe"));
            }
            String text = new String(iv, StandardCharsets.ISO_8859_1);
            if (iv.length != 16 || text.chars().anyMatch(c -> c < 0x20 || c > 0x7E || c == '|')) {
                throw new RejectionException(
                        103, "this app requires an iv of 16 printable ASCII characters except |");
            }
            if (ciphertext.length < 16 || ciphertext.length > 3072 || ciphertext.length % 16 != 0) {
                throw new RejectionException(
                        104, "this app requires a ciphertext of 16 to 3072 bytes, a multiple of 16");
            }
        } else {
            if (iv.length == 16) {
                throw new RejectionException(103, String.format(OTHER_FORMAT, "pipe", "sealed"));
            }
            if (iv.length != 12) {
                throw new RejectionException(103, "this app requires an iv of 12 bytes");
            }
            if (ciphertext.length < 17 || ciphertext.length > 3072) {
                throw new RejectionException(104, "this app requires a ciphertext of 17 to 3072 bytes");
            }
        }
    }

    private static void checkWebPush(byte[] iv, byte[] ciphertext) throws RejectionException {
        if (iv.length != 0) {
            throw new RejectionException(103, "Web Push has no iv");
        }
        if (ciphertext.length < 1 || ciphertext.length > 4096) {
            throw new RejectionException(104, "Web Push requires a ciphertext of 1 to 4096 bytes");
        }
    }

    private static void checkCollapseId(String id) throws RejectionException {
        int length = Bytes.of(id).length;
        if (length < 1
                || length > 64
                || id.chars().anyMatch(c -> c < 0x20 || c == 0x7F)
                || id.startsWith(" ")
                || id.endsWith(" ")) {
            throw new RejectionException(
                    108,
                    "the collapse id must be 1 to 64 bytes of UTF-8 without control characters or spaces at its ends");
        }
    }

    /** Prints nothing of the content. */
    @Override
    public String toString() {
        return "<Envelope redacted>";
    }
}
