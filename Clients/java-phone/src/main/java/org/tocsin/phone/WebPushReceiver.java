// SPDX-License-Identifier: Apache-2.0
package org.tocsin.phone;

import java.math.BigInteger;
import java.security.GeneralSecurityException;
import java.util.Arrays;
import org.bouncycastle.math.ec.ECPoint;
import org.bouncycastle.math.ec.FixedPointCombMultiplier;

/** The keys of a receiver of Web Push (RFC 8291 §3), with which it subscribes and opens messages. Prints without its content. */
public final class WebPushReceiver {
    private static final int SECRET = 16;
    private static final int SALT = 16;
    private static final int POINT = 65;
    private static final int TAG = 16;
    private static final int HEADER = SALT + 4 + 1 + POINT;
    /** The delimiter of the last record's padding (RFC 8188 §2). */
    private static final byte LAST_RECORD = 2;

    private final BigInteger privateKey;
    private final byte[] publicKey;
    private final byte[] secret;

    private WebPushReceiver(BigInteger privateKey, byte[] secret) {
        this.privateKey = privateKey;
        this.secret = secret;
        publicKey = new FixedPointCombMultiplier().multiply(Crypto.P256.getG(), privateKey).getEncoded(false);
    }

    /**
     * Makes new keys.
     *
     * @return the keys
     */
    public static WebPushReceiver create() {
        return new WebPushReceiver(Crypto.randomScalar(), Crypto.random(SECRET));
    }

    /**
     * Takes existing keys.
     *
     * @param privateKey the private key of P-256, 32 bytes
     * @param secret the authentication secret, 16 bytes
     * @return the keys
     * @throws IllegalArgumentException if they are none
     */
    public static WebPushReceiver of(byte[] privateKey, byte[] secret) {
        BigInteger number = new BigInteger(1, privateKey);
        if (privateKey.length != 32
                || secret.length != SECRET
                || number.signum() == 0
                || number.compareTo(Crypto.P256.getN()) >= 0) {
            throw new IllegalArgumentException("not a private key of 32 bytes and a secret of 16");
        }
        return new WebPushReceiver(number, secret.clone());
    }

    /**
     * The private key, to store where secrets belong.
     *
     * @return 32 bytes
     */
    public byte[] privateKey() {
        return Bytes.number(privateKey);
    }

    /**
     * The authentication secret, to store where secrets belong.
     *
     * @return 16 bytes
     */
    public byte[] secret() {
        return secret.clone();
    }

    /**
     * The public key as distributors and pairing tokens have it: {@code p256dh}.
     *
     * @return unpadded Base64url
     */
    public String publicKeyText() {
        return Bytes.urlBase64(publicKey);
    }

    /**
     * The authentication secret as distributors and pairing tokens have it: {@code auth}.
     *
     * @return unpadded Base64url
     */
    public String secretText() {
        return Bytes.urlBase64(secret);
    }

    /** Opens a message in the content coding {@code aes128gcm} (RFC 8188) of one record. */
    byte[] open(byte[] message) throws PhoneException {
        if (message.length <= HEADER + TAG || message[SALT + 4] != POINT) {
            throw new PhoneException("the message is too short for Web Push, or not from a sender of notifications");
        }
        byte[] salt = Arrays.copyOf(message, SALT);
        byte[] point = Arrays.copyOfRange(message, SALT + 5, HEADER);
        try {
            // Throws for a point that is not on the curve.
            ECPoint shared =
                    Crypto.P256.getCurve().decodePoint(point).multiply(privateKey).normalize();
            byte[] info = Bytes.join(Bytes.of("WebPush: info\0"), publicKey, point);
            byte[] material = Crypto.derive(shared.getAffineXCoord().getEncoded(), secret, info, 32);
            byte[] key = Crypto.derive(material, salt, Bytes.of("Content-Encoding: aes128gcm\0"), 16);
            byte[] nonce = Crypto.derive(material, salt, Bytes.of("Content-Encoding: nonce\0"), 12);
            byte[] text = Crypto.openGcm(key, nonce, message, HEADER);
            // Zeros after the delimiter are padding.
            int end = text.length;
            while (end > 0 && text[end - 1] == 0) {
                end--;
            }
            if (end > 0 && text[end - 1] == LAST_RECORD) {
                return Arrays.copyOf(text, end - 1);
            }
        } catch (GeneralSecurityException | IllegalArgumentException error) {
            // What it says is of no use, and could quote the message.
        }
        throw new PhoneException("the message is damaged, or sealed for other keys");
    }

    /** Prints nothing of the content. */
    @Override
    public String toString() {
        return "<WebPushReceiver redacted>";
    }
}
