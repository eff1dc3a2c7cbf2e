// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.net.InetSocketAddress;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.Timer;
import java.util.TimerTask;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * A connection to tor's control port, authenticated with tor's cookie (control-spec, SAFECOOKIE), to lend a key to a
 * closed onion to the user's own tor. Blocks; for the command line.
 */
final class TorControl implements AutoCloseable {
    private static final long TIME_LIMIT = 20_000;
    private static final int MAXIMUM_REPLY = 1 << 20;
    private static final Set<String> TOR_USERS = Set.of("root", "debian-tor", "tor", "_tor", "toranon");
    private static final Pattern METHODS = Pattern.compile("METHODS=(\\S+)");
    private static final Pattern COOKIE_FILE = Pattern.compile("COOKIEFILE=\"((?:[^\"\\\\]|\\\\.)*)\"");
    private static final Pattern CHALLENGE =
            Pattern.compile("SERVERHASH=([0-9A-Fa-f]{64}) SERVERNONCE=([0-9A-Fa-f]{64})");

    private final SocketChannel channel;
    private final InputStream input;
    /** Closes the connection when tor does not reply. */
    private final Timer watchdog = new Timer("tocsin-tor", true);

    private TorControl(SocketChannel channel) {
        this.channel = channel;
        input = java.nio.channels.Channels.newInputStream(channel);
        watchdog.schedule(
                new TimerTask() {
                    @Override
                    public void run() {
                        close();
                    }
                },
                TIME_LIMIT);
    }

    /**
     * Installs a key, unless tor already has it.
     *
     * @return whether this call installed it, so that {@link #remove} must remove it
     */
    static boolean install(OnionKey key, String address) throws TorException {
        try (TorControl control = open(address)) {
            String mine = "x25519:" + key.base64();
            Optional<String> shown = control.send("ONION_CLIENT_AUTH_VIEW " + key.label(), false).stream()
                    .filter(line -> line.startsWith("CLIENT ", 4))
                    .findFirst();
            if (shown.isEmpty()) {
                control.send("ONION_CLIENT_AUTH_ADD " + key.label() + " " + mine, true);
                return true;
            }
            String[] words = shown.get().split(" ");
            if (words.length < 3 || !MessageDigest.isEqual(Bytes.of(words[2]), Bytes.of(mine))) {
                throw new TorException("the tor at " + address + " already has another key for " + key.label()
                        + ".onion; if that key is obsolete, remove it: ONION_CLIENT_AUTH_REMOVE " + key.label()
                        + " at the control port");
            }
            return false;
        } catch (IOException error) {
            throw new TorException("tor's control port at " + address + ": " + reason(error));
        }
    }

    /** Removes a key. A tor that has exited has already forgotten it. */
    static void remove(OnionKey key, String address) {
        try (TorControl control = open(address)) {
            control.send("ONION_CLIENT_AUTH_REMOVE " + key.label(), false);
        } catch (IOException | TorException error) {
            // tor forgets the key when it exits.
        }
    }

    private static String reason(IOException error) {
        return error instanceof InterruptedIOException
                        || error instanceof java.nio.channels.AsynchronousCloseException
                        || error.getMessage() == null
                ? "it does not answer"
                : error.getMessage();
    }

    private static TorControl open(String address) throws IOException, TorException {
        SocketChannel channel;
        if (address.startsWith("unix:")) {
            channel = SocketChannel.open(StandardProtocolFamily.UNIX);
            channel.connect(UnixDomainSocketAddress.of(address.substring(5)));
        } else {
            NodeAddress target;
            try {
                target = NodeAddress.parse(address);
            } catch (IllegalArgumentException error) {
                throw new TorException(
                        "--tor-control must be like unix:/run/tor/control or 127.0.0.1:9051, not " + address);
            }
            channel = SocketChannel.open(new InetSocketAddress(target.host(), target.port()));
        }
        TorControl control = new TorControl(channel);
        try {
            control.logIn(address);
            return control;
        } catch (IOException | TorException error) {
            control.close();
            throw error;
        }
    }

