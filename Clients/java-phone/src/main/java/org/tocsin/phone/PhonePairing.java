// SPDX-License-Identifier: Apache-2.0
package org.tocsin.phone;

import java.security.GeneralSecurityException;
import java.util.Arrays;

/**
 * What a phone gives a desktop by QR code, and keeps to open notifications (PROTOCOL §3). Prints without its content. To store
 * it where secrets belong, keep {@link #reveal()} and, for Web Push, the keys of the receiver.
 */
public final class PhonePairing {
    private static final int KEY = 32;
    private static final int IV = 16;
    private static final int NONCE = 12;
    private static final int TAG = 16;

    private final Platform platform;
    private final String descriptor;
    /** Whether the key has 32 characters: AES-256-CBC, as Bisq 1's apps open it. Every new pairing has AES-256-GCM. */
    private final boolean isPipe;

    private final byte[] key;
    private final String deviceToken;
    private final PhoneHandle handle;
    private final WebPushReceiver receiver;

    private PhonePairing(
            Platform platform,
            String descriptor,
            boolean isPipe,
            byte[] key,
            String deviceToken,
            PhoneHandle handle,
            WebPushReceiver receiver) {
        this.platform = platform;
        this.descriptor = descriptor.replaceAll("[|\\x00-\\x1f\\x7f]", " ");
        this.isPipe = isPipe;
        this.key = key;
        this.deviceToken = deviceToken;
        this.handle = handle;
        this.receiver = receiver;
    }

    /**
     * Makes a pairing with a new key.
     *
     * @param platform how notifications reach the phone; not {@link Platform#WEB}
     * @param deviceToken what the system told the app; Apple's 32 bytes as hexadecimal digits
     * @param descriptor the phone's model, for display. A bar or control character in it becomes a space
     * @return the pairing
     */
    public static PhonePairing create(Platform platform, String deviceToken, String descriptor) {
        if (platform.hasReceiver()) {
            throw new IllegalArgumentException("Web Push has keys of its own");
        }
        return new PhonePairing(platform, descriptor, false, Crypto.random(KEY), deviceToken, null, null);
    }

    /**
     * Makes a pairing for Web Push, with a new key.
     *
     * @param endpoint the URL that the distributor gave the app
     * @param receiver the keys with which the app has subscribed
     * @param descriptor the phone's model, for display
     * @return the pairing
     */
    public static PhonePairing create(String endpoint, WebPushReceiver receiver, String descriptor) {
        return new PhonePairing(Platform.WEB, descriptor, false, Crypto.random(KEY), endpoint, null, receiver);
    }

    /**
     * Reads a pairing token that the phone has given out or stored.
     *
     * @param text the text of the QR code
     * @return the pairing
     * @throws PhoneException if it is none
     */
    public static PhonePairing parse(String text) throws PhoneException {
        return parse(text, null);
    }

    /**
     * Reads a pairing token for Web Push that the phone has given out or stored.
     *
     * @param text the text of the QR code
     * @param receiver the keys, whose private half is not in the text; {@code null} for Apple and Google
     * @return the pairing
     * @throws PhoneException if it is none
     */
    public static PhonePairing parse(String text, WebPushReceiver receiver) throws PhoneException {
        String[] parts = text.split("\\|", -1);
        Platform platform = Platform.of(parts[0]);
        if (parts.length != (platform.hasReceiver() ? 6 : 4) || platform.hasReceiver() != (receiver != null)) {
            throw new PhoneException("not a pairing token: it has four parts, or six for Web Push, whose keys it needs");
        }
        boolean isPipe = Bytes.of(parts[2]).length == KEY;
        byte[] key = isPipe ? Bytes.of(parts[2]) : Bytes.ofBase64(parts[2]);
        if (key == null || key.length != KEY) {
            throw new PhoneException("not a pairing token: the key is neither 32 characters nor the Base64 of 32 bytes");
        }
        boolean isHandle = parts[3].startsWith(PhoneHandle.PREFIX);
        if (parts[3].isEmpty()) {
            throw new PhoneException("not a pairing token: the fourth part is empty");
        }
        return new PhonePairing(
                platform,
                parts[1],
                isPipe,
                key,
                isHandle ? "" : parts[3],
                isHandle ? PhoneHandle.parse(parts[3]) : null,
                receiver);
    }

