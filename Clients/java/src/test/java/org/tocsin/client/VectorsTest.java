// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.spec.ECPrivateKeySpec;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The client agrees with the protocol's vectors, byte for byte. */
class VectorsTest {
    private static final String APPLE = "d45161df3d172837f1b83bb3e411d5a63120de6b435ff9235adb70d619d162a1";
    private static Map<String, Object> vectors;

    @BeforeAll
    static void read() throws Exception {
        Path file = Path.of(System.getProperty("user.dir"), "../../Tests/Conformance/vectors/tnp1.json");
        vectors = Json.object(Json.parse(Files.readString(file)));
    }

    private static List<Map<String, Object>> list(String name) {
        return Json.list(vectors.get(name)).stream().map(Json::object).toList();
    }

    private static byte[] hex(Object text) {
        return HexFormat.of().parseHex((String) text);
    }

    private static long number(Object value) {
        return value instanceof String text ? Long.parseUnsignedLong(text) : ((Double) value).longValue();
    }

    private static Envelope envelope(Map<String, Object> vector) throws RejectionException {
        byte[] iv = hex(vector.getOrDefault("iv", ""));
        boolean isUrgent = number(vector.getOrDefault("priority", 10.0)) == 10;
        boolean sound = number(vector.getOrDefault("sound", 1.0)) == 1;
        return new Envelope(
                Magic.of((String) vector.getOrDefault("magic", "iOS")).orElseThrow(),
                (String) vector.getOrDefault("device_token", ""),
                vector.containsKey("handle") ? Handle.of(hex(vector.get("handle"))) : null,
                iv,
                hex(vector.get("ciphertext")),
                iv.length == 12 ? EnvelopeFormat.SEALED : EnvelopeFormat.PIPE,
                new Envelope.Options(
                        (String) vector.getOrDefault("app", ""),
                        (int) number(vector.getOrDefault("ttl", (double) Envelope.MAXIMUM_TTL)),
                        isUrgent,
                        sound,
                        Optional.ofNullable((String) vector.get("collapse_id"))));
    }

    private static Optional<Wire.Message> decoded(byte[] bytes) throws ProtocolException {
        Wire.FrameDecoder decoder = new Wire.FrameDecoder();
        decoder.append(ByteBuffer.wrap(bytes));
        Optional<Wire.Message> first = Optional.empty();
        for (Optional<Wire.Frame> frame = decoder.next(); frame.isPresent(); frame = decoder.next()) {
            first = first.or(frame.get()::message);
        }
        return first;
    }

    @Test
    void digests() throws Exception {
        for (Map<String, Object> vector : list("digests")) {
            assertArrayEquals(hex(vector.get("digest")), envelope(vector).digest(), (String) vector.get("name"));
        }
    }

    @Test
    void submissions() throws Exception {
        int checked = 0;
        for (Map<String, Object> vector : list("messages")) {
            if (!vector.get("type").equals("SUBMIT") || vector.containsKey("proof")) {
                continue;
            }
            Signature signature = vector.containsKey("sender_key")
                    ? new Signature(
                            hex(vector.get("sender_key")),
                            hex(vector.get("signature")),
                            vector.containsKey("succession") ? hex(vector.get("succession")) : null)
                    : null;
            boolean acceptQueued = number(vector.getOrDefault("accept_queued", 0.0)) == 1;
            Entry entry = new Entry(envelope(vector), signature, acceptQueued, false, 0, 1, 0);
            byte[] encoded = entry.encode(number(vector.get("request")));
            // The encoder leaves out options with their default value; the vectors also have them present.
            if (encoded.length == hex(vector.get("bytes")).length) {
                assertArrayEquals(hex(vector.get("bytes")), encoded, (String) vector.get("name"));
                checked++;
            }
        }
        assertTrue(checked >= 4);
    }

    @Test
    void deviceTokens() throws Exception {
        for (Map<String, Object> vector : list("device_tokens")) {
            boolean isWeb = vector.get("magic").equals("web");
            Map<String, Object> receiver = list("web_push").get(0);
            String text = vector.get("magic") + "|x|A4C595428CAA4C768F60AE7EBFF85852|" + vector.get("device_token")
                    + (isWeb ? "|" + receiver.get("p256dh") + "|" + receiver.get("auth") : "");
            boolean isValid = true;
            try {
                PairingToken.parse(text);
            } catch (PairingException error) {
                isValid = false;
            }
            assertEquals(vector.get("valid"), isValid, (String) vector.get("name"));
        }
    }

