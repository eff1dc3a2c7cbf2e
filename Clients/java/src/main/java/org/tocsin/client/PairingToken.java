// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.util.Arrays;
import java.util.Base64;
import java.util.Locale;
import java.util.Optional;

/**
 * The text that the phone gives the desktop by QR code: {@code magic|descriptor|key|device token}, or, for a phone that has
 * registered a handle, {@code magic|descriptor|key|handle:HANDLE}. For Web Push, two parts follow: the receiver's public key
 * and authentication secret in Base64url. Seals and signs notifications for the phone. Prints without its content.
 */
public final class PairingToken {
    static {
        BouncyCastle.require();
    }

    /** Texts are padded with spaces to a multiple of this many bytes, so that their length does not reveal their type. */
    public static final int BUCKET = 256;

    /** The largest padded text: the last bucket within the limits of Apple and Google. */
    private static final int MAXIMUM_PADDED = 2816;

    /** Bytes that AES-GCM adds. */
    private static final int GCM_TAG = 16;

    private final String text;
    private final Magic magic;
    private final String descriptor;
    private final byte[] key;
    private final EnvelopeFormat format;
    /** Empty if there is a handle. */
    private final String deviceToken;

    private final Handle handle;
    /** For Web Push, else {@code null}. */
    private final byte[] receiver;
    /** For Web Push, else {@code null}. */
    private final byte[] secret;

    private PairingToken(String text) throws PairingException {
        String[] parts = text.split("\\|", -1);
        if (parts.length != 4 && parts.length != 6) {
            throw new PairingException("a pairing token has four parts, magic|descriptor|key|device token, and two more "
                    + "for Web Push; this text has " + parts.length);
        }
        magic = Magic.of(parts[0])
                .orElseThrow(() ->
                        new PairingException("the first part, the magic, is not iOS, iOSDev, android or web"));
        int expected = magic == Magic.WEB ? 6 : 4;
        if (parts.length != expected) {
            throw new PairingException("a pairing token for " + magic.text() + " has " + expected
                    + " parts; this text has " + parts.length);
        }
        descriptor = parts[1];
        byte[] encoded = Bytes.of(parts[2]);
        format = encoded.length == 32 ? EnvelopeFormat.PIPE : EnvelopeFormat.SEALED;
        key = format == EnvelopeFormat.PIPE ? encoded : decoded(encoded);
        handle = handle(parts[3]);
        deviceToken = handle == null ? parts[3] : "";
        if (handle != null) {
            // A pairing with a handle names no device token.
        } else if (magic == Magic.ANDROID && Bytes.of(deviceToken).length < 32) {
            throw new PairingException("the fourth part, the device token, has fewer than 32 characters");
        } else {
            try {
                Envelope.checkDeviceToken(magic, deviceToken);
            } catch (RejectionException error) {
                throw new PairingException("the fourth part: " + error.getMessage());
            }
        }
        receiver = magic == Magic.WEB ? receiver(parts[4]) : null;
        secret = magic == Magic.WEB ? secret(parts[5]) : null;
        this.text = text;
    }

    private static byte[] receiver(String text) throws PairingException {
        try {
            byte[] key = base64Url(text);
            WebPush.publicKey(key);
            return key;
        } catch (IllegalArgumentException error) {
            throw new PairingException("the fifth part is not the Base64url of a public key of P-256");
        }
    }

    private static byte[] secret(String text) throws PairingException {
        byte[] secret = {};
        try {
            secret = base64Url(text);
        } catch (IllegalArgumentException error) {
            // The exception below reports it, without the text.
        }
        if (secret.length != WebPush.SECRET_LENGTH) {
            throw new PairingException("the sixth part is not the Base64url of an authentication secret of "
                    + WebPush.SECRET_LENGTH + " bytes");
        }
        return secret;
    }

    /** Decodes Base64url without padding. */
    private static byte[] base64Url(String text) {
        if (text.endsWith("=")) {
            throw new IllegalArgumentException("padding");
        }
        return Base64.getUrlDecoder().decode(text);
    }

    /**
     * Parses a pairing token.
     *
     * @param text the text of the QR code
     * @return the pairing token
     * @throws PairingException if the text is not a pairing token
     */
    public static PairingToken parse(String text) throws PairingException {
        return new PairingToken(text.strip());
    }

