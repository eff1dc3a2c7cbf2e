// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Rules that the transcripts of Tests/Conformance cannot show: pairing, padding, secrets, backoff, the command line. */
class ClientTest {
    private static final String KEY = "A4C595428CAA4C768F60AE7EBFF85852";
    private static final String APPLE = "d45161df3d172837f1b83bb3e411d5a63120de6b435ff9235adb70d619d162a1";
    private static final String PIPE = "iOS|iPhone 15|" + KEY + "|" + APPLE;
    private static final String SEALED = "iOS|iPhone 15|" + "A".repeat(43) + "=|" + APPLE;

    @Test
    void aPairingTokenHasFourPartsAndEachIsChecked() throws Exception {
        assertEquals(EnvelopeFormat.PIPE, PairingToken.parse(PIPE).defaultFormat());
        assertEquals(EnvelopeFormat.SEALED, PairingToken.parse(SEALED).defaultFormat());
        String[][] faults = {
            {"", "four parts"},
            {"ios|x|" + KEY + "|" + APPLE, "magic"},
            {"iOS|x|" + KEY.substring(1) + "|" + APPLE, "key"},
            {"iOS|x|" + KEY + "|" + APPLE.substring(1), "device token"},
            {"android|x|" + KEY + "|short", "device token"},
            {"iOS|x|" + "A".repeat(43) + "!|" + APPLE, "key"}
        };
        for (String[] fault : faults) {
            PairingException error = assertThrows(PairingException.class, () -> PairingToken.parse(fault[0]));
            assertTrue(error.getMessage().contains(fault[1]), error.getMessage());
            assertFalse(error.getMessage().contains(KEY.substring(1)));
            assertFalse(error.getMessage().contains(APPLE.substring(1)));
        }
    }

    @Test
    void nothingThatIsPrintedHoldsASecret() throws Exception {
        PairingToken pairing = PairingToken.parse(PIPE);
        BisqNotification notification = new BisqNotification(NotificationType.TRADE, "a secret title", "a secret text");
        Envelope envelope = pairing.seal(notification, Envelope.Options.DEFAULT);
        for (Object value : List.of(pairing, notification, envelope, pairing.sign(envelope))) {
            for (String secret : List.of(KEY, APPLE, "secret")) {
                assertFalse(value.toString().contains(secret));
            }
        }
    }

    @Test
    void textsArePaddedToBuckets() {
        int[][] lengths = {{1, 256}, {256, 256}, {257, 512}, {2561, 2816}, {2816, 2816}};
        for (int[] length : lengths) {
            for (EnvelopeFormat format : EnvelopeFormat.values()) {
                byte[] padded = PairingToken.padded(new byte[length[0]], PairingToken.BUCKET, format);
                assertEquals(length[1], padded.length);
                assertTrue(length[0] == length[1] || padded[padded.length - 1] == ' ');
            }
        }
        // Beyond the last bucket, only the cipher's own padding.
        assertEquals(2832, PairingToken.padded(new byte[2817], PairingToken.BUCKET, EnvelopeFormat.PIPE).length);
        assertEquals(2817, PairingToken.padded(new byte[2817], PairingToken.BUCKET, EnvelopeFormat.SEALED).length);
    }

    @Test
    void notificationsHaveTheFieldsAndEscapesOfTheDesktop() {
        BisqNotification notification =
                new BisqNotification(NotificationType.TRADE, "<'a'&=>", "\"\\\n\u0001\u2028", "123", "", 1_533_218_519_000L);
        assertEquals(
                "{\"sentDate\":1533218519000,\"txId\":\"123\",\"title\":\"\\u003c\\u0027a\\u0027\\u0026\\u003d\\u003e\","
                        + "\"message\":\"\\\"\\\\\\n\\u0001\\u2028\",\"type\":\"TRADE\",\"actionRequired\":\"\","
                        + "\"version\":1}",
                notification.json());
        assertTrue(notification.connectJson("x").endsWith("\"category\":\"trade_update\",\"tradeId\":\"123\"}"));
    }

    @Test
    void backoffDoublesUpToItsCap() {
        NodeState node = new NodeState();
        List<Long> waits = new ArrayList<>();
        for (int failure = 0; failure < 10; failure++) {
            waits.add(node.failed(0, 1.0, 0, false) / 1_000_000);
        }
        assertEquals(List.of(250L, 500L, 1000L, 2000L, 4000L, 8000L, 16000L, 30000L, 30000L, 30000L), waits);
        node.answered();
        assertEquals(125_000_000, node.failed(0, 0.5, 0, false));
        assertEquals(NodeState.MAXIMUM_PAUSE, node.failed(0, 0, Long.MAX_VALUE, false));
        // Where nobody listens, an attempt costs nobody anything.
        node.state = NodeState.State.DOWN;
        node.failed(9, 1.0, 0, true);
        assertEquals(NodeState.MISTAKE_PAUSE, node.failed(9, 1.0, 0, true));
        assertEquals(NodeState.MISTAKE_PAUSE, node.failed(9, 1.0, 0, true));
        assertTrue(node.isHopeless(9));
        assertFalse(node.isHopeless(10));
    }