    @Test
    void pastedTokens() throws Exception {
        Path file = Path.of(System.getProperty("user.dir"), "../../Tests/Conformance/vectors/pasted.json");
        for (Object entry : Json.list(Json.parse(Files.readString(file)))) {
            Map<String, Object> vector = Json.object(entry);
            String name = (String) vector.get("name");
            try {
                PairingToken token = PairingToken.parsePasted((String) vector.get("text"));
                assertEquals(vector.get("token"), token.reveal(), name);
            } catch (PairingException error) {
                assertNotNull(vector.get("refused"), name + ": " + error.getMessage());
                assertTrue(error.getMessage().contains((String) vector.get("refused")), name);
            }
        }
    }

    @Test
    void successions() throws Exception {
        // The keys of the vectors come from no pairing, so this holds the signed bytes against two pairings' own keys.
        String token = "D45161DF3D172837F1B83BB3E411D5A63120DE6B435FF9235ADB70D619D162A1";
        PairingToken earlier = PairingToken.parse("iOS|x|A4C595428CAA4C768F60AE7EBFF85852|" + token);
        PairingToken present = PairingToken.parse("iOSDev|x|B4C595428CAA4C768F60AE7EBFF85852|" + token.toLowerCase(Locale.ROOT));
        Signature signature = present.sign(present.seal(
                new BisqNotification(NotificationType.TRADE, "", ""), Envelope.Options.DEFAULT));
        Bytes.Output output = new Bytes.Output();
        signature.succeeding(present, earlier).encode(output);
        byte[] encoded = output.bytes();
        byte[] message = Bytes.join(
                Bytes.of("tnp1-successor"), signature.key(), Bytes.of(token.toLowerCase(Locale.ROOT)));
        Signature old = Crypto.sign(earlier.senderSeed(), message);
        assertArrayEquals(
                Bytes.join(new byte[] {(byte) 0x82, 0, 96}, old.key(), old.signature()),
                Arrays.copyOfRange(encoded, encoded.length - 99, encoded.length));
        PairingToken other = PairingToken.parse("iOS|x|A4C595428CAA4C768F60AE7EBFF85852|ab" + token.substring(2));
        assertThrows(IllegalArgumentException.class, () -> signature.succeeding(present, other));
        for (Map<String, Object> vector : list("successions")) {
            byte[] named = Bytes.join(
                    Bytes.of("tnp1-successor"),
                    hex(vector.get("sender_key")),
                    Bytes.of(PairingToken.identity(Magic.of((String) vector.get("magic")).orElseThrow(), (String) vector.get("device_token"))));
            Signature made = Crypto.sign(hex(vector.get("earlier_private_seed")), named);
            boolean holds = Arrays.equals(hex(vector.get("succession")), Bytes.join(made.key(), made.signature()));
            assertEquals(vector.get("holds"), holds, (String) vector.get("name"));
        }
    }

    /** A host with this public key, whose checksum no signature covers; an address without tor for zeros. */
    private static String onionHost(byte[] key) {
        BigInteger bits = new BigInteger(1, key);
        if (bits.signum() == 0) {
            return "127.0.0.1";
        }
        // 32 bytes of key and 3 more are 56 characters of 5 bits.
        bits = bits.shiftLeft(24);
        StringBuilder label = new StringBuilder();
        for (int place = 55; place >= 0; place--) {
            label.append("abcdefghijklmnopqrstuvwxyz234567".charAt(bits.shiftRight(5 * place).intValue() & 31));
        }
        return label + ".onion";
    }

    @Test
    void requestsOfAHandlesOwner(@TempDir Path folder) throws Exception {
        int checked = 0;
        for (Map<String, Object> signed : list("handle_signatures")) {
            Map<String, Object> vector = list("messages").stream()
                    .filter(message -> message.get("bytes").equals(signed.get("bytes")))
                    .findFirst()
                    .orElse(null);
            // The encoder makes no wrong signatures, and no request for the owner of another key.
            if (vector == null || vector.containsKey("proof") || signed.get("holds").equals(false)) {
                continue;
            }
            Path file = folder.resolve("owner" + checked);
            KeyFile.create(file, hex(signed.get("private_seed")));
            HandleOwner owner = HandleOwner.read(file);
            long sequence = number(vector.get("sequence"));
            String host = onionHost(hex(signed.get("onion")));
            byte[] keys = vector.containsKey("sender_keys") ? hex(vector.get("sender_keys")) : new byte[0];
            List<byte[]> senderKeys = IntStream.range(0, keys.length / 32)
                    .mapToObj(index -> Arrays.copyOfRange(keys, 32 * index, 32 * index + 32))
                    .toList();
            Handle handle = vector.containsKey("handle") ? Handle.of(hex(vector.get("handle"))) : null;
            String key = "A4C595428CAA4C768F60AE7EBFF85852";
            PairingToken phone = vector.containsKey("magic")
                    ? PairingToken.parse(vector.get("magic") + "|x|" + key + "|" + vector.get("device_token"))
                    : null;
            HandleRequest request =
                    switch ((String) vector.get("type")) {
                        case "REGISTER" -> HandleRequest.register(
                                phone, (String) vector.getOrDefault("app", ""), senderKeys, sequence, owner, host);
                        case "ROTATE" -> HandleRequest.rotate(handle, phone, senderKeys, sequence, owner, host);
                        default -> HandleRequest.forget(handle, sequence, owner, host);
                    };
            String name = (String) vector.get("name");
            assertArrayEquals(hex(signed.get("hash")), request.hash(), name);
            assertArrayEquals(
                    hex(vector.get("bytes")), request.encode(number(vector.get("request")), null), name);
            checked++;
        }
        assertEquals(8, checked);
    }

