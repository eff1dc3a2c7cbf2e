// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.math.BigInteger;
import java.security.AlgorithmParameters;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.interfaces.ECPublicKey;
import java.security.spec.ECFieldFp;
import java.security.spec.ECGenParameterSpec;
import java.security.spec.ECParameterSpec;
import java.security.spec.ECPoint;
import java.security.spec.ECPublicKeySpec;
import java.security.spec.EllipticCurve;
import java.util.Arrays;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.KeyAgreement;

/** Web Push: push endpoints (PROTOCOL §15), and the encryption of messages for a phone or browser (RFC 8291). */
final class WebPush {
    /** The length of an authentication secret. */
    static final int SECRET_LENGTH = 16;

    /** The length of a public key, a point of P-256 in uncompressed form. */
    static final int KEY_LENGTH = 65;

    private static final int RECORD_SIZE = 4096;
    private static final int SALT_LENGTH = 16;

    /** The longest clear text: a message without its header, the mark of the last record and the tag (RFC 8188 §2). */
    static final int MAXIMUM_TEXT = RECORD_SIZE - (SALT_LENGTH + 4 + 1 + KEY_LENGTH + 1 + 16);

    private static final String LABEL = "(?!xn--)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
    private static final String ONION = "(?:" + LABEL + "\\.)*[a-z0-9]{56}\\.onion";
    private static final Pattern ENDPOINT = Pattern.compile("(?:https://(?<name>(?:" + LABEL + "\\.)*(?![0-9])" + LABEL
            + ")|http://(?<onion>" + ONION + "))(?::(?<port>[1-9][0-9]{0,4}))?/[!$-;=?-\\[\\]_a-z~]*");

    private WebPush() {}

    /** Checks that a text is a push endpoint, in the only valid way to write it. */
    static void checkEndpoint(String url) throws RejectionException {
        Matcher match = ENDPOINT.matcher(url);
        if (url.length() > 1024 || !match.matches()) {
            throw new RejectionException(
                    102,
                    "a push endpoint is a URL of at most 1024 characters, https://NAME/PATH, with a lower-case name that "
                            + "is no IP address");
        }
        String name = match.group("name") != null ? match.group("name") : match.group("onion");
        String port = match.group("port");
        if (name.length() > 253 || (port != null && Integer.parseInt(port) > 65535)) {
            throw new RejectionException(102, "the push endpoint's name or port is not valid");
        }
        if (name.endsWith(".onion") && !name.matches(ONION)) {
            throw new RejectionException(102, "the push endpoint's name is no onion service of version 3");
        }
    }

    /** Decodes a public key; throws {@link IllegalArgumentException} if the bytes are no point of the curve. */
    static ECPublicKey publicKey(byte[] encoded) {
        if (encoded.length != KEY_LENGTH || encoded[0] != 4) {
            throw new IllegalArgumentException("not an uncompressed point");
        }
        BigInteger x = new BigInteger(1, Arrays.copyOfRange(encoded, 1, 33));
        BigInteger y = new BigInteger(1, Arrays.copyOfRange(encoded, 33, KEY_LENGTH));
        ECParameterSpec parameters = parameters();
        EllipticCurve curve = parameters.getCurve();
        BigInteger prime = ((ECFieldFp) curve.getField()).getP();
        // The JDK does not check whether the point is on the curve.
        BigInteger right = x.pow(3).add(curve.getA().multiply(x)).add(curve.getB()).mod(prime);
        if (x.compareTo(prime) >= 0
                || y.compareTo(prime) >= 0
                || !y.pow(2).mod(prime).equals(right)) {
            throw new IllegalArgumentException("not a point of P-256");
        }
        try {
            return (ECPublicKey)
                    KeyFactory.getInstance("EC").generatePublic(new ECPublicKeySpec(new ECPoint(x, y), parameters));
        } catch (GeneralSecurityException error) {
            throw new IllegalArgumentException("not a point of P-256", error);
        }
    }

    static ECParameterSpec parameters() {
        try {
            AlgorithmParameters parameters = AlgorithmParameters.getInstance("EC");
            parameters.init(new ECGenParameterSpec("secp256r1"));
            return parameters.getParameterSpec(ECParameterSpec.class);
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("P-256 is not available", error);
        }
    }

    /**
     * Encrypts a text for a receiver as a message in the content coding {@code aes128gcm}, with a new key.
     *
     * @param receiver the receiver's public key, {@code p256dh}
     * @param secret the receiver's authentication secret, {@code auth}
     */
    static byte[] seal(byte[] text, byte[] receiver, byte[] secret) throws RejectionException {
        try {
            KeyPairGenerator generator = KeyPairGenerator.getInstance("EC");
            generator.initialize(new ECGenParameterSpec("secp256r1"));
            return seal(text, receiver, secret, generator.generateKeyPair(), Crypto.random(SALT_LENGTH));
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("P-256 is not available", error);
        }
    }

    static byte[] seal(byte[] text, byte[] receiver, byte[] secret, KeyPair sender, byte[] salt)
            throws RejectionException {
        if (text.length > MAXIMUM_TEXT) {
            throw new RejectionException(104, "the text is too long for Web Push");
        }
        byte[] own = encoded(((ECPublicKey) sender.getPublic()).getW());
        byte[] shared;
        try {
            KeyAgreement agreement = KeyAgreement.getInstance("ECDH");
            agreement.init(sender.getPrivate());
            agreement.doPhase(publicKey(receiver), true);
            shared = agreement.generateSecret();
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("ECDH is not available", error);
        }
        byte[] material = derive(shared, secret, Bytes.join(Bytes.of("WebPush: info\0"), receiver, own), 32);
        byte[] key = derive(material, salt, Bytes.of("Content-Encoding: aes128gcm\0"), 16);
        byte[] nonce = derive(material, salt, Bytes.of("Content-Encoding: nonce\0"), 12);
        byte[] record = Crypto.gcm(key, nonce, Bytes.join(text, new byte[] {2}));
        return Bytes.join(salt, Bytes.number(RECORD_SIZE, 4), Bytes.number(own.length, 1), own, record);
    }

    /** HKDF (RFC 5869) whose output fits in one block. */
    private static byte[] derive(byte[] material, byte[] salt, byte[] info, int length) {
        byte[] block = Crypto.hmac(Crypto.hmac(salt, material), Bytes.join(info, new byte[] {1}));
        return Arrays.copyOf(block, length);
    }

    private static byte[] encoded(ECPoint point) {
        byte[] output = new byte[KEY_LENGTH];
        output[0] = 4;
        copy(point.getAffineX(), output, 33);
        copy(point.getAffineY(), output, KEY_LENGTH);
        return output;
    }

    /** Writes a number of at most 32 bytes so that it ends before {@code end}. */
    private static void copy(BigInteger number, byte[] output, int end) {
        byte[] bytes = number.toByteArray();
        // A leading zero for the sign is possible.
        int length = Math.min(bytes.length, 32);
        System.arraycopy(bytes, bytes.length - length, output, end - length, length);
    }
}