    @Test
    void theFirstUsableNodeIsChosen() {
        List<NodeState> nodes = List.of(new NodeState(), new NodeState(), new NodeState());
        assertEquals(0, NodeState.choose(nodes, Set.of()).getAsInt());
        nodes.get(0).state = NodeState.State.DOWN;
        nodes.get(1).refused(0, 0);
        assertEquals(2, NodeState.choose(nodes, Set.of()).getAsInt());
        assertTrue(NodeState.choose(nodes, Set.of(2)).isEmpty());
        nodes.get(1).revive(NodeState.FATAL_PAUSE - 1);
        assertEquals(2, NodeState.choose(nodes, Set.of()).getAsInt());
        nodes.get(1).revive(NodeState.FATAL_PAUSE);
        assertEquals(1, NodeState.choose(nodes, Set.of()).getAsInt());
        nodes.get(1).isSlow = true;
        assertEquals(2, NodeState.choose(nodes, Set.of()).getAsInt());
        assertEquals(1, NodeState.choose(nodes, Set.of(2)).getAsInt());
    }

    @Test
    void addresses() {
        assertEquals(new NodeAddress("abc.example", 7077), NodeAddress.parse("abc.example:7077"));
        assertThrows(IllegalArgumentException.class, () -> NodeAddress.parse("abc.onion:7077"));
        assertEquals("[::1]:80", NodeAddress.parse("[::1]:80").toString());
        for (String text : List.of("", "abc", "abc:", ":80", "abc:0", "abc:65536", "abc:x", "abc:\u0663")) {
            assertThrows(IllegalArgumentException.class, () -> NodeAddress.parse(text), text);
        }
        String label = "bisqpushv56wo32w2dv7xacvvcrnow6gud5vkvftwsgevczmspzvqgad";
        assertTrue(OnionAddress.isValid(label));
        assertFalse(OnionAddress.isValid("a" + label.substring(1)));
        assertFalse(OnionAddress.isValid(label.substring(1)));
    }

    @Test
    void aKeyFileMustBePrivateAndWhole(@TempDir Path folder) throws Exception {
        String label = "bisqpushv56wo32w2dv7xacvvcrnow6gud5vkvftwsgevczmspzvqgad";
        Path file = folder.resolve("key.auth_private");
        Files.writeString(file, label + ":descriptor:x25519:" + "A".repeat(52) + "\n");
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
        OnionKey key = OnionKey.read(file);
        assertEquals(label, key.label());
        assertFalse(key.toString().contains("AAAA"));
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r--r--"));
        assertTrue(assertThrows(TorException.class, () -> OnionKey.read(file)).getMessage().contains("other users"));
        Path missing = folder.resolve("none");
        assertTrue(assertThrows(TorException.class, () -> OnionKey.read(missing)).getMessage().contains("cannot read"));
    }

    // A whole client against a small node

    /** Answers each SUBMIT with the same outcome. */
    private static final class Node implements AutoCloseable {
        private final ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        private final byte[] answer;
        final AtomicInteger hellos = new AtomicInteger();

        Node(int outcome, int reason) throws IOException {
            answer = Bytes.join(new byte[] {(byte) outcome}, Bytes.number(reason, 2), new byte[4]);
            Thread thread = new Thread(() -> {
                try {
                    while (true) {
                        Socket socket = server.accept();
                        new Thread(() -> serve(socket)).start();
                    }
                } catch (IOException error) {
                    // The node was closed.
                }
            });
            thread.setDaemon(true);
            thread.start();
        }

        NodeAddress address() {
            return new NodeAddress("127.0.0.1", server.getLocalPort());
        }

        private void serve(Socket socket) {
            try (socket) {
                DataInputStream input = new DataInputStream(socket.getInputStream());
                OutputStream output = socket.getOutputStream();
                while (true) {
                    byte[] payload = new byte[input.readInt() - 1];
                    int type = input.read();
                    input.readFully(payload);
                    Bytes.Output frame = new Bytes.Output();
                    if (type == 1) {
                        hellos.incrementAndGet();
                        frame.append(HexFormat.of().parseHex("0100040000200000400000025800000199c82cc07b"));
                        frame.append(new byte[25]);
                        output.write(frame.frame(2));
                    } else if (type == 3) {
                        frame.append(Arrays.copyOf(payload, 4));
                        frame.append(answer);
                        output.write(frame.frame(4));
                    }
                }
            } catch (IOException error) {
                // The client closed the connection.
            }
        }