    @Test
    void messagesFromTheNode() throws Exception {
        int checked = 0;
        for (Map<String, Object> vector : list("messages")) {
            String type = (String) vector.get("type");
            if (!vector.get("from").equals("node") || List.of("PING", "PONG").contains(type)) {
                continue;
            }
            String name = (String) vector.get("name");
            Wire.Message message = decoded(hex(vector.get("bytes"))).orElseThrow();
            if (message instanceof Wire.Welcome welcome) {
                assertEquals(number(vector.get("max_frame")), welcome.maxFrame(), name);
                assertEquals(number(vector.get("max_in_flight")), welcome.maxInFlight(), name);
                assertEquals(number(vector.get("idle_timeout")), welcome.idleTimeout(), name);
                assertEquals(number(vector.get("server_time")), welcome.serverTime(), name);
                assertEquals(Json.list(vector.get("routes")), welcome.routes(), name);
            } else if (message instanceof Wire.Result result) {
                assertEquals(number(vector.get("request")), result.request(), name);
                assertEquals(number(vector.get("outcome")), result.outcome().kind().ordinal(), name);
                assertEquals(number(vector.get("reason")), result.outcome().reason(), name);
                assertEquals(number(vector.get("retry_after")), result.outcome().retryAfter(), name);
                assertEquals(vector.get("provider_id"), result.outcome().providerId().orElse(null), name);
                assertEquals(vector.get("text"), result.outcome().text().orElse(null), name);
            } else if (message instanceof Wire.GoAway goAway) {
                assertEquals(number(vector.get("code")), goAway.code(), name);
                assertEquals(number(vector.get("retry_after")), goAway.retryAfter(), name);
            } else if (message instanceof Wire.Registered answer) {
                assertEquals(number(vector.get("request")), answer.request(), name);
                assertEquals(number(vector.get("outcome")), answer.outcome().kind().ordinal(), name);
                assertEquals(number(vector.get("reason")), answer.outcome().reason(), name);
                assertEquals(number(vector.get("retry_after")), answer.outcome().retryAfter(), name);
                assertEquals(
                        Optional.ofNullable((String) vector.get("handle")).map(Handle::parse), answer.handle(), name);
            } else if (message instanceof Wire.Authenticated answer) {
                assertEquals(number(vector.get("outcome")) == 0, answer.isAccepted(), name);
                assertEquals(vector.get("site_name"), answer.name().orElse(null), name);
            } else {
                assertEquals("PUZZLE", type, name);
            }
            checked++;
        }
        assertTrue(checked > 50);
    }

    @Test
    void whatASenderRefuses() {
        int checked = 0;
        for (Map<String, Object> vector : list("refused")) {
            if (vector.get("reader").equals("sender")) {
                assertThrows(
                        ProtocolException.class,
                        () -> decoded(hex(vector.get("bytes"))),
                        (String) vector.get("name"));
                checked++;
            }
        }
        assertTrue(checked > 10);
    }

    @Test
    void puzzles() {
        int checked = 0;
        for (Map<String, Object> vector : list("puzzles")) {
            if (!vector.get("holds").equals(true) || !((String) vector.get("name")).contains("smallest")) {
                continue;
            }
            Wire.Puzzle puzzle = new Wire.Puzzle(hex(vector.get("seed")), number(vector.get("effort")), 60);
            long deadline = System.nanoTime() + 60_000_000_000L;
            Proof proof = Proof.search(puzzle, hex(vector.get("digest")), 0, deadline, new AtomicBoolean());
            byte[] expected = Bytes.join(
                    java.util.Arrays.copyOf(puzzle.seed(), 4),
                    Bytes.number(puzzle.effort(), 4),
                    Bytes.number(number(vector.get("nonce")), 8));
            assertArrayEquals(expected, proof.encoded(), (String) vector.get("name"));
            checked++;
        }
        assertTrue(checked > 2);
    }

