// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;

/** The command line: the options and exit codes of {@code tocsin send} and {@code tocsin pair}. */
public final class Main {
    private static final int DELIVERED = 0;
    private static final int FAILURE = 1;
    private static final int USAGE = 64;
    private static final int REJECTED = 65;
    private static final int UNREACHABLE = 69;
    private static final int TRY_LATER = 75;
    private static final int GONE = 76;
    private static final int CONFIGURATION = 78;

    private static final int LONGEST_TEXT = 16 * 1024;
    private static final int LONGEST_LINE = 1000;

    private static final Set<String> DELIVERY_OPTIONS = Set.of(
            "--node",
            "--tor",
            "--app",
            "--ttl",
            "--timeout",
            "--max-work",
            "--format",
            "--site-key",
            "--onion-key",
            "--tor-control");
    private static final Set<String> DELIVERY_FLAGS = Set.of("--direct", "--queue", "--no-key");

    private static final String HELP =
            """
            usage: tocsin-client send PAIRING --node ADDRESS:PORT [--node ADDRESS:PORT ...] [options]
                   tocsin-client pair read PAIRING
                   tocsin-client pair confirm PAIRING --node ADDRESS:PORT [options]
                   tocsin-client pair erase PAIRING --node ADDRESS:PORT [--yes] [options]

            Rings a paired phone through a Tocsin node. PAIRING is the phone's pairing token,
            magic|descriptor|key|device token. It contains the key: use - to read it from standard input, where other
            users of this machine cannot see it.

            options of send:
              --type TYPE            %s
              --title TEXT           the title; @FILE reads it from a file, @- from standard input
              --message TEXT         the message; @FILE and @- as for --title
              --trade-id ID          the short id of the trade or offer
              --silent               send it without a sound

            options of send, pair confirm and pair erase:
              --node ADDRESS:PORT    the node's onion address and port; again for further nodes, the preferred one first
              --tor ADDRESS:PORT     tor's SOCKS port (default: 127.0.0.1:9050)
              --direct               connect without tor
              --app NAME             the name of an app of the node (default: its first app)
              --ttl SECONDS          how long Apple or Google may store the notification; 0: now or never
              --queue                exit as soon as the node has stored the notification, if it can do that
              --timeout SECONDS      until the command gives up (default: 120)
              --max-work SECONDS     of computing if the node requires proof of work; 0: none (default: 60)
              --no-key               do not sign
              --format FORMAT        pipe (Bisq 1, Haveno) or sealed (Bisq Connect); default: from the key's form
              --site-key FILE        a site's key, as created with tocsin site key: the site's rate applies
              --onion-key FILE       the key to a closed onion, as created with tocsin onion authorize
              --tor-control ADDRESS  tor's control port, for --onion-key (default: unix:/run/tor/control)
              --yes                  pair erase: do not ask for confirmation

            exit codes:
              0   delivered or queued
              64  wrong usage
              65  rejected: do not send it again
              69  no node could be reached
              75  try again later
              76  the phone no longer has this device token: forget the pairing
              78  the key to a closed onion cannot be used

            examples:
              tocsin-client send - --node ADDRESS.onion:7077 --type TRADE --title Paid --message @text < pairing
              tocsin-client pair confirm 'iOS|iPhone 15|KEY|TOKEN' --node 127.0.0.1:7077 --direct
            """
                    .formatted(Arrays.stream(NotificationType.values())
                            .map(Enum::name)
                            .collect(Collectors.joining(", ")));

    /** The command fails with this message and exit code. */
    private static final class Failure extends Exception {
        private static final long serialVersionUID = 1L;

        private final int code;

        Failure(int code, String message) {
            super(message);
            this.code = code;
        }
    }

    private final List<String> words = new ArrayList<>();
    private final Map<String, List<String>> options = new HashMap<>();

    private Main() {}

    /**
     * Runs the command line and exits with its code.
     *
     * @param arguments the arguments
     */
    public static void main(String[] arguments) {
        System.exit(new Main().run(arguments));
    }

