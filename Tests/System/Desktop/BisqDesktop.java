// SPDX-License-Identifier: Apache-2.0

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.Proxy;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.UUID;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * A Bisq desktop for tests: seals a notification as Bisq 1 or Bisq 2 does, with the JDK's cryptography, and sends it to
 * a relay with the JDK's HTTP client. It shares no code with the node. It prints the relay's answer, but never a key or
 * a token.
 */
public final class BisqDesktop {
    private static final String USAGE = """
        usage: java BisqDesktop.java [--v1] PROXY RELAY PAIRING TYPE TITLE TEXT
          --v1     send the POST of Bisq 2 instead of the GET of Bisq 1
          PROXY    host:port of a SOCKS proxy, which resolves the relay's name; or direct
          RELAY    base URL, e.g. http://example.onion
          PAIRING  magic|descriptor|key|device token; with --v1 the key is Base64 of 32 bytes
          TYPE     SETUP_CONFIRMATION, OFFER, TRADE, DISPUTE, PRICE, MARKET or ERASE; with --v1 a category
        Exits with 0 if the relay answered success, with 1 if it answered anything else or nothing.""";

    /** The four parts of a pairing token. */
    private record Pairing(String magic, String descriptor, String key, String deviceToken) {
        static Pairing of(String text) {
            String[] parts = text.split("\\|");
            if (parts.length != 4) {
                throw new IllegalArgumentException("the pairing token has " + parts.length + " parts instead of 4");
            }
            Pairing pairing = new Pairing(parts[0], parts[1], parts[2], parts[3]);
            if (!pairing.isAndroid() && !pairing.magic.equals("iOS") && !pairing.magic.equals("iOSDev")) {
                throw new IllegalArgumentException("the pairing token's magic is not iOS, iOSDev or android");
            }
            return pairing;
        }

        boolean isAndroid() {
            return magic.equals("android");
        }

        /** Whether the desktop assumes that this phone wakes an app in the background. */
        boolean isContentAvailable() {
            String[] words = descriptor.split(" ");
            return switch (words[0]) {
                // Throws without a second word, as the desktop does.
                case "iPhone" -> words[1].startsWith("X") || words[1].equals("6s")
                    || words[1].matches("[0-9]+[a-z]*") && Integer.parseInt(words[1].replaceAll("[a-z]", "")) > 6;
                case "iPad" -> words.length > 1 && words[1].equals("Pro");
                default -> false;
            };
        }
    }

    private record Notification(String type, String title, String text) {
        /** Whether it has a sound: fixed for SETUP_CONFIRMATION and ERASE, switched on for the rest. */
        boolean hasSound() {
            return !type.equals("ERASE");
        }
    }

    private record Answer(int status, byte[] body) {
        String text() {
            return new String(body, StandardCharsets.UTF_8);
        }
    }

    public static void main(String[] arguments) throws Exception {
        boolean isV1 = arguments.length > 0 && arguments[0].equals("--v1");
        int first = isV1 ? 1 : 0;
        if (arguments.length != first + 6) {
            System.err.println(USAGE);
            System.exit(64);
        }
        Proxy proxy = proxy(arguments[first]);
        String relay = arguments[first + 1].replaceAll("/+$", "");
        Pairing pairing = Pairing.of(arguments[first + 2]);
        Notification notification =
            new Notification(arguments[first + 3], arguments[first + 4], arguments[first + 5]);

        Answer answer;
        boolean isSuccess;
        try {
            if (isV1) {
                answer = post(proxy, relay, pairing, notification);
                // Bisq 2 requires only this: any 2xx status, with a body.
                isSuccess = answer.status / 100 == 2 && answer.body.length > 0;
            } else {
                answer = get(proxy, relay, pairing, notification);
                // Before 1.10 only status 200 counted, and every version requires exactly this body.
                isSuccess = answer.status == 200
                    && Arrays.equals(answer.body, "success".getBytes(StandardCharsets.US_ASCII));
            }
        } catch (IOException exception) {
            System.out.println("no answer: " + exception.getClass().getSimpleName());
            System.exit(1);
            return;
        }
        System.out.println(isSuccess ? "success" : answer.status + " " + answer.text());
        System.exit(isSuccess ? 0 : 1);
    }