    /**
     * Parses the pairing token in a text that somebody pasted: what mail programs, editors and web pages do to it (line
     * breaks, quotation marks, quoted-printable, HTML, look-alike letters, a signature after it) is undone.
     *
     * @param text the pasted text
     * @return the pairing token
     * @throws PairingException if no pairing token remains, or Google cannot have issued its device token
     */
    public static PairingToken parsePasted(String text) throws PairingException {
        try {
            String plain = PastedToken.stripped(text, " \t\r\n", " \t\r\n");
            // Other white space is damage.
            if (plain.equals(plain.strip())) {
                return issued(new PairingToken(plain));
            }
        } catch (PairingException error) {
            // What was damaged may be undone.
        }
        PairingToken token = issued(parse(PastedToken.tokenIn(text)));
        Optional<String> cut = PastedToken.cut(token.magic, token.deviceToken);
        if (cut.isPresent()) {
            throw new PairingException(cut.get());
        }
        return token;
    }

    private static PairingToken issued(PairingToken token) throws PairingException {
        Optional<String> doubt = PastedToken.doubt(token.magic, token.deviceToken);
        if (doubt.isPresent()) {
            throw new PairingException(doubt.get());
        }
        return token;
    }

    private static Handle handle(String text) throws PairingException {
        if (!text.startsWith(Handle.PREFIX)) {
            return null;
        }
        try {
            return Handle.parse(text);
        } catch (IllegalArgumentException error) {
            throw new PairingException("the fourth part is not a handle: " + error.getMessage());
        }
    }

    private static byte[] decoded(byte[] encoded) throws PairingException {
        byte[] key = {};
        if (encoded.length == 44) {
            try {
                key = Base64.getDecoder().decode(encoded);
            } catch (IllegalArgumentException error) {
                // The exception below reports it, without the text.
            }
        }
        if (key.length != 32) {
            throw new PairingException("the third part, the key, has " + encoded.length
                    + " bytes; it must have 32, or be Base64 of 32 bytes");
        }
        return key;
    }

    /**
     * The whole token with its key, e.g. to store it where secrets belong.
     *
     * @return the text of the QR code
     */
    public String reveal() {
        return text;
    }

    /**
     * The phone's model, for display.
     *
     * @return the second part
     */
    public String descriptor() {
        return descriptor;
    }

    /**
     * The envelope format of the apps that make keys of this form.
     *
     * @return {@code SEALED} if the key is Base64, else {@code PIPE}
     */
    public EnvelopeFormat defaultFormat() {
        return format;
    }

    /**
     * The handle that a node keeps for this phone.
     *
     * @return empty if the pairing has a device token
     */
    public Optional<Handle> handle() {
        return Optional.ofNullable(handle);
    }

    /**
     * The same pairing, by a handle that a node keeps for this phone.
     *
     * @param other the handle
     * @return what the phone shows in its QR code from now on
     */
    public PairingToken withHandle(Handle other) {
        try {
            String[] parts = text.split("\\|", -1);
            parts[3] = other.reveal();
            return new PairingToken(String.join("|", parts));
        } catch (PairingException error) {
            throw new IllegalStateException("the other parts are valid", error);
        }
    }

    Magic magic() {
        return magic;
    }

    String deviceToken() {
        return deviceToken;
    }

    /** What senders address the phone by. */
    String address() {
        return handle == null ? deviceToken : handle.reveal();
    }

    /**
     * Seals a notification for this phone, in the format of its app.
     *
     * @param notification the notification
     * @param options how it is delivered
     * @return the envelope
     * @throws RejectionException if the envelope breaks a rule of the protocol, e.g. because the text is too long
     */
    public Envelope seal(BisqNotification notification, Envelope.Options options) throws RejectionException {
        return seal(notification, options, format, Schema.BISQ);
    }

    /**
     * Seals a notification for this phone.
     *
     * @param notification the notification
     * @param options how it is delivered
     * @param form the format that the phone's app decrypts
     * @param schema what the phone's app reads
     * @return the envelope
     * @throws RejectionException if the envelope breaks a rule of the protocol, e.g. because the text is too long
     */
    public Envelope seal(
            BisqNotification notification, Envelope.Options options, EnvelopeFormat form, Schema schema)
            throws RejectionException {
        return seal(notification.encode(form, schema), options, form, null, BUCKET);
    }