    private int run(String[] arguments) {
        try {
            parse(arguments);
            if (options.containsKey("--help") || arguments.length == 0) {
                System.out.print(HELP);
                return arguments.length == 0 ? USAGE : 0;
            }
            String command = String.join(" ", words.subList(0, Math.min(words.get(0).equals("pair") ? 2 : 1, words.size())));
            int count = command.contains(" ") ? 3 : 2;
            switch (command) {
                case "send" -> allow(count, Set.of("--type", "--title", "--message", "--trade-id"), Set.of("--silent"));
                case "pair confirm" -> allow(count, Set.of(), Set.of());
                case "pair erase" -> allow(count, Set.of(), Set.of("--yes"));
                case "pair read" -> {
                    if (!options.isEmpty() || words.size() != count) {
                        throw new Failure(USAGE, "pair read takes a pairing token and nothing else; see --help");
                    }
                }
                // A pairing token in the place of a command must not be printed.
                default -> throw new Failure(
                        USAGE, "unknown command" + (command.contains("|") ? "" : " " + command) + "; see --help");
            }
            return switch (command) {
                case "send" -> send();
                case "pair read" -> pairRead();
                case "pair confirm" -> pairConfirm();
                default -> pairErase();
            };
        } catch (Failure failure) {
            System.err.println("tocsin-client: " + line(failure.getMessage()));
            return failure.code;
        }
    }

    // Arguments

    private static final Set<String> FLAGS = Set.of("--direct", "--queue", "--no-key", "--silent", "--yes", "--help");

    private void parse(String[] arguments) throws Failure {
        for (int index = 0; index < arguments.length; index++) {
            String word = arguments[index];
            if (word.equals("-h")) {
                word = "--help";
            }
            if (!word.startsWith("--")) {
                words.add(word);
                continue;
            }
            int equals = word.indexOf('=');
            String name = equals < 0 ? word : word.substring(0, equals);
            List<String> values = options.computeIfAbsent(name, key -> new ArrayList<>());
            if (FLAGS.contains(name)) {
                continue;
            }
            if (equals >= 0) {
                values.add(word.substring(equals + 1));
            } else if (index + 1 < arguments.length) {
                values.add(arguments[++index]);
            } else {
                throw new Failure(USAGE, name + " needs a value; see --help");
            }
        }
        if (words.isEmpty() && arguments.length > 0 && !options.containsKey("--help")) {
            throw new Failure(USAGE, "no command; see --help");
        }
    }

    private void allow(int count, Set<String> further, Set<String> flags) throws Failure {
        for (Map.Entry<String, List<String>> option : options.entrySet()) {
            String name = option.getKey();
            if (!DELIVERY_OPTIONS.contains(name)
                    && !DELIVERY_FLAGS.contains(name)
                    && !further.contains(name)
                    && !flags.contains(name)) {
                throw new Failure(USAGE, "unknown option " + name + "; see --help");
            }
            if (option.getValue().size() > 1 && !name.equals("--node")) {
                throw new Failure(USAGE, name + " is given twice");
            }
        }
        if (words.size() != count) {
            throw new Failure(USAGE, words.size() < count ? "the pairing token is missing" : "too many arguments");
        }
        if (!options.containsKey("--node")) {
            throw new Failure(USAGE, "--node is required; see --help");
        }
    }

    private boolean has(String flag) {
        return options.containsKey(flag);
    }

    private Optional<String> value(String option) {
        return Optional.ofNullable(options.get(option)).map(values -> values.get(0));
    }

    private int number(String option, int standard) throws Failure {
        try {
            int number = Integer.parseInt(value(option).orElse(Integer.toString(standard)));
            if (number >= 0) {
                return number;
            }
        } catch (NumberFormatException error) {
            // The failure below reports it.
        }
        throw new Failure(USAGE, option + " must be a number of seconds, not " + value(option).orElseThrow());
    }

    // The commands

    private int send() throws Failure {
        String title = value("--title").orElse("");
        String message = value("--message").orElse("");
        int readers = (title.equals("@-") ? 1 : 0) + (message.equals("@-") ? 1 : 0)
                + (words.get(1).equals("-") ? 1 : 0);
        if (readers > 1) {
            throw new Failure(
                    USAGE, "standard input can be read only once: for the pairing token, --title or --message");
        }
        NotificationType type;
        try {
            type = NotificationType.valueOf(value("--type").orElse("TRADE"));
        } catch (IllegalArgumentException error) {
            throw new Failure(USAGE, "unknown --type " + value("--type").orElse("") + "; see --help");
        }
        BisqNotification notification = new BisqNotification(
                type, text(title), text(message), value("--trade-id").orElse(""), System.currentTimeMillis());
        return deliver(pairing(1), notification, !has("--silent"));
    }