        @Override
        public void close() throws IOException {
            server.close();
        }
    }

    private static final BisqNotification PAID = new BisqNotification(NotificationType.TRADE, "Paid", "");

    @Test
    void pairingIsOneCallAndSoIsItsEnd() throws Exception {
        try (Node node = new Node(0, 0);
                TocsinClient client = TocsinClient.builder().node(node.address()).direct().build()) {
            PairingToken pairing = client.pair(PIPE).join();
            assertEquals(List.of(pairing), client.pairings());
            assertEquals(pairing, PairingToken.parse(pairing.reveal()));
            assertEquals(Outcome.Kind.DELIVERED, client.erase(pairing).join().kind());
            assertTrue(client.pairings().isEmpty());
            PairingToken sealed = PairingToken.parse(SEALED);
            assertThrows(UnsupportedOperationException.class, () -> client.erase(sealed));
            CompletionException error =
                    assertThrows(CompletionException.class, () -> client.pair("nonsense").join());
            assertTrue(error.getCause() instanceof PairingException);
        }
    }

    @Test
    void aPhoneThatIsGoneIsReportedOnce() throws Exception {
        BlockingQueue<PairingToken> gone = new LinkedBlockingQueue<>();
        try (Node node = new Node(4, 304);
                TocsinClient client = TocsinClient.builder()
                        .node(node.address())
                        .direct()
                        .onGone(gone::add)
                        .build()) {
            PairingToken pairing = PairingToken.parse(PIPE);
            client.remember(pairing);
            for (int round = 0; round < 2; round++) {
                assertEquals(Outcome.Kind.GONE, client.notify(pairing, PAID).join().kind());
            }
            assertEquals(pairing, gone.poll(10, TimeUnit.SECONDS));
            assertTrue(gone.isEmpty() && client.pairings().isEmpty());
        }
    }

    @Test
    void aPairingByHandleSurvivesTheDeviceToken() throws Exception {
        Handle handle = Handle.parse("5".repeat(64));
        for (int reason : new int[] {304, 310}) {
            BlockingQueue<PairingToken> gone = new LinkedBlockingQueue<>();
            try (Node node = new Node(4, reason);
                    TocsinClient client = TocsinClient.builder()
                            .node(node.address())
                            .direct()
                            .onGone(gone::add)
                            .build()) {
                PairingToken pairing = PairingToken.parse(PIPE).withHandle(handle);
                client.remember(pairing);
                assertEquals(Outcome.Kind.GONE, client.notify(pairing, PAID).join().kind());
                boolean isForgotten = reason == 310;
                assertEquals(isForgotten ? pairing : null, gone.poll(isForgotten ? 10 : 0, TimeUnit.SECONDS));
                assertEquals(isForgotten, client.pairings().isEmpty());
            }
        }
    }

