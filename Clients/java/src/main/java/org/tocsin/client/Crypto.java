// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import javax.crypto.Cipher;
import javax.crypto.Mac;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.bouncycastle.crypto.digests.Blake2bDigest;
import org.bouncycastle.crypto.params.Ed25519PrivateKeyParameters;
import org.bouncycastle.crypto.signers.Ed25519Signer;

/** The primitives of TNP/1: BLAKE2b-256 and Ed25519 from BouncyCastle, AES from the JDK. */
final class Crypto {
    private static final SecureRandom RANDOM = new SecureRandom();

    private Crypto() {}

    static byte[] random(int length) {
        byte[] bytes = new byte[length];
        RANDOM.nextBytes(bytes);
        return bytes;
    }

    /** BLAKE2b-256 of the parts in order; {@code key} is {@code null} for none. */
    static byte[] blake2b(byte[] key, byte[]... parts) {
        Blake2bDigest digest = new Blake2bDigest(key, 32, null, null);
        for (byte[] part : parts) {
            digest.update(part, 0, part.length);
        }
        byte[] hash = new byte[32];
        digest.doFinal(hash, 0);
        return hash;
    }

    /** The public key, and the signature of the message. */
    static Signature sign(byte[] seed, byte[] message) {
        Ed25519PrivateKeyParameters key = new Ed25519PrivateKeyParameters(seed, 0);
        Ed25519Signer signer = new Ed25519Signer();
        signer.init(true, key);
        signer.update(message, 0, message.length);
        return new Signature(key.generatePublicKey().getEncoded(), signer.generateSignature());
    }

    /** AES-256-CBC without padding. */
    static byte[] cbc(byte[] key, byte[] iv, byte[] text) {
        try {
            Cipher cipher = Cipher.getInstance("AES/CBC/NoPadding");
            cipher.init(Cipher.ENCRYPT_MODE, new SecretKeySpec(key, "AES"), new IvParameterSpec(iv));
            return cipher.doFinal(text);
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("AES-CBC is not available", error);
        }
    }

    /** HMAC-SHA-256. */
    static byte[] hmac(byte[] key, byte[] message) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            return mac.doFinal(message);
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("HMAC-SHA-256 is not available", error);
        }
    }

    /** AES-GCM with the tag of 16 bytes at the end. */
    static byte[] gcm(byte[] key, byte[] nonce, byte[] text) {
        try {
            Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
            cipher.init(Cipher.ENCRYPT_MODE, new SecretKeySpec(key, "AES"), new GCMParameterSpec(128, nonce));
            return cipher.doFinal(text);
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("AES-GCM is not available", error);
        }
    }
}