    private int pairRead() throws Failure {
        String text = pairingText(2);
        String[] parts = text.split("\\|", -1);
        System.out.println("part          content");
        if (parts.length == 4) {
            String magic = Magic.of(parts[0]).isPresent() ? parts[0] : parts[0].length() + " characters";
            System.out.println("magic         " + line(magic));
            System.out.println("descriptor    " + line(parts[1]));
            System.out.println("key           " + Bytes.of(parts[2]).length + " bytes");
            System.out.println("device token  " + Bytes.of(parts[3]).length + " bytes");
        }
        try {
            PairingToken pairing = PairingToken.parse(text);
            System.out.println("valid, for apps that decrypt the format "
                    + pairing.defaultFormat().name().toLowerCase(Locale.ROOT));
            return DELIVERED;
        } catch (PairingException error) {
            throw new Failure(REJECTED, error.getMessage());
        }
    }

    private int pairConfirm() throws Failure {
        PairingToken pairing = pairing(2);
        return deliver(pairing, TocsinClient.confirmation(format(pairing)), true);
    }

    private int pairErase() throws Failure {
        PairingToken pairing = pairing(2);
        if (format(pairing) == EnvelopeFormat.SEALED) {
            throw new Failure(
                    USAGE, "a sealed app does not support ERASE: delete the pairing in the app or uninstall it");
        }
        if (!has("--yes")) {
            if (System.console() == null) {
                throw new Failure(
                        USAGE, "cannot ask for confirmation, standard input is not a terminal: add --yes");
            }
            System.err.println("This deletes all notifications and the pairing of the app on “"
                    + line(pairing.descriptor()) + "”. Type yes to continue:");
            String answer = System.console().readLine();
            if (answer == null || !Set.of("yes", "y").contains(answer.strip().toLowerCase(Locale.ROOT))) {
                throw new Failure(FAILURE, "nothing was sent");
            }
        }
        return deliver(pairing, new BisqNotification(NotificationType.ERASE, "", ""), false);
    }

    // Delivery

    private int deliver(PairingToken pairing, BisqNotification notification, boolean sound) throws Failure {
        TocsinClient.Builder builder = TocsinClient.builder();
        List<NodeAddress> nodes = new ArrayList<>();
        for (String text : options.get("--node")) {
            nodes.add(node(text));
        }
        nodes.forEach(builder::node);
        if (has("--direct")) {
            if (has("--onion-key")) {
                throw new Failure(USAGE, "--onion-key requires an onion, which --direct cannot reach");
            }
            builder.direct();
        } else {
            builder.socks(address("--tor", value("--tor").orElse("127.0.0.1:9050"), "127.0.0.1:9050"));
        }
        builder.workLimit(Duration.ofSeconds(number("--max-work", 60)));
        if (has("--site-key")) {
            String file = value("--site-key").orElseThrow();
            try {
                builder.siteKey(SiteKey.read(Path.of(file)));
            } catch (NoSuchFileException error) {
                throw new Failure(CONFIGURATION, "there is no file " + file);
            } catch (IOException error) {
                throw new Failure(CONFIGURATION, error.getMessage());
            }
        }
        builder.onProgress(this::show);
        Envelope envelope;
        try {
            Envelope.Options delivery = Envelope.Options.DEFAULT
                    .withApp(value("--app").orElse(""))
                    .withTtl(number("--ttl", Envelope.LONGEST_TTL));
            envelope = pairing.seal(notification, sound ? delivery : delivery.silent(), format(pairing));
        } catch (RejectionException error) {
            throw new Failure(REJECTED, error.getMessage());
        }
        TocsinClient.Submission submission = new TocsinClient.Submission(envelope);
        submission.timeout(Duration.ofSeconds(number("--timeout", 120)));
        if (!has("--no-key")) {
            submission.signedFor(pairing);
        }
        if (has("--queue")) {
            submission.acceptQueued(true);
        }
        Optional<OnionKey> key = onionKey(nodes);
        String control = value("--tor-control").orElse("unix:/run/tor/control");
        boolean isInstalled = false;
        try (TocsinClient client = builder.build()) {
            if (key.isPresent()) {
                isInstalled = TorControl.install(key.get(), control);
            }
            return report(client.submit(submission).get());
        } catch (TorException error) {
            throw new Failure(UNREACHABLE, "cannot give tor the onion's key: " + error.getMessage());
        } catch (ExecutionException error) {
            throw failure(error.getCause());
        } catch (InterruptedException | CancellationException error) {
            throw new Failure(FAILURE, "interrupted");
        } finally {
            if (isInstalled) {
                TorControl.remove(key.get(), control);
            }
        }
    }