    @Test
    void aNodeWithoutHandlesIsNotAskedForOne(@TempDir Path folder) throws Exception {
        try (Node node = new Node(0, 0);
                TocsinClient client =
                        TocsinClient.builder().node(node.address()).direct().build()) {
            PairingToken pairing = PairingToken.parse(PIPE);
            CompletionException error = assertThrows(CompletionException.class, () -> client.register(
                            pairing, "", List.of(), HandleOwner.of(pairing), Duration.ofSeconds(10))
                    .join());
            assertEquals(106, ((HandleException) error.getCause()).outcome().reason());
            // The connection is still good.
            assertEquals(Outcome.Kind.DELIVERED, client.notify(pairing, PAID).join().kind());
        }
        Path file = folder.resolve("owner");
        HandleOwner.of(PairingToken.parse(PIPE)).save(file);
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(file)));
        assertThrows(IOException.class, () -> HandleOwner.of(PairingToken.parse(PIPE)).save(file));
        assertEquals("<HandleOwner redacted>", HandleOwner.read(file).toString());
    }

    @Test
    void circuitsAreOnePerPhoneAndBounded() throws Exception {
        try (Node node = new Node(0, 0);
                TocsinClient client = TocsinClient.builder().node(node.address()).direct().build()) {
            for (int round = 0; round < 2; round++) {
                for (int phone = 0; phone < 3; phone++) {
                    client.notify(PairingToken.parse(phone(phone)), PAID).join();
                }
            }
            assertEquals(3, node.hellos.get());
            List<CompletableFuture<Outcome>> futures = new ArrayList<>();
            for (int phone = 0; phone < 100; phone++) {
                futures.add(client.notify(PairingToken.parse(phone(phone)), PAID));
            }
            futures.forEach(CompletableFuture::join);
            assertEquals(64, node.hellos.get());
        }
    }

    private static String phone(int number) {
        return "iOS|x|" + KEY + "|" + String.format("%064x", number);
    }

    // The command line

    private record Run(int code, String output, String errors) {}

    private static Run run(String input, String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp",
                System.getProperty("java.class.path") + ":" + System.getProperty("jdk.module.path", ""),
                "org.tocsin.client.Main"));
        command.addAll(List.of(arguments));
        Process process = new ProcessBuilder(command).start();
        process.getOutputStream().write(Bytes.of(input));
        process.getOutputStream().close();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        String errors = new String(process.getErrorStream().readAllBytes(), StandardCharsets.UTF_8);
        return new Run(process.waitFor(), output, errors);
    }

    @Test
    void wrongInputGetsASentenceAndNoStackTrace() throws Exception {
        String[][] cases = {
            {"64", "four parts", "send", "nonsense", "--node", "127.0.0.1:1", "--direct"},
            {"64", "not an onion address", "send", PIPE, "--node", "abc.onion:7077"},
            {"64", "--node must be like", "send", PIPE, "--node", "127.0.0.1", "--direct"},
            {"64", "--tor must be like", "send", PIPE, "--node", "127.0.0.1:1", "--tor", "x"},
            {"64", "--node is required", "send", PIPE},
            {"64", "unknown option --nod", "send", PIPE, "--nod", "x"},
            {"64", "unknown command", "ring"},
            {"64", "unknown command", PIPE, "--node", "127.0.0.1:1"},
            {"64", "unknown command", "pair", PIPE},
            {"69", "onnection refused", "send", PIPE, "--node", "127.0.0.1:1", "--direct", "--timeout", "1"},
            {"69", "start tor", "send", PIPE, "--node", "127.0.0.1:1", "--tor", "127.0.0.1:1", "--timeout", "1"},
            {"65", "too long by 135 bytes", "send", PIPE, "--node", "127.0.0.1:1", "--direct", "--message", "x".repeat(3100)},
            {"64", "only once", "send", "-", "--node", "127.0.0.1:1", "--title", "@-"},
            {"64", "cannot read /none", "send", PIPE, "--node", "127.0.0.1:1", "--title", "@/none"},
            {"64", "--yes", "pair", "erase", PIPE, "--node", "127.0.0.1:1", "--direct"},
            {"64", "does not support ERASE", "pair", "erase", SEALED, "--node", "127.0.0.1:1", "--direct", "--yes"},
            {"65", "the key, has 5 bytes", "pair", "read", "iOS|x|short|y"}
        };
        for (String[] row : cases) {
            Run run = run("", Arrays.copyOfRange(row, 2, row.length));
            assertEquals(Integer.parseInt(row[0]), run.code, String.join(" ", row[1], run.errors));
            assertTrue(run.errors.contains(row[1]), run.errors);
            assertFalse(run.errors.contains("Exception") || run.errors.contains("\tat "), run.errors);
            assertFalse(run.errors.contains(KEY) || run.errors.contains(APPLE));
        }
    }

    @Test
    void thePairingTokenMayComeFromStandardInput() throws Exception {
        Run run = run(PIPE.substring(0, 40) + "\n" + PIPE.substring(40) + "\n", "pair", "read", "-");
        assertEquals(0, run.code, run.errors);
        assertTrue(run.output.contains("pipe") && !run.output.contains(KEY));
        Run help = run("", "--help");
        assertTrue(help.code == 0 && help.output.contains("examples:") && help.output.contains("exit codes:"));
    }

    // The documentation

    @Test
    void theSequencesOfRequestsInTheSameMillisecondDiffer() {
        long[] sequences = LongStream.generate(TocsinClient::nextSequence).limit(1000).toArray();
        for (int index = 1; index < sequences.length; index++) {
            assertTrue(sequences[index] > sequences[index - 1]);
        }
    }

    @Test
    void theExampleInTheDocumentationRunsAsWritten(@TempDir Path folder) throws Exception {
        String page = Files.readString(Path.of(System.getProperty("user.dir"), "../../Docs/clients.md"));
        String program = page.split("```java\n")[1].split("```")[0];
        Path source = Files.writeString(folder.resolve("Ring.java"), program);
        Path pairing = Files.writeString(folder.resolve("pairing"), PIPE);
        try (Node node = new Node(0, 0)) {
            Process process = new ProcessBuilder(
                            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                            "-cp",
                            System.getProperty("java.class.path") + ":" + System.getProperty("jdk.module.path", ""),
                            source.toString(),
                            node.address().toString(),
                            pairing.toString(),
                            "Paid")
                    .redirectErrorStream(true)
                    .start();
            String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertEquals(0, process.waitFor(), output);
            assertEquals(
                    "CONNECTING \nCONNECTED \nWELCOMED \nDELIVERED: the push service has accepted it\n", output);
        }
    }
}
