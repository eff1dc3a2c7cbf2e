// SPDX-License-Identifier: Apache-2.0
package org.tocsin.phone;

import java.math.BigInteger;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import javax.crypto.Cipher;
import javax.crypto.Mac;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.bouncycastle.asn1.x9.X9ECParameters;
import org.bouncycastle.crypto.digests.Blake2bDigest;
import org.bouncycastle.crypto.ec.CustomNamedCurves;
import org.bouncycastle.crypto.params.Ed25519PrivateKeyParameters;
import org.bouncycastle.crypto.signers.Ed25519Signer;

/** What the phone computes: BLAKE2b, Ed25519 and P-256 from BouncyCastle, AES and HMAC from the system. */
final class Crypto {
    static final X9ECParameters P256 = CustomNamedCurves.getByName("P-256");

    private static final SecureRandom RANDOM = new SecureRandom();

    private Crypto() {}

    static byte[] random(int length) {
        byte[] bytes = new byte[length];
        RANDOM.nextBytes(bytes);
        return bytes;
    }

    /** A private key of P-256. */
    static BigInteger randomScalar() {
        BigInteger order = P256.getN();
        // Uniform below order - 1 but for 2^-128 (FIPS 186-5, A.2.1).
        return new BigInteger(order.bitLength() + 128, RANDOM).mod(order.subtract(BigInteger.ONE)).add(BigInteger.ONE);
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

    static byte[] publicKey(byte[] seed) {
        return new Ed25519PrivateKeyParameters(seed, 0).generatePublicKey().getEncoded();
    }

    static byte[] sign(byte[] seed, byte[] message) {
        Ed25519Signer signer = new Ed25519Signer();
        signer.init(true, new Ed25519PrivateKeyParameters(seed, 0));
        signer.update(message, 0, message.length);
        return signer.generateSignature();
    }

    /** AES-CBC without padding, as Bisq 1's apps decrypt it. */
    static byte[] openCbc(byte[] key, byte[] iv, byte[] ciphertext) throws GeneralSecurityException {
        Cipher cipher = Cipher.getInstance("AES/CBC/NoPadding");
        cipher.init(Cipher.DECRYPT_MODE, new SecretKeySpec(key, "AES"), new IvParameterSpec(iv));
        return cipher.doFinal(ciphertext);
    }

    /** AES-GCM with the tag of 16 bytes at the end. */
    static byte[] openGcm(byte[] key, byte[] nonce, byte[] sealed, int start) throws GeneralSecurityException {
        Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
        cipher.init(Cipher.DECRYPT_MODE, new SecretKeySpec(key, "AES"), new GCMParameterSpec(128, nonce));
        return cipher.doFinal(sealed, start, sealed.length - start);
    }

    /** HKDF (RFC 5869) whose output fits in one block. */
    static byte[] derive(byte[] material, byte[] salt, byte[] info, int length) throws GeneralSecurityException {
        byte[] block = hmac(hmac(salt, material), Bytes.join(info, new byte[] {1}));
        byte[] output = new byte[length];
        System.arraycopy(block, 0, output, 0, length);
        return output;
    }

    private static byte[] hmac(byte[] key, byte[] message) throws GeneralSecurityException {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        return mac.doFinal(message);
    }
}