    private static Failure failure(Throwable cause) {
        clearProgress();
        if (!(cause instanceof SubmissionException error)) {
            return new Failure(FAILURE, "unexpected " + cause.getClass().getSimpleName());
        }
        return switch (error.kind()) {
            case REFUSED -> new Failure(error.retryAfter().isZero() ? REJECTED : TRY_LATER, error.getMessage());
            case PROXY_UNREACHABLE -> new Failure(
                    UNREACHABLE,
                    error.getMessage()
                            + ". This is tor's SOCKS port: start tor, give another port with --tor (Tor Browser's is"
                            + " 127.0.0.1:9150), or use --direct if the node is on this machine");
            default -> new Failure(UNREACHABLE, error.getMessage());
        };
    }

    private int report(Outcome outcome) throws Failure {
        clearProgress();
        if (outcome.left().isPresent()
                && (outcome.left().getAsLong() == 0 || outcome.reason() == 200)) {
            System.err.println("tocsin-client: notifications left for this phone now: "
                    + outcome.left().getAsLong()
                    + (outcome.fullIn().isPresent()
                            ? "; full allowance in " + seconds(outcome.fullIn().getAsLong())
                            : ""));
        }
        String text = line(outcome.description());
        switch (outcome.kind()) {
            case DELIVERED -> System.out.println(
                    "delivered" + outcome.providerId().map(id -> ": " + line(id)).orElse(""));
            case QUEUED -> System.out.println("queued");
            case GONE -> throw new Failure(GONE, "gone: " + text + ". Forget this pairing");
            case REJECTED -> throw new Failure(
                    REJECTED, "rejected: " + text + " (reason " + outcome.reason() + ")" + advice(outcome.reason()));
            case RETRY -> {
                String time = outcome.retryAfter() == 0 ? "later" : "in " + seconds(outcome.retryAfter());
                throw new Failure(
                        TRY_LATER,
                        "try again " + time + ": " + text + " (reason " + outcome.reason() + ")"
                                + advice(outcome.reason()));
            }
        }
        return DELIVERED;
    }

    private static String advice(int reason) {
        return switch (reason) {
            case 205 -> "; this phone accepts only signed notifications: send without --no-key";
            case 206 -> "; this phone is bound to another sender key, which is derived from the pairing: use the phone's"
                    + " current pairing token. If this is the current one, another sender has bound the phone: ask the"
                    + " node's operator to run tocsin unbind";
            case 203, 204 -> "; --max-work SECONDS allows more computing";
            default -> "";
        };
    }

    private void show(Progress progress) {
        if (System.console() == null) {
            return;
        }
        String text =
                switch (progress.step()) {
                    case CONNECTING -> "connecting to " + progress.node() + (has("--direct") ? "" : " through tor")
                            + " …";
                    case CONNECTED -> "connected; sending the notification …";
                    case WELCOMED -> "waiting for the push service …";
                    case QUEUED -> "stored by the node; waiting for the push service …";
                    case SOLVING -> "the node requires proof of work: computing …";
                    case RETRYING -> progress.reason() + "; retrying in " + tenths(progress) + " s …";
                    case WAITING -> progress.reason() + "; sending again in " + tenths(progress) + " s …";
                };
        System.err.print("\r\033[K" + line(text));
    }

    private static String tenths(Progress progress) {
        return String.format(Locale.ROOT, "%.1f", progress.milliseconds() / 1000.0);
    }

    private static void clearProgress() {
        if (System.console() != null) {
            System.err.print("\r\033[K");
        }
    }

    // Values

    private static NodeAddress address(String option, String text, String example) throws Failure {
        try {
            return NodeAddress.parse(text);
        } catch (IllegalArgumentException error) {
            throw new Failure(USAGE, option + " must be like " + example + ", not " + text);
        }
    }