    /**
     * Seals a clear text of the app's own form for this phone, in the format that its app decrypts. The text is padded
     * with spaces.
     *
     * @param clearText the text
     * @param options how it is delivered
     * @return the envelope
     * @throws RejectionException if the envelope breaks a rule of the protocol, e.g. because the text is too long
     */
    public Envelope seal(byte[] clearText, Envelope.Options options) throws RejectionException {
        return seal(clearText, options, format, null, BUCKET);
    }

    /**
     * Seals a clear text for this phone.
     *
     * @param clearText the text
     * @param options how it is delivered
     * @param form the format that the phone's app decrypts
     * @param iv an initialisation vector, which must not be used twice; {@code null} for a random one;
     *     Web Push has none
     * @param bucket pads the text to a multiple of this; 1 for no more padding than the cipher needs
     * @return the envelope
     * @throws RejectionException if the envelope breaks a rule of the protocol, e.g. because the text is too long
     */
    public Envelope seal(byte[] clearText, Envelope.Options options, EnvelopeFormat form, byte[] iv, int bucket)
            throws RejectionException {
        int room = magic == Magic.WEB ? WebPush.MAXIMUM_TEXT : form == EnvelopeFormat.PIPE ? 3072 : 3072 - GCM_TAG;
        if (clearText.length > room) {
            throw new RejectionException(104, "the text is too long by " + (clearText.length - room)
                    + " bytes: letters beyond ASCII have 2 to 4 bytes, and ' < > & = 6");
        }
        if (magic == Magic.WEB) {
            byte[] message = WebPush.seal(padded(clearText, bucket, EnvelopeFormat.SEALED), receiver, secret);
            return new Envelope(magic, deviceToken, handle, new byte[0], message, form, options);
        }
        byte[] vector = iv != null ? iv : freshIv(form);
        byte[] text = padded(clearText, bucket, form);
        byte[] ciphertext = {};
        // The envelope rejects an iv of another length.
        if (form == EnvelopeFormat.PIPE && vector.length == 16) {
            ciphertext = Crypto.cbc(key, vector, text);
        } else if (form == EnvelopeFormat.SEALED && vector.length == 12) {
            ciphertext = Crypto.gcm(key, vector, text);
        }
        return new Envelope(magic, deviceToken, handle, vector, ciphertext, form, options);
    }

    /**
     * Signs an envelope with the sender key of this pairing, which all desktops with the pairing derive.
     *
     * @param envelope the envelope
     * @return the signature
     */
    public Signature sign(Envelope envelope) {
        return Crypto.sign(senderSeed(), Bytes.join(Bytes.of("tnp1-sender"), envelope.digest()));
    }

    /** The device token as nodes know the phone by it: Apple's hexadecimal digits in lower case (PROTOCOL §3, "Identity"). */
    String identity() {
        return identity(magic, deviceToken);
    }

    static String identity(Magic magic, String deviceToken) {
        boolean isApple = magic == Magic.IOS || magic == Magic.IOS_DEV;
        return isApple ? deviceToken.toLowerCase(Locale.ROOT) : deviceToken;
    }

    /** The seed of the sender key. */
    byte[] senderSeed() {
        return Crypto.blake2b(
                key, Bytes.of("tnp1-sender-seed"), handle == null ? Bytes.of(deviceToken) : handle.bytes());
    }

    private static byte[] freshIv(EnvelopeFormat form) {
        byte[] bytes = Crypto.random(12);
        return form == EnvelopeFormat.PIPE ? Base64.getEncoder().encode(bytes) : bytes;
    }

    /** Pads a text with spaces, which the phones' JSON parsers skip. */
    static byte[] padded(byte[] text, int bucket, EnvelopeFormat form) {
        int length = (text.length + bucket - 1) / bucket * bucket;
        if (length > MAXIMUM_PADDED) {
            length = Math.max(text.length, MAXIMUM_PADDED);
        }
        int block = form == EnvelopeFormat.PIPE ? 16 : 1;
        byte[] output = Arrays.copyOf(text, (length + block - 1) / block * block);
        Arrays.fill(output, text.length, output.length, (byte) ' ');
        return output;
    }

    /** Whether both have the same text. */
    @Override
    public boolean equals(Object other) {
        return other instanceof PairingToken token && token.text.equals(text);
    }

    /** The hash of the text. */
    @Override
    public int hashCode() {
        return text.hashCode();
    }

    /** Prints nothing of the content. */
    @Override
    public String toString() {
        return "<PairingToken redacted>";
    }
}