    private void logIn(String address) throws IOException, TorException {
        String offered = send("PROTOCOLINFO 1", false).stream()
                .filter(line -> line.startsWith("AUTH ", 4))
                .findFirst()
                .orElse("");
        Matcher methods = METHODS.matcher(offered);
        Matcher file = COOKIE_FILE.matcher(offered);
        List<String> names = methods.find() ? Arrays.asList(methods.group(1).split(",")) : List.of();
        if (names.contains("NULL")) {
            throw new TorException("the control port at " + address
                    + " requires no authentication, so the process behind it need not be tor: set"
                    + " CookieAuthentication 1 in its torrc");
        }
        if (!names.contains("SAFECOOKIE") || !file.find()) {
            throw new TorException("the tor at " + address
                    + " does not offer cookie authentication: set CookieAuthentication 1 in its torrc");
        }
        byte[] cookie = cookie(Path.of(file.group(1).replaceAll("\\\\(.)", "$1")));
        byte[] nonce = Crypto.random(32);
        List<String> reply = send("AUTHCHALLENGE SAFECOOKIE " + HexFormat.of().formatHex(nonce), false);
        Matcher challenge = CHALLENGE.matcher(reply.get(reply.size() - 1));
        boolean isComplete = challenge.find();
        byte[] serverNonce = isComplete ? HexFormat.of().parseHex(challenge.group(2)) : new byte[0];
        byte[] message = Bytes.join(cookie, nonce, serverNonce);
        byte[] expected = hmac("Tor safe cookie authentication server-to-controller hash", message);
        if (!isComplete || !MessageDigest.isEqual(expected, HexFormat.of().parseHex(challenge.group(1)))) {
            throw new TorException("the process at " + address
                    + " is not the tor that wrote the cookie file: check what listens there");
        }
        byte[] answer = hmac("Tor safe cookie authentication controller-to-server hash", message);
        send("AUTHENTICATE " + HexFormat.of().formatHex(answer), true);
    }

    private static byte[] hmac(String key, byte[] message) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(Bytes.of(key), "HmacSHA256"));
            return mac.doFinal(message);
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("HMAC-SHA256 is not available", error);
        }
    }

    private static byte[] cookie(Path file) throws TorException {
        try {
            String owner = Files.getOwner(file).getName();
            if (!Files.isRegularFile(file)
                    || !owner.equals(System.getProperty("user.name")) && !TOR_USERS.contains(owner)) {
                throw new TorException("the control port's cookie file " + file
                        + " belongs neither to this user nor to root nor to tor's user: the process behind the port may"
                        + " not be tor");
            }
            try (InputStream content = Files.newInputStream(file)) {
                byte[] cookie = content.readNBytes(33);
                if (cookie.length != 32) {
                    throw new TorException(
                            file + " is not a cookie file of tor: check which process listens at the control port");
                }
                return cookie;
            }
        } catch (IOException error) {
            throw new TorException(
                    "cannot read tor's cookie file " + file + "; on Debian, members of the group debian-tor can");
        }
    }

    /** Sends a command and returns the lines of the reply. */
    private List<String> send(String command, boolean isSecret) throws IOException, TorException {
        ByteBuffer line = ByteBuffer.wrap(Bytes.of(command + "\r\n"));
        while (line.hasRemaining()) {
            channel.write(line);
        }
        List<String> reply = new ArrayList<>();
        int size = 0;
        do {
            reply.add(readLine());
            size += reply.get(reply.size() - 1).length();
        } while (size < MAXIMUM_REPLY && !reply.get(reply.size() - 1).startsWith(" ", 3));
        String last = reply.get(reply.size() - 1);
        if (!last.startsWith("25")) {
            // The reply may repeat a key.
            String words = isSecret ? last.substring(0, Math.min(3, last.length())) : last;
            throw new TorException("tor rejected " + command.split(" ")[0] + ": " + words);
        }
        return reply;
    }

    private String readLine() throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int next = input.read(); next != '\n'; next = input.read()) {
            if (next < 0 || line.size() > MAXIMUM_REPLY) {
                throw new IOException("it closed the connection");
            }
            line.write(next);
        }
        return line.toString(StandardCharsets.ISO_8859_1).stripTrailing();
    }

    @Override
    public void close() {
        watchdog.cancel();
        try {
            channel.close();
        } catch (IOException error) {
            // Nothing is left to be done with it.
        }
    }
}