    private NodeAddress node(String text) throws Failure {
        NodeAddress address = address("--node", text, "ADDRESS.onion:7077");
        if (!OnionAddress.isOnion(address.host())) {
            return address;
        }
        if (has("--direct")) {
            throw new Failure(USAGE, "--direct cannot reach an onion: omit it, or give the node's own address");
        }
        if (!OnionAddress.isValid(OnionAddress.label(address.host()))) {
            throw new Failure(
                    USAGE,
                    address.host() + " is not an onion address: before .onion, it has 56 letters and digits, which"
                            + " include a checksum. Copy the whole address");
        }
        return address;
    }

    private Optional<OnionKey> onionKey(List<NodeAddress> nodes) throws Failure {
        if (!has("--onion-key")) {
            return Optional.empty();
        }
        String file = value("--onion-key").orElseThrow();
        OnionKey key;
        try {
            key = OnionKey.read(Path.of(file));
        } catch (TorException error) {
            throw new Failure(CONFIGURATION, error.getMessage());
        }
        if (nodes.stream().noneMatch(node -> node.host().equalsIgnoreCase(key.label() + OnionAddress.SUFFIX))) {
            throw new Failure(USAGE, file + " is the key to " + key.label() + ".onion, not to " + nodes.get(0));
        }
        return Optional.of(key);
    }

    private EnvelopeFormat format(PairingToken pairing) throws Failure {
        return switch (value("--format").orElse("")) {
            case "" -> pairing.defaultFormat();
            case "pipe" -> EnvelopeFormat.PIPE;
            case "sealed" -> EnvelopeFormat.SEALED;
            default -> throw new Failure(USAGE, "--format must be pipe or sealed");
        };
    }

    private String pairingText(int index) throws Failure {
        String text = words.get(index);
        if (text.equals("-")) {
            text = new String(read(System.in, "standard input"), StandardCharsets.UTF_8);
        }
        // A terminal or a mail program may have wrapped the token.
        return text.lines().collect(Collectors.joining());
    }

    private PairingToken pairing(int index) throws Failure {
        try {
            return PairingToken.parse(pairingText(index));
        } catch (PairingException error) {
            throw new Failure(USAGE, error.getMessage());
        }
    }

    /** The argument, or for {@code @FILE} the content of that file; {@code @@} at the beginning stands for {@code @}. */
    private static String text(String argument) throws Failure {
        if (!argument.startsWith("@")) {
            return argument;
        }
        String name = argument.substring(1);
        if (name.startsWith("@")) {
            return name;
        }
        byte[] content;
        if (name.equals("-")) {
            content = read(System.in, "standard input");
        } else {
            try (InputStream file = Files.newInputStream(Path.of(name))) {
                content = read(file, name);
            } catch (IOException error) {
                throw new Failure(USAGE, "cannot read " + name + ": no such file, or no permission");
            }
        }
        try {
            String text = StandardCharsets.UTF_8
                    .newDecoder()
                    .decode(ByteBuffer.wrap(content))
                    .toString();
            return text.endsWith("\n") ? text.substring(0, text.length() - 1) : text;
        } catch (CharacterCodingException error) {
            throw new Failure(USAGE, name + " is not UTF-8 text");
        }
    }

    private static byte[] read(InputStream input, String name) throws Failure {
        try {
            byte[] content = input.readNBytes(LONGEST_TEXT + 1);
            if (content.length <= LONGEST_TEXT) {
                return content;
            }
        } catch (IOException error) {
            throw new Failure(USAGE, "cannot read " + name);
        }
        throw new Failure(USAGE, name + " has more than " + LONGEST_TEXT + " bytes");
    }

    private static String seconds(long milliseconds) {
        return (milliseconds + 999) / 1000 + " s";
    }

    /** Makes foreign text safe for a terminal: no control, format or separator characters, and one line. */
    private static String line(String text) {
        String safe = text.codePoints()
                .filter(c -> switch (Character.getType(c)) {
                    case Character.CONTROL, Character.FORMAT, Character.LINE_SEPARATOR, Character.PARAGRAPH_SEPARATOR ->
                        false;
                    default -> true;
                })
                .collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append)
                .toString();
        return safe.length() > LONGEST_LINE ? safe.substring(0, LONGEST_LINE) + "…" : safe;
    }
}
