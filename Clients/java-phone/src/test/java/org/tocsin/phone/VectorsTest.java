// SPDX-License-Identifier: Apache-2.0
package org.tocsin.phone;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.bouncycastle.crypto.digests.Blake2bDigest;
import org.bouncycastle.crypto.digests.SHA3Digest;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The vectors of Tests/Conformance/vectors/tnp1.json, which another implementation makes. */
class VectorsTest {
    private static Map<String, Object> vectors;

    @BeforeAll
    static void read() throws IOException, PhoneException {
        Path file = Paths.get(System.getProperty("user.dir"), "../../Tests/Conformance/vectors/tnp1.json");
        vectors = Json.object(Files.readAllBytes(file));
    }

    @SuppressWarnings("unchecked")
    private static List<Map<String, Object>> list(String name) {
        List<Map<String, Object>> list = (List<Map<String, Object>>) vectors.get(name);
        assertTrue(!list.isEmpty());
        return list;
    }

    private static byte[] hex(Object text) {
        return Bytes.ofHex((String) text);
    }

    @Test
    void sealedNotificationsOpen() throws PhoneException {
        for (Map<String, Object> vector : list("sealing")) {
            boolean isPipe = vector.get("format").equals("pipe");
            String key = isPipe
                    ? (String) vector.get("key")
                    : Base64.getEncoder().encodeToString(hex(vector.get("key")));
            PhonePairing pairing = PhonePairing.parse("android|x|" + key + "|a device token");
            String delivered = (String) vector.get("delivered");
            assertEquals(vector.get("plaintext"), Bytes.text(pairing.open(delivered)));
            // The ciphers of the format pipe do not authenticate.
            if (!isPipe) {
                assertThrows(PhoneException.class, () -> pairing.open(delivered.substring(4)));
            }
        }
    }

    @Test
    void webPushOpens() throws PhoneException {
        // Appendix A of RFC 8291.
        WebPushReceiver receiver = WebPushReceiver.of(
                Base64.getUrlDecoder().decode("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"),
                Base64.getUrlDecoder().decode("BTBZMqHH6r4Tts7J_aSIgg"));
        PhonePairing pairing = PhonePairing.create("https://push.example/x", receiver, "x");
        for (Map<String, Object> vector : list("web_push")) {
            assertEquals(vector.get("p256dh"), receiver.publicKeyText());
            assertEquals(vector.get("auth"), receiver.secretText());
            byte[] message = hex(vector.get("ciphertext"));
            assertEquals(vector.get("plaintext"), Bytes.text(pairing.openWebPush(message)));
            message[message.length - 1] ^= 1;
            assertThrows(PhoneException.class, () -> pairing.openWebPush(message));
            // A point that is not on the curve.
            message[30] ^= 1;
            assertThrows(PhoneException.class, () -> pairing.openWebPush(message));
        }
        assertEquals(pairing.reveal(), PhonePairing.parse(pairing.reveal(), receiver).reveal());
        WebPushReceiver made = WebPushReceiver.create();
        assertEquals(made.publicKeyText(), WebPushReceiver.of(made.privateKey(), made.secret()).publicKeyText());
    }

    @Test
    void notificationsAreRead() throws PhoneException {
        for (Map<String, Object> vector : list("notifications")) {
            PhoneNotification notification = PhoneNotification.parse(Bytes.of(vector.get("text") + "  "));
            assertEquals(1, notification.version());
            assertEquals(vector.get("type"), notification.type());
            assertEquals(vector.get("title"), notification.title());
            assertEquals(vector.get("message"), notification.message());
            assertEquals(vector.get("tx_id"), notification.tradeId());
            assertEquals(vector.get("action_required"), notification.actionRequired());
            assertEquals(vector.get("sent_date"), notification.sentDate());
        }
        String later = "{\"version\":2,\"type\":\"CHAT\",\"title\":\"\",\"message\":\"\",\"sentDate\":1,\"more\":[{},-1.5e3,99999999999999999999,true]}";
        assertEquals("CHAT", PhoneNotification.parse(Bytes.of(later)).type());
        StringBuilder deep = new StringBuilder();
        for (int depth = 0; depth < 5000; depth++) {
            deep.append("{\"a\":");
        }
        for (String wrong : new String[] {"", "{}", "[]", "{\"a\":1", later + "x", "{\"a\":\"\\u12\"}", deep.toString()}) {
            assertThrows(PhoneException.class, () -> PhoneNotification.parse(Bytes.of(wrong)));
        }
    }

    @Test
    void senderKeysAreTheDesktops() throws PhoneException {
        for (Map<String, Object> vector : list("sender_keys")) {
            String token = vector.containsKey("handle")
                    ? PhoneHandle.PREFIX + vector.get("handle")
                    : (String) vector.get("device_token");
            PhonePairing pairing = PhonePairing.parse("android|x|" + vector.get("key") + "|" + token);
            assertArrayEquals(hex(vector.get("sender_key")), pairing.senderKey());
        }
    }

