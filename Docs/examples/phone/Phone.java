// SPDX-License-Identifier: Apache-2.0

import java.io.IOException;
import java.io.InputStream;
import java.io.StringWriter;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.Proxy;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.tocsin.phone.HandleCall;
import org.tocsin.phone.HandleExchange;
import org.tocsin.phone.HandleOwner;
import org.tocsin.phone.HandleService;
import org.tocsin.phone.PhoneHandle;
import org.tocsin.phone.PhoneNotification;
import org.tocsin.phone.PhonePairing;
import org.tocsin.phone.Platform;

/**
 * The phone's half with org.tocsin.phone. STATE is a file with secrets. NODE is HOST:PORT of the node's HTTP endpoint, or
 * tnp:HOST:PORT.
 *
 * <pre>
 * java -cp tocsin-phone.jar:bcprov.jar Phone.java new STATE PLATFORM DEVICE_TOKEN DESCRIPTOR [--owner-of OTHER_STATE]
 *                                                 register STATE NODE [--app NAME] [--tor HOST:PORT]
 *                                                 rotate STATE NEW_DEVICE_TOKEN [--tor HOST:PORT]
 *                                                 forget STATE [--tor HOST:PORT]
 *                                                 open STATE < ENCRYPTED
 * </pre>
 */
public final class Phone {
    private final Path file;
    private final Properties state = new Properties();