    @Test
    void signatures() {
        for (Map<String, Object> vector : list("signatures")) {
            if (vector.get("holds").equals(true)) {
                byte[] message = Bytes.join(Bytes.of("tnp1-sender"), hex(vector.get("digest")));
                Signature signature = Crypto.sign(hex(vector.get("private_seed")), message);
                assertArrayEquals(hex(vector.get("sender_key")), signature.key());
                assertArrayEquals(hex(vector.get("signature")), signature.signature());
            }
        }
    }

    @Test
    void senderKeys() throws Exception {
        for (Map<String, Object> vector : list("sender_keys")) {
            String token = vector.containsKey("handle")
                    ? Handle.PREFIX + vector.get("handle")
                    : (String) vector.get("device_token");
            Map<String, Object> keys = list("web_push").get(0);
            String text = "|x|" + vector.get("key") + "|" + token;
            PairingToken pairing = PairingToken.parse(
                    token.startsWith("https:")
                            ? "web" + text + "|" + keys.get("p256dh") + "|" + keys.get("auth")
                            : (token.length() == 64 ? "iOS" : "android") + text);
            Envelope envelope = pairing.seal(
                    Bytes.of("{}"), Envelope.Options.DEFAULT, pairing.defaultFormat(), null, 1);
            assertArrayEquals(hex(vector.get("sender_key")), pairing.sign(envelope).key());
        }
    }

    @Test
    void notifications() {
        for (Map<String, Object> vector : list("notifications")) {
            BisqNotification notification = new BisqNotification(
                    NotificationType.valueOf((String) vector.get("type")),
                    (String) vector.get("title"),
                    (String) vector.get("message"),
                    (String) vector.get("tx_id"),
                    (String) vector.get("action_required"),
                    ((Number) vector.get("sent_date")).longValue());
            for (EnvelopeFormat format : EnvelopeFormat.values()) {
                assertArrayEquals(
                        Bytes.of((String) vector.get("text")), notification.encode(format, Schema.TOCSIN));
            }
        }
    }

    @Test
    void sealing() throws Exception {
        for (Map<String, Object> vector : list("sealing")) {
            boolean isPipe = vector.get("format").equals("pipe");
            String key = isPipe
                    ? (String) vector.get("key")
                    : Base64.getEncoder().encodeToString(hex(vector.get("key")));
            PairingToken pairing = PairingToken.parse("iOS|x|" + key + "|" + APPLE);
            Envelope envelope = pairing.seal(
                    Bytes.of((String) vector.get("plaintext")),
                    Envelope.Options.DEFAULT,
                    isPipe ? EnvelopeFormat.PIPE : EnvelopeFormat.SEALED,
                    isPipe ? Bytes.of((String) vector.get("iv")) : hex(vector.get("iv")),
                    1);
            Bytes.Output output = new Bytes.Output();
            envelope.encode(output, false);
            String fields = HexFormat.of().formatHex(output.frame(Wire.SUBMIT));
            assertTrue(fields.contains((String) vector.get("ciphertext")), (String) vector.get("name"));
        }
    }

    @Test
    void webPush() throws Exception {
        for (Map<String, Object> vector : list("web_push")) {
            byte[] receiver = Base64.getUrlDecoder().decode((String) vector.get("p256dh"));
            // The point of the sender's key comes out of the vector: the JDK has no multiplication.
            byte[] message = hex(vector.get("ciphertext"));
            KeyPair sender = new KeyPair(
                    WebPush.publicKey(Arrays.copyOfRange(message, 21, 21 + WebPush.KEY_LENGTH)),
                    KeyFactory.getInstance("EC")
                            .generatePrivate(new ECPrivateKeySpec(
                                    new BigInteger((String) vector.get("sender_private_key"), 16),
                                    WebPush.parameters())));
            byte[] sealed = WebPush.seal(
                    Bytes.of((String) vector.get("plaintext")),
                    receiver,
                    Base64.getUrlDecoder().decode((String) vector.get("auth")),
                    sender,
                    hex(vector.get("salt")));
            assertArrayEquals(message, sealed, (String) vector.get("name"));
        }
    }

    @Test
    void pushEndpoints() throws Exception {
        int checked = 0;
        for (Map<String, Object> vector : list("rejected")) {
            String name = (String) vector.get("name");
            if (!name.startsWith("web endpoint")) {
                continue;
            }
            String text = new String(hex(vector.get("bytes")), StandardCharsets.ISO_8859_1);
            int start = text.indexOf("web\u0002") + 6;
            int length = text.charAt(start - 2) << 8 | text.charAt(start - 1);
            String url = text.substring(start, start + length);
            assertThrows(RejectionException.class, () -> WebPush.checkEndpoint(url), name);
            checked++;
        }
        assertTrue(checked > 10);
        for (Map<String, Object> vector : list("messages")) {
            if ("web".equals(vector.get("magic"))) {
                WebPush.checkEndpoint((String) vector.get("device_token"));
            }
        }
    }
}