    /**
     * The same pairing with a handle, which the desktop gets in the place of the device token.
     *
     * @param handle what {@link HandleService#register} returned
     * @return the pairing
     */
    public PhonePairing with(PhoneHandle handle) {
        return new PhonePairing(platform, descriptor, isPipe, key, deviceToken, handle, receiver);
    }

    /**
     * The same pairing with another device token, to rotate handles to.
     *
     * @param deviceToken what the system told the app, or the new push endpoint
     * @return the pairing
     */
    public PhonePairing with(String deviceToken) {
        return new PhonePairing(platform, descriptor, isPipe, key, deviceToken, handle, receiver);
    }

    /**
     * The text of the QR code. It contains the key: show it to nobody but the desktop.
     *
     * @return {@code platform|descriptor|key|device token}, or the handle in the place of the device token, and for Web Push
     *     the two public parts of the receiver
     */
    public String reveal() {
        String keyText = isPipe ? Bytes.text(key) : Bytes.base64(key);
        String address = handle == null ? deviceToken : handle.reveal();
        String text = platform.magic + "|" + descriptor + "|" + keyText + "|" + address;
        return receiver == null ? text : text + "|" + receiver.publicKeyText() + "|" + receiver.secretText();
    }

    /**
     * The public half of the key with which desktops that have this pairing sign (PROTOCOL §3): list it as a sender key of the
     * handle, and only they ring the phone. It differs by device token and by handle.
     *
     * @return 32 bytes
     */
    public byte[] senderKey() {
        byte[] address = handle == null ? Bytes.of(deviceToken) : handle.bytes();
        return Crypto.publicKey(Crypto.blake2b(key, Bytes.of("tnp1-sender-seed"), address));
    }

    Platform platform() {
        return platform;
    }

    String deviceToken() {
        return deviceToken;
    }

    /**
     * Opens a notification from Apple or Google.
     *
     * @param encrypted the value of the key {@code encrypted}: Base64 of nonce, ciphertext and tag, or for a key of 32
     *     characters {@code MAGIC|IV|Base64 of the ciphertext}, which is proof of nothing: it is not authenticated
     * @return the clear text, without the spaces that pad it
     * @throws PhoneException if it cannot be opened
     */
    public byte[] open(String encrypted) throws PhoneException {
        try {
            if (isPipe) {
                String[] parts = encrypted.split("\\|", -1);
                byte[] ciphertext = parts.length == 3 ? Bytes.ofBase64(parts[2]) : null;
                if (ciphertext == null || Bytes.of(parts[1]).length != IV) {
                    throw new PhoneException("the notification is not MAGIC|IV|Base64");
                }
                return Bytes.withoutPadding(Crypto.openCbc(key, Bytes.of(parts[1]), ciphertext));
            }
            byte[] sealed = Bytes.ofBase64(encrypted);
            if (sealed == null || sealed.length <= NONCE + TAG) {
                throw new PhoneException("the notification is not Base64, or too short");
            }
            return Bytes.withoutPadding(Crypto.openGcm(key, Arrays.copyOf(sealed, NONCE), sealed, NONCE));
        } catch (GeneralSecurityException error) {
            throw new PhoneException("the notification is damaged, or sealed with another key");
        }
    }

    /**
     * Opens the body of a Web Push message.
     *
     * @param body the bytes that the distributor delivers
     * @return the clear text, without the spaces that pad it
     * @throws PhoneException if it cannot be opened
     */
    public byte[] openWebPush(byte[] body) throws PhoneException {
        if (receiver == null) {
            throw new PhoneException("this phone does not receive Web Push");
        }
        return Bytes.withoutPadding(receiver.open(body));
    }

    /** Prints nothing of the content. */
    @Override
    public String toString() {
        return "<PhonePairing redacted>";
    }
}