    private static Proxy proxy(String address) {
        if (address.equals("direct")) {
            return Proxy.NO_PROXY;
        }
        int colon = address.lastIndexOf(':');
        return new Proxy(
            Proxy.Type.SOCKS,
            new InetSocketAddress(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1))));
    }

    // Bisq 1

    private static Answer get(Proxy proxy, String relay, Pairing pairing, Notification notification) throws Exception {
        String iv = UUID.randomUUID().toString().replace("-", "").substring(0, 16);
        String magic = pairing.isAndroid() ? "BisqMessageAndroid" : "BisqMessageiOS";
        String message = magic + "|" + iv + "|" + sealCBC(pairing.key, iv, bisq1JSON(notification));
        String request = relay + "/relay?isAndroid=" + pairing.isAndroid()
            + "&isProduction=" + pairing.magic.equals("iOS")
            + "&isContentAvailable=" + pairing.isContentAvailable()
            + "&snd=" + notification.hasSound()
            + "&token=" + hex(pairing.deviceToken)
            + "&msg=" + hex(message);
        HttpURLConnection connection = open(proxy, request);
        connection.setRequestProperty("User-Agent", "bisq/1.9.17, uid:" + UUID.randomUUID());
        return answer(connection);
    }

    private static String bisq1JSON(Notification notification) {
        return "{\"sentDate\":" + System.currentTimeMillis() + ",\"txId\":\"\",\"title\":\""
            + escaped(notification.title) + "\",\"message\":\"" + escaped(notification.text) + "\",\"type\":\""
            + notification.type + "\",\"actionRequired\":\"\",\"version\":1}";
    }

    private static String sealCBC(String key, String iv, String clearText) throws Exception {
        StringBuilder padded = new StringBuilder(clearText);
        // Pads by characters, as the desktop does: the bytes of text beyond ASCII may then not fill whole blocks, and
        // the cipher throws. The phone gets nothing. This copies the desktop's error on purpose.
        while (padded.length() % 16 != 0) {
            padded.append(' ');
        }
        Cipher cipher = Cipher.getInstance("AES/CBC/NoPadding");
        cipher.init(
            Cipher.ENCRYPT_MODE, new SecretKeySpec(key.getBytes(StandardCharsets.UTF_8), "AES"),
            new IvParameterSpec(iv.getBytes(StandardCharsets.UTF_8)));
        return Base64.getEncoder().encodeToString(cipher.doFinal(padded.toString().getBytes(StandardCharsets.UTF_8)));
    }

    private static String hex(String text) {
        return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
    }

    // Bisq 2

    private static Answer post(Proxy proxy, String relay, Pairing pairing, Notification notification) throws Exception {
        String clearText = "{\"id\":\"" + UUID.randomUUID() + "\",\"title\":\"" + escaped(notification.title)
            + "\",\"message\":\"" + escaped(notification.text) + "\",\"category\":\"" + notification.type + "\"}";
        byte[] body = ("{\"encrypted\":\"" + sealGCM(pairing.key, clearText)
            + "\",\"isUrgent\":true,\"isMutableContent\":true}").getBytes(StandardCharsets.UTF_8);
        // The device token is not escaped, not even its colon.
        HttpURLConnection connection =
            open(proxy, relay + "/v1/" + (pairing.isAndroid() ? "fcm" : "apns") + "/device/" + pairing.deviceToken);
        connection.setRequestMethod("POST");
        connection.setRequestProperty("Content-Type", "application/json");
        connection.setDoOutput(true);
        connection.setFixedLengthStreamingMode(body.length);
        try (OutputStream output = connection.getOutputStream()) {
            output.write(body);
        }
        return answer(connection);
    }

    private static String sealGCM(String key, String clearText) throws Exception {
        byte[] nonce = new byte[12];
        new SecureRandom().nextBytes(nonce);
        Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
        cipher.init(
            Cipher.ENCRYPT_MODE, new SecretKeySpec(Base64.getDecoder().decode(key), "AES"),
            new GCMParameterSpec(128, nonce));
        byte[] sealed = cipher.doFinal(clearText.getBytes(StandardCharsets.UTF_8));
        byte[] whole = new byte[nonce.length + sealed.length];
        System.arraycopy(nonce, 0, whole, 0, nonce.length);
        System.arraycopy(sealed, 0, whole, nonce.length, sealed.length);
        return Base64.getEncoder().encodeToString(whole);
    }

    // Shared by both

    /** Escapes as Gson does by default. */
    private static String escaped(String text) {
        StringBuilder output = new StringBuilder();
        for (char character : text.toCharArray()) {
            switch (character) {
                case '"', '\\' -> output.append('\\').append(character);
                case '\n' -> output.append("\\n");
                case '\r' -> output.append("\\r");
                case '\t' -> output.append("\\t");
                case '\b' -> output.append("\\b");
                case '\f' -> output.append("\\f");
                case '\'', '<', '>', '&', '=', '\u2028', '\u2029' ->
                    output.append(String.format("\\u%04x", (int) character));
                default -> {
                    if (character < 0x20) {
                        output.append(String.format("\\u%04x", (int) character));
                    } else {
                        output.append(character);
                    }
                }
            }
        }
        return output.toString();
    }

    private static HttpURLConnection open(Proxy proxy, String url) throws IOException {
        HttpURLConnection connection = (HttpURLConnection) new URL(url).openConnection(proxy);
        connection.setInstanceFollowRedirects(false);
        connection.setConnectTimeout(80_000);
        connection.setReadTimeout(60_000);
        return connection;
    }

    private static Answer answer(HttpURLConnection connection) throws IOException {
        int status = connection.getResponseCode();
        InputStream stream = status < 400 ? connection.getInputStream() : connection.getErrorStream();
        byte[] body = stream == null ? new byte[0] : stream.readNBytes(512 * 1024);
        connection.disconnect();
        return new Answer(status, body);
    }
}