    private Phone(Path file, boolean isNew) throws IOException {
        this.file = file;
        if (!isNew) {
            state.load(Files.newBufferedReader(file));
        } else {
            // Fails if it exists: a pairing would be lost.
            Files.createFile(file, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        }
    }

    private HandleOwner owner() {
        return HandleOwner.of(Base64.getDecoder().decode(state.getProperty("owner")));
    }

    private void save(PhonePairing pairing, HandleOwner owner) throws IOException {
        state.setProperty("pairing", pairing.reveal());
        state.setProperty("owner", Base64.getEncoder().encodeToString(owner.reveal()));
        StringWriter text = new StringWriter();
        state.store(text, null);
        Files.writeString(file, text.toString());
    }

    public static void main(String[] arguments) throws Exception {
        Phone phone = new Phone(Path.of(arguments[1]), arguments[0].equals("new"));
        if (arguments[0].equals("new")) {
            Platform platform = arguments[2].equals("iOS") ? Platform.IOS : Platform.ANDROID;
            PhonePairing pairing = PhonePairing.create(platform, arguments[3], arguments[4]);
            phone.state.setProperty("token", arguments[3]);
            // A phone has one owner for all its pairings.
            String other = option(arguments, "--owner-of");
            phone.save(pairing, other.isEmpty() ? HandleOwner.create() : new Phone(Path.of(other), false).owner());
            System.out.println(pairing.reveal());
            return;
        }
        PhonePairing pairing = PhonePairing.parse(phone.state.getProperty("pairing"));
        if (arguments[0].equals("open")) {
            String encrypted = new String(System.in.readAllBytes(), StandardCharsets.UTF_8).strip();
            PhoneNotification notification = PhoneNotification.parse(pairing.open(encrypted));
            System.out.println(notification.type() + "|" + notification.title() + "|" + notification.actionRequired());
            return;
        }
        HandleOwner owner = phone.owner();
        String token = phone.state.getProperty("token");
        if (arguments[0].equals("register")) {
            phone.state.setProperty("node", arguments[2]);
        }
        Requests requests = new Requests(
                phone.state.getProperty("node"), option(arguments, "--tor"), option(arguments, "--app"), owner);
        switch (arguments[0]) {
            case "register" -> {
                PhoneHandle handle = requests.register(pairing.with(token));
                phone.state.setProperty("handle", handle.reveal());
                phone.save(pairing.with(handle), owner);
                System.out.println(pairing.with(handle).reveal());
            }
            case "rotate" -> {
                phone.state.setProperty("token", arguments[2]);
                phone.save(pairing, owner);
                requests.rotate(PhoneHandle.parse(phone.state.getProperty("handle")), pairing.with(arguments[2]));
                System.out.println("rotated");
            }
            case "forget" -> {
                requests.forget(PhoneHandle.parse(phone.state.getProperty("handle")));
                System.out.println("forgotten");
            }
            default -> throw new IllegalArgumentException("unknown command " + arguments[0]);
        }
    }

    private static String option(String[] arguments, String name) {
        int index = List.of(arguments).indexOf(name);
        return index < 0 ? "" : arguments[index + 1];
    }

    /** Requests about handles, by the protocol that NODE names. */
    private record Requests(String node, String socks, String app, HandleOwner owner) {
        private boolean isTnp() {
            return node.startsWith("tnp:");
        }

        private InetSocketAddress address() {
            String[] parts = node.replaceFirst("^tnp:", "").split(":");
            // The proxy resolves the name of an onion.
            return InetSocketAddress.createUnresolved(parts[0], Integer.parseInt(parts[1]));
        }

        private Proxy proxy() {
            String[] parts = socks.split(":");
            return socks.isEmpty()
                    ? Proxy.NO_PROXY
                    : new Proxy(Proxy.Type.SOCKS, new InetSocketAddress(parts[0], Integer.parseInt(parts[1])));
        }

        PhoneHandle register(PhonePairing pairing) throws Exception {
            String host = address().getHostString();
            return isTnp()
                    ? exchange(HandleCall.register(pairing, app, List.of(), System.currentTimeMillis(), host, owner))
                    : service().register(host, pairing, app, List.of());
        }

        void rotate(PhoneHandle handle, PhonePairing pairing) throws Exception {
            String host = address().getHostString();
            if (isTnp()) {
                exchange(HandleCall.rotate(handle, pairing, List.of(), System.currentTimeMillis(), host, owner));
                return;
            }
            Map<HandleService.Entry, Exception> failures =
                    service().rotate(List.of(new HandleService.Entry(host, handle, List.of())), pairing);
            for (Exception failure : failures.values()) {
                throw failure;
            }
        }

        void forget(PhoneHandle handle) throws Exception {
            String host = address().getHostString();
            if (isTnp()) {
                exchange(HandleCall.forget(handle, System.currentTimeMillis(), host, owner));
            } else {
                service().forget(new HandleService.Entry(host, handle, List.of()));
            }
        }

        private HandleService service() {
            return new HandleService(owner, 0, (host, method, path, body) -> {
                HttpURLConnection connection = (HttpURLConnection)
                        URI.create("http://" + node + path).toURL().openConnection(proxy());
                connection.setConnectTimeout(60_000);
                connection.setReadTimeout(60_000);
                connection.setRequestMethod(method);
                if (body.length > 0) {
                    connection.setDoOutput(true);
                    connection.setRequestProperty("Content-Type", "application/octet-stream");
                    connection.getOutputStream().write(body);
                }
                int status = connection.getResponseCode();
                try (InputStream input = status < 400 ? connection.getInputStream() : connection.getErrorStream()) {
                    return new HandleService.Answer(status, input == null ? new byte[0] : input.readAllBytes());
                }
            });
        }

        private PhoneHandle exchange(HandleCall call) throws Exception {
            HandleExchange exchange = new HandleExchange(call);
            try (Socket socket = new Socket(proxy())) {
                InetSocketAddress address = address();
                socket.setSoTimeout(60_000);
                socket.connect(
                        socks.isEmpty() ? new InetSocketAddress(address.getHostString(), address.getPort()) : address,
                        60_000);
                socket.getOutputStream().write(exchange.start());
                byte[] buffer = new byte[4096];
                while (exchange.handle() == null) {
                    int count = socket.getInputStream().read(buffer);
                    if (count < 0) {
                        throw new IOException("the node has closed the connection");
                    }
                    socket.getOutputStream().write(exchange.receive(buffer, count));
                }
                return exchange.handle();
            }
        }
    }
}
