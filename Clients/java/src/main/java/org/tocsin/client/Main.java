// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;
import java.util.stream.Collectors;

/** The command line: the options and exit codes of {@code tocsin send}, {@code pair}, {@code register}, {@code rotate}
 * and {@code forget}.
 */
public final class Main {
    private static final int DELIVERED = 0;
    private static final int FAILURE = 1;
    private static final int USAGE = 64;
    private static final int REJECTED = 65;
    private static final int UNREACHABLE = 69;
    private static final int TRY_LATER = 75;
    private static final int GONE = 76;
    private static final int CONFIGURATION = 78;

    private static final int MAXIMUM_TEXT = 16 * 1024;
    private static final int MAXIMUM_LINE = 1000;

    private static final Set<String> CONNECTION_OPTIONS = Set.of(
            "--node",
            "--tor",
            "--timeout",
            "--max-work",
            "--site-key",
            "--onion-key",
            "--tor-control",
            "--direct");
    private static final Set<String> DELIVERY_OPTIONS = Set.of(
            "--app", "--ttl", "--format", "--schema", "--queue", "--no-key", "--old-pairing");
    private static final Set<String> REPEATABLE = Set.of("--node", "--sender-key");

    private static final String HELP =
            """
            usage: tocsin-client send PAIRING --node ADDRESS:PORT [--node ADDRESS:PORT ...] [options]
                   tocsin-client pair read PAIRING
                   tocsin-client pair confirm PAIRING --node ADDRESS:PORT [options]
                   tocsin-client pair erase PAIRING --node ADDRESS:PORT [--yes] [options]
                   tocsin-client register PAIRING --owner FILE --node ADDRESS:PORT [options]
                   tocsin-client rotate PAIRING --handle HANDLE --owner FILE --node ADDRESS:PORT [options]
                   tocsin-client forget --handle HANDLE --owner FILE --node ADDRESS:PORT [options]

            Rings a paired phone through a Tocsin node. PAIRING is the phone's pairing token,
            magic|descriptor|key|device token. It contains the key: use - to read it from standard input, where other
            users of this machine cannot see it.

            options of send:
              --type TYPE            %s
              --title TEXT           the title; @FILE reads it from a file, @- from standard input
              --message TEXT         the message; @FILE and @- as for --title
              --trade-id ID          the short id of the trade or offer
              --action-required TEXT what the user has to do, for apps that show it
              --silent               send it without a sound

            register gets a handle for a phone, to give to desktops in place of its device token, and prints the pairing
            token with it; rotate puts the phone's new device token behind the handle; forget ends it. Their options:
              --owner FILE           the owner's private key; register creates it from PAIRING if it does not exist
              --handle HANDLE        the handle, or a pairing token with it; @FILE reads it from a file
              --sender-key KEY       a sender that may ring the phone besides the owner, in Base64; again for further
                                     ones, up to 8 (default: whoever has the handle may)
              --app NAME             register: the name of an app of the node (default: its first app)

            options of send, pair confirm and pair erase:
              --app NAME             the name of an app of the node (default: its first app)
              --ttl SECONDS          how long the push service may store the notification; 0: now or never
              --queue                exit as soon as the node has stored the notification, if it can do that
              --no-key               do not sign
              --old-pairing FILE     the pairing token that this phone had before it was paired anew
              --format FORMAT        pipe (Bisq 1, Haveno) or sealed (Bisq Connect); default: from the key's form
              --schema SCHEMA        the text's fields: bisq (what Bisq's and Haveno's apps read; the default) or tocsin
                                     (what an app of your own reads)
              --yes                  pair erase: do not ask for confirmation

            options of all commands but pair read:
              --node ADDRESS:PORT    the node's onion address and port; again for further nodes, the preferred one first
              --tor ADDRESS:PORT     tor's SOCKS port (default: 127.0.0.1:9050)
              --direct               connect without tor
              --timeout SECONDS      until the command gives up (default: 120)
              --max-work SECONDS     of computing if the node requires proof of work; 0: none (default: 60)
              --site-key FILE        a site's key, as created with tocsin site key: the site's rate applies
              --onion-key FILE       the key to a closed onion, as created with tocsin onion authorize
              --tor-control ADDRESS  tor's control port, for --onion-key (default: unix:/run/tor/control)

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
              tocsin-client register - --owner phone.key --node ADDRESS.onion:7077 < pairing > pairing-by-handle
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

    private int run(String[] given) {
        try {
            String[] arguments = asTyped(given);
            parse(arguments);
            if (options.containsKey("--help") || arguments.length == 0) {
                System.out.print(HELP);
                return arguments.length == 0 ? USAGE : 0;
            }
            String command = String.join(" ", words.subList(0, Math.min(words.get(0).equals("pair") ? 2 : 1, words.size())));
            int count = command.contains(" ") ? 3 : 2;
            switch (command) {
                case "send" -> allowDelivery(
                        count, Set.of("--type", "--title", "--message", "--trade-id", "--action-required", "--silent"));
                case "pair confirm" -> allowDelivery(count, Set.of());
                case "pair erase" -> allowDelivery(count, Set.of("--yes"));
                case "register" -> allow(count, Set.of("--owner", "--app", "--sender-key"), Set.of("--owner"));
                case "rotate" -> allow(
                        count, Set.of("--owner", "--handle", "--sender-key"), Set.of("--owner", "--handle"));
                case "forget" -> allow(1, Set.of("--owner", "--handle"), Set.of("--owner", "--handle"));
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
                case "register" -> register();
                case "rotate" -> rotate();
                case "forget" -> forget();
                default -> pairErase();
            };
        } catch (Failure failure) {
            System.err.println("tocsin-client: " + line(failure.getMessage()));
            return failure.code;
        } catch (NoClassDefFoundError error) {
            System.err.println("tocsin-client: " + error.getMessage());
            return FAILURE;
        }
    }

    // Arguments

    private static final Set<String> FLAGS = Set.of("--direct", "--queue", "--no-key", "--silent", "--yes", "--help");

    /**
     * The arguments with the characters that the locale does not have: a JVM whose locale has ASCII only puts � in their
     * place.
     */
    private static String[] asTyped(String[] arguments) throws Failure {
        if (Arrays.stream(arguments).noneMatch(argument -> argument.contains("\uFFFD"))) {
            return arguments;
        }
        try {
            // Each argument of this process ends with a zero; this program's are the last.
            String[] all = StandardCharsets.UTF_8
                    .newDecoder()
                    .decode(ByteBuffer.wrap(Files.readAllBytes(Path.of("/proc/self/cmdline"))))
                    .toString()
                    .split("\0", -1);
            int end = all.length - 1;
            if (end >= arguments.length) {
                return Arrays.copyOfRange(all, end - arguments.length, end);
            }
        } catch (IOException error) {
            // Not UTF-8, or not Linux.
        }
        throw new Failure(
                USAGE,
                "an argument is not text in this locale's encoding: set LC_ALL=C.UTF-8, or give @FILE with the text in UTF-8");
    }

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

    private void allowDelivery(int count, Set<String> further) throws Failure {
        Set<String> allowed = new HashSet<>(DELIVERY_OPTIONS);
        allowed.addAll(further);
        allow(count, allowed, Set.of());
    }

    /** Checks the number of words, and that the options are those of the connection or in {@code further}. */
    private void allow(int count, Set<String> further, Set<String> required) throws Failure {
        for (Map.Entry<String, List<String>> option : options.entrySet()) {
            String name = option.getKey();
            if (!CONNECTION_OPTIONS.contains(name) && !further.contains(name)) {
                throw new Failure(USAGE, "unknown option " + name + "; see --help");
            }
            if (option.getValue().size() > 1 && !REPEATABLE.contains(name)) {
                throw new Failure(USAGE, name + " is given twice");
            }
        }
        if (words.size() != count) {
            throw new Failure(USAGE, words.size() < count ? "the pairing token is missing" : "too many arguments");
        }
        for (String name : List.of("--node", "--owner", "--handle")) {
            if ((name.equals("--node") || required.contains(name)) && !options.containsKey(name)) {
                throw new Failure(USAGE, name + " is required; see --help");
            }
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
                type,
                text(title),
                text(message),
                value("--trade-id").orElse(""),
                value("--action-required").orElse(""),
                System.currentTimeMillis());
        return deliver(pairing(1), notification, !has("--silent"));
    }

    private int pairRead() throws Failure {
        String text = pairingText(2);
        PairingToken pairing = null;
        String problem = "";
        try {
            pairing = PairingToken.parsePasted(text);
            text = pairing.reveal();
        } catch (PairingException error) {
            problem = error.getMessage();
        }
        String[] parts = text.split("\\|", -1);
        System.out.println("part          content");
        if (parts.length == 4) {
            String magic = Magic.of(parts[0]).isPresent() ? parts[0] : parts[0].length() + " characters";
            System.out.println("magic         " + line(magic));
            System.out.println("descriptor    " + line(parts[1]));
            System.out.println("key           " + Bytes.of(parts[2]).length + " bytes");
            System.out.println("device token  " + Bytes.of(parts[3]).length + " bytes");
        }
        if (pairing == null) {
            throw new Failure(REJECTED, problem);
        }
        System.out.println("valid, for apps that decrypt the format "
                + pairing.defaultFormat().name().toLowerCase(Locale.ROOT));
        return DELIVERED;
    }

    private int pairConfirm() throws Failure {
        PairingToken pairing = pairing(2);
        return deliver(pairing, TocsinClient.confirmation(format(pairing), schema()), true);
    }

    private int pairErase() throws Failure {
        PairingToken pairing = pairing(2);
        if (!schema().supportsErase(format(pairing))) {
            throw new Failure(
                    USAGE, "Bisq Connect does not support ERASE: delete the pairing in the app or uninstall it. For an app "
                            + "of your own, add --schema tocsin");
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

    // Handles

    private int register() throws Failure {
        PairingToken phone = phone();
        List<byte[]> senderKeys = senderKeys();
        HandleOwner owner;
        Path file = path(value("--owner").orElseThrow());
        try {
            if (!Files.exists(file)) {
                HandleOwner.of(phone).save(file);
            }
            owner = HandleOwner.read(file);
        } catch (IOException error) {
            throw new Failure(CONFIGURATION, "cannot use " + file + ": " + error.getMessage());
        }
        Duration timeout = timeout();
        Handle handle =
                ask(client -> client.register(phone, value("--app").orElse(""), senderKeys, owner, timeout));
        System.out.println(phone.withHandle(handle).reveal());
        return DELIVERED;
    }

    private int rotate() throws Failure {
        Handle handle = handle();
        PairingToken phone = phone();
        List<byte[]> senderKeys = senderKeys();
        HandleOwner owner = owner();
        Duration timeout = timeout();
        ask(client -> client.rotate(handle, phone, senderKeys, owner, timeout));
        System.out.println("rotated");
        return DELIVERED;
    }

    private int forget() throws Failure {
        Handle handle = handle();
        HandleOwner owner = owner();
        Duration timeout = timeout();
        ask(client -> client.forget(handle, owner, timeout));
        System.out.println("forgotten");
        return DELIVERED;
    }

    private PairingToken phone() throws Failure {
        PairingToken phone = pairing(1);
        if (phone.handle().isPresent()) {
            throw new Failure(
                    USAGE, "this pairing token has a handle: give the one that the phone shows, with its device token");
        }
        return phone;
    }

    private Handle handle() throws Failure {
        String text = text(value("--handle").orElseThrow()).lines().collect(Collectors.joining());
        try {
            return Handle.parse(text.substring(text.lastIndexOf('|') + 1));
        } catch (IllegalArgumentException error) {
            throw new Failure(
                    USAGE, "--handle must be a handle, or a pairing token with one: " + error.getMessage());
        }
    }

    private HandleOwner owner() throws Failure {
        String file = value("--owner").orElseThrow();
        try {
            return HandleOwner.read(path(file));
        } catch (NoSuchFileException error) {
            throw new Failure(CONFIGURATION, "there is no file " + file);
        } catch (IOException error) {
            throw new Failure(CONFIGURATION, error.getMessage());
        }
    }

    private List<byte[]> senderKeys() throws Failure {
        List<byte[]> keys = new ArrayList<>();
        for (String text : options.getOrDefault("--sender-key", List.of())) {
            byte[] key = {};
            try {
                key = Base64.getDecoder().decode(text);
            } catch (IllegalArgumentException error) {
                // The failure below reports it.
            }
            if (key.length != KeyFile.LENGTH) {
                throw new Failure(USAGE, "--sender-key must be a public key: 44 characters of Base64");
            }
            keys.add(key);
        }
        if (keys.size() > HandleRequest.MAXIMUM_SENDER_KEYS) {
            throw new Failure(USAGE, "a handle has at most " + HandleRequest.MAXIMUM_SENDER_KEYS + " sender keys");
        }
        return keys;
    }

    private Handle ask(Function<TocsinClient, CompletableFuture<Handle>> request) throws Failure {
        if (options.get("--node").size() > 1) {
            throw new Failure(USAGE, "a handle is kept by one node: give --node once");
        }
        return withClient(request, "asking the node");
    }

    // Delivery

    private int deliver(PairingToken pairing, BisqNotification notification, boolean sound) throws Failure {
        Envelope envelope;
        try {
            Envelope.Options delivery = Envelope.Options.DEFAULT
                    .withApp(value("--app").orElse(""))
                    .withTtl(number("--ttl", Envelope.MAXIMUM_TTL));
            envelope = pairing.seal(notification, sound ? delivery : delivery.silent(), format(pairing), schema());
        } catch (RejectionException error) {
            throw new Failure(REJECTED, error.getMessage());
        }
        TocsinClient.Submission submission = new TocsinClient.Submission(envelope);
        submission.timeout(timeout());
        if (!has("--no-key")) {
            submission.signedFor(pairing);
        } else if (has("--old-pairing")) {
            throw new Failure(USAGE, "--old-pairing needs a signature: omit --no-key");
        }
        if (has("--old-pairing")) {
            try {
                submission.succeeding(pairing, oldPairing());
            } catch (IllegalArgumentException error) {
                throw new Failure(USAGE, error.getMessage());
            }
        }
        if (has("--queue")) {
            submission.acceptQueued(true);
        }
        return report(withClient(client -> client.submit(submission), "sending the notification"), pairing);
    }

    private Duration timeout() throws Failure {
        return Duration.ofSeconds(number("--timeout", 120));
    }

    /** Does the work with a client for the nodes that the options name. */
    private <T> T withClient(Function<TocsinClient, CompletableFuture<T>> work, String purpose) throws Failure {
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
                builder.siteKey(SiteKey.read(path(file)));
            } catch (NoSuchFileException error) {
                throw new Failure(CONFIGURATION, "there is no file " + file);
            } catch (IOException error) {
                throw new Failure(CONFIGURATION, error.getMessage());
            }
        }
        builder.onProgress(progress -> show(progress, purpose));
        Optional<OnionKey> key = onionKey(nodes);
        String control = value("--tor-control").orElse("unix:/run/tor/control");
        boolean isInstalled = false;
        try (TocsinClient client = builder.build()) {
            if (key.isPresent()) {
                isInstalled = TorControl.install(key.get(), control);
            }
            T answer = work.apply(client).get();
            clearProgress();
            return answer;
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
        if (cause instanceof HandleException refused) {
            return refusal(refused.outcome());
        }
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

    private static Failure refusal(Outcome outcome) {
        String text = line(outcome.description());
        return switch (outcome.kind()) {
            case GONE -> new Failure(GONE, "gone: " + text + ". Register the phone again");
            case RETRY -> new Failure(
                    TRY_LATER, "try again " + when(outcome) + ": " + text + " (reason " + outcome.reason() + ")");
            default -> new Failure(REJECTED, "rejected: " + text + " (reason " + outcome.reason() + ")");
        };
    }

    private static String when(Outcome outcome) {
        return outcome.retryAfter() == 0 ? "later" : "in " + seconds(outcome.retryAfter());
    }

    private int report(Outcome outcome, PairingToken pairing) throws Failure {
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
            case GONE -> throw new Failure(
                    GONE,
                    "gone: " + text
                            + (pairing.handle().isPresent() && outcome.reason() == 304
                                    ? ". Its owner can put its new device token behind the handle with rotate"
                                    : ". Forget this pairing"));
            case REJECTED -> throw new Failure(
                    REJECTED, "rejected: " + text + " (reason " + outcome.reason() + ")" + advice(outcome.reason()));
            case RETRY -> {
                throw new Failure(
                        TRY_LATER,
                        "try again " + when(outcome) + ": " + text + " (reason " + outcome.reason() + ")"
                                + advice(outcome.reason()));
            }
        }
        return DELIVERED;
    }

    private static String advice(int reason) {
        return switch (reason) {
            case 205 -> "; this phone accepts only signed notifications: send without --no-key";
            case 206 -> "; this phone was paired anew elsewhere, or this pairing token is an old one: use the phone's current"
                    + " one. If it is the current one, give the one before with --old-pairing; if that is lost, ask the"
                    + " node's operator to run tocsin unbind";
            case 203, 204 -> "; --max-work SECONDS allows more computing";
            default -> "";
        };
    }

    private void show(Progress progress, String purpose) {
        if (System.console() == null) {
            return;
        }
        String text =
                switch (progress.step()) {
                    case CONNECTING -> "connecting to " + progress.node() + (has("--direct") ? "" : " through tor")
                            + " …";
                    case CONNECTED -> "connected; " + purpose + " …";
                    case WELCOMED -> "waiting for the answer …";
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
            throw new Failure(USAGE, option + " must be like " + example + ": " + error.getMessage());
        }
    }

    private NodeAddress node(String text) throws Failure {
        NodeAddress address = address("--node", text, "ADDRESS.onion:7077");
        if (OnionAddress.isOnion(address.host()) && has("--direct")) {
            throw new Failure(USAGE, "--direct cannot reach an onion: omit it, or give the node's own address");
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
            key = OnionKey.read(path(file));
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

    private Schema schema() throws Failure {
        return switch (value("--schema").orElse("bisq")) {
            case "bisq" -> Schema.BISQ;
            case "tocsin" -> Schema.TOCSIN;
            default -> throw new Failure(USAGE, "--schema must be bisq or tocsin");
        };
    }

    private String pairingText(int index) throws Failure {
        String text = words.get(index);
        return text.equals("-") ? text("@-") : text;
    }

    private PairingToken pairing(int index) throws Failure {
        return parsed(pairingText(index));
    }

    private static PairingToken parsed(String text) throws Failure {
        try {
            return PairingToken.parsePasted(text);
        } catch (PairingException error) {
            throw new Failure(USAGE, error.getMessage());
        }
    }

    /** The pairing in the file that {@code --old-pairing} names. */
    private PairingToken oldPairing() throws Failure {
        return parsed(text("@" + value("--old-pairing").orElseThrow()));
    }

    /**
     * The argument, or for {@code @FILE} the content of that file without its last line end, and with the line ends of
     * Unix; {@code @@} at the beginning stands for {@code @}.
     */
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
            try (InputStream file = Files.newInputStream(path(name))) {
                content = read(file, name);
            } catch (IOException error) {
                throw new Failure(USAGE, "cannot read " + name + ": no such file, or no permission");
            }
        }
        int mark = content.length < 2 ? 0 : (content[0] & 0xFF) << 8 | content[1] & 0xFF;
        if (mark == 0xFEFF || mark == 0xFFFE) {
            throw new Failure(USAGE, name + " is UTF-16 text: save it as UTF-8");
        }
        try {
            String text = StandardCharsets.UTF_8
                    .newDecoder()
                    .decode(ByteBuffer.wrap(content))
                    .toString()
                    .replaceFirst("^\uFEFF", "")
                    .replace("\r\n", "\n");
            return text.endsWith("\n") ? text.substring(0, text.length() - 1) : text;
        } catch (CharacterCodingException error) {
            throw new Failure(USAGE, name + " is not UTF-8 text");
        }
    }

    /** The file of an argument; its name may have characters that this locale has not. */
    private static Path path(String name) throws Failure {
        try {
            return Path.of(name);
        } catch (InvalidPathException error) {
            throw new Failure(USAGE, "the file name has characters that this locale does not have: set LC_ALL=C.UTF-8");
        }
    }

    private static byte[] read(InputStream input, String name) throws Failure {
        try {
            byte[] content = input.readNBytes(MAXIMUM_TEXT + 1);
            if (content.length <= MAXIMUM_TEXT) {
                return content;
            }
        } catch (IOException error) {
            throw new Failure(USAGE, "cannot read " + name);
        }
        throw new Failure(USAGE, name + " has more than " + MAXIMUM_TEXT + " bytes");
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
        return safe.length() > MAXIMUM_LINE ? safe.substring(0, MAXIMUM_LINE) + "…" : safe;
    }
}