    /** The fields of a frame by tag. */
    private static TreeMap<Integer, byte[]> fields(byte[] frame) {
        TreeMap<Integer, byte[]> fields = new TreeMap<>();
        for (int position = 9; position < frame.length; ) {
            int length = (int) Bytes.number(frame, position + 1, 2);
            fields.put(frame[position] & 0xFF, Arrays.copyOfRange(frame, position + 3, position + 3 + length));
            position += 3 + length;
        }
        return fields;
    }

    @Test
    void requestsAboutHandlesHaveTheirBytes() throws PhoneException {
        int checked = 0;
        for (Map<String, Object> vector : list("handle_signatures")) {
            if (!Boolean.TRUE.equals(vector.get("holds"))) {
                continue;
            }
            byte[] frame = hex(vector.get("bytes"));
            TreeMap<Integer, byte[]> fields = fields(frame);
            List<byte[]> keys = new ArrayList<>();
            byte[] joined = fields.getOrDefault(0x21, new byte[0]);
            for (int start = 0; start < joined.length; start += 32) {
                keys.add(Arrays.copyOfRange(joined, start, start + 32));
            }
            PhonePairing phone = fields.containsKey(0x02)
                    ? PhonePairing.parse(Bytes.text(fields.get(0x01)) + "|x|12345678901234567890123456789012|"
                            + Bytes.text(fields.get(0x02)))
                    : null;
            PhoneHandle handle = fields.containsKey(0x0B) ? new PhoneHandle(fields.get(0x0B)) : null;
            long sequence = Bytes.number(fields.get(0x22), 0, 8);
            HandleOwner owner = HandleOwner.of(hex(vector.get("private_seed")));
            String host = host(hex(vector.get("onion")));
            HandleCall call = handle == null
                    ? HandleCall.register(
                            phone, Bytes.text(fields.getOrDefault(0x0A, new byte[0])), keys, sequence, host, owner)
                    : phone == null
                            ? HandleCall.forget(handle, sequence, host, owner)
                            : HandleCall.rotate(handle, phone, keys, sequence, host, owner);
            assertArrayEquals(hex(vector.get("hash")), call.digest());
            byte[] made = call.frame((int) Bytes.number(frame, 5, 4), fields.get(0x10));
            assertEquals(vector.get("bytes"), Bytes.hex(made), (String) vector.get("name"));
            checked++;
        }
        assertTrue(checked > 5);
    }

    /** A host with this public key; an address without tor for zeros. */
    private static String host(byte[] key) {
        if (Arrays.equals(key, new byte[32])) {
            return "127.0.0.1";
        }
        SHA3Digest digest = new SHA3Digest(256);
        byte[] message = Bytes.join(Bytes.of(".onion checksum"), key, new byte[] {3});
        digest.update(message, 0, message.length);
        byte[] checksum = new byte[32];
        digest.doFinal(checksum, 0);
        StringBuilder label = new StringBuilder();
        byte[] address = Bytes.join(key, Arrays.copyOf(checksum, 2), new byte[] {3});
        for (int bit = 0; bit < address.length * 8; bit += 5) {
            int value = 0;
            for (int offset = 0; offset < 5; offset++) {
                value = value << 1 | (address[(bit + offset) / 8] >> (7 - (bit + offset) % 8) & 1);
            }
            label.append("abcdefghijklmnopqrstuvwxyz234567".charAt(value));
        }
        return label + ".onion";
    }

    @Test
    void aProofIsSmallEnough() throws PhoneException {
        String json = "{\"seed\":\"" + Bytes.hex(new byte[16]) + "\",\"effort\":500,\"lifetime\":60,\"onion\":\""
                + Bytes.hex(new byte[32]) + "\"}";
        HandleCall call = HandleCall.forget(new PhoneHandle(new byte[32]), 1, "127.0.0.1", HandleOwner.create());
        byte[] proof = HandleChallenge.parse(Bytes.of(json)).solve(call);
        Blake2bDigest digest = new Blake2bDigest(256);
        byte[] message = Bytes.join(
                Bytes.of("tnp1-puzzle"), new byte[16], call.digest(), Arrays.copyOfRange(proof, 4, 16));
        digest.update(message, 0, message.length);
        byte[] hash = new byte[32];
        digest.doFinal(hash, 0);
        assertTrue(Long.compareUnsigned(Bytes.number(hash, 0, 8), Long.divideUnsigned(-1L, 500)) <= 0);
        HandleChallenge tooMuch = HandleChallenge.parse(Bytes.of(json.replace(":500", ":4000000000")));
        assertThrows(PhoneException.class, () -> tooMuch.solve(call));
    }
}
