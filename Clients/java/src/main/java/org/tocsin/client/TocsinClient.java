// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/**
 * Submits notifications through Tocsin nodes, the preferred one first, until each has an outcome. Thread-safe; one client
 * serves a whole application.
 *
 * <pre>{@code
 * try (TocsinClient client = TocsinClient.builder().node("ADDRESS.onion:7077").build()) {
 *     PairingToken pairing = client.pair(scannedText).join();
 *     Outcome outcome = client.notify(pairing,
 *         new BisqNotification(NotificationType.TRADE, "Paid", "Trade 123 is paid")).join();
 * }
 * }</pre>
 *
 * <p>A future completes exceptionally with {@link SubmissionException} if there is no outcome, {@link RejectionException}
 * if the notification cannot be sealed, and {@link PairingException} if a text is not a pairing token. Cancelling the
 * future of {@code submit} or {@code notify} abandons the submission.
 */
public final class TocsinClient implements AutoCloseable {
    static {
        BouncyCastle.require();
    }

    /** The largest number of submissions without an outcome. */
    private static final int MAXIMUM_QUEUE = 10_000;
    /** The largest number of tor circuits per node at a time. Beyond it, phones share circuits. */
    private static final int MAXIMUM_CIRCUITS = 64;

    private static final int MAXIMUM_AGENT = 64;

    private static final AtomicLong LAST_SEQUENCE = new AtomicLong();

    private final Settings settings;
    private final Channel.History history = new Channel.History();
    private final Loop loop = new Loop();
    private final ExecutorService solvers = Executors.newFixedThreadPool(Session.SEARCHES, task -> {
        Thread thread = new Thread(task, "tocsin-solver");
        thread.setDaemon(true);
        thread.setPriority(Thread.MIN_PRIORITY);
        return thread;
    });
    private final AtomicInteger pending = new AtomicInteger();
    private final Map<String, PairingToken> pairings = new ConcurrentHashMap<>();
    /** By device token or handle; accessed on the loop's thread only. */
    private final Map<String, Channel> channels = new HashMap<>();

    private volatile boolean isClosed;

    private TocsinClient(Settings settings) {
        this.settings = settings;
    }

    /**
     * Starts to describe a client.
     *
     * @return a builder
     */
    public static Builder builder() {
        return new Builder();
    }

    /** Describes a client. */
    public static final class Builder {
        private final Settings settings = new Settings();

        private Builder() {}

        /**
         * Adds a node. The client prefers the one that was added first. What is addressed by handle goes to that one only,
         * which keeps the handle.
         *
         * @param address like {@code ADDRESS.onion:7077}
         * @return this builder
         * @throws IllegalArgumentException if the text is not an address
         */
        public Builder node(String address) {
            return node(NodeAddress.parse(address));
        }

        /**
         * Adds a node.
         *
         * @param address the address
         * @return this builder
         */
        public Builder node(NodeAddress address) {
            settings.nodes.add(address);
            return this;
        }

        /**
         * Connects through a SOCKS5 proxy that accepts any user and password, as tor does. The default is tor's port
         * 9050 on this machine.
         *
         * @param address the address of tor's SOCKS port
         * @return this builder
         */
        public Builder socks(NodeAddress address) {
            settings.proxy = address;
            return this;
        }

        /**
         * Connects without a proxy: only for a node on this machine or a private link.
         *
         * @return this builder
         */
        public Builder direct() {
            settings.proxy = null;
            return this;
        }

        /**
         * Chooses which fields notifications have.
         *
         * @param schema what the phones' app reads. The default is {@link Schema#BISQ}.
         * @return this builder
         */
        public Builder schema(Schema schema) {
            settings.schema = schema;
            return this;
        }

        /**
         * Limits the time to compute proofs of work.
         *
         * @param limit for one submission; zero computes none. The default is 60 s.
         * @return this builder
         */
        public Builder workLimit(Duration limit) {
            settings.workLimit = nanoseconds(limit);
            return this;
        }

        /**
         * Limits the time for which the client obeys a node's RETRY, if the submission's own time limit allows it. For
         * longer, it tries the other nodes, and then returns RETRY.
         *
         * @param limit the default is 10 minutes
         * @return this builder
         */
        public Builder patience(Duration limit) {
            settings.patience = nanoseconds(limit);
            return this;
        }

        /**
         * Limits the time of one attempt to connect: tor needs some to find an onion service.
         *
         * @param limit the default is 60 s
         * @return this builder
         */
        public Builder connectTimeout(Duration limit) {
            settings.connectTimeout = nanoseconds(limit);
            return this;
        }

        /**
         * Sets the agent in HELLO. Leave it empty, so that the client does not differ from others.
         *
         * @param name at most 64 bytes of UTF-8
         * @return this builder
         */
        public Builder agent(String name) {
            byte[] text = Bytes.of(name);
            if (text.length > MAXIMUM_AGENT) {
                throw new IllegalArgumentException("an agent has at most " + MAXIMUM_AGENT + " bytes");
            }
            settings.agent = text;
            return this;
        }

        /**
         * Lets all phones share one tor circuit per node, for programs with many phones whose node may link them.
         *
         * @return this builder
         */
        public Builder sharedCircuit() {
            settings.isIsolated = false;
            return this;
        }

        /**
         * Authenticates as a site that the nodes' operators know: the nodes apply the site's rate and require no proof
         * of work.
         *
         * @param key the site's key
         * @return this builder
         */
        public Builder siteKey(SiteKey key) {
            settings.siteKey = Optional.ofNullable(key);
            return this;
        }

        /**
         * Sets where futures complete and callbacks run.
         *
         * @param runner the default is the common pool
         * @return this builder
         */
        public Builder executor(Executor runner) {
            settings.executor = runner;
            return this;
        }

        /**
         * Reports the steps of the work.
         *
         * @param receiver receives each step
         * @return this builder
         */
        public Builder onProgress(Consumer<Progress> receiver) {
            settings.onProgress = receiver;
            return this;
        }

        /**
         * Reports phones that no longer have their device token, or whose handle the node does not know.
         *
         * @param receiver receives the pairing, which the client has forgotten
         * @return this builder
         */
        public Builder onGone(Consumer<PairingToken> receiver) {
            settings.onGone = receiver;
            return this;
        }

        /**
         * Creates the client, which connects at its first submission.
         *
         * @return the client
         * @throws IllegalStateException if no node was added
         */
        public TocsinClient build() {
            if (settings.nodes.isEmpty()) {
                throw new IllegalStateException("a client needs at least one node");
            }
            return new TocsinClient(settings.copy());
        }
    }

    /** The time in nanoseconds, at most a hundred years. */
    private static long nanoseconds(Duration time) {
        Duration longest = Duration.ofDays(36_500);
        return (time.compareTo(longest) < 0 ? time : longest).toNanos();
    }

    /** How a submission is made. */
    public static final class Submission {
        private final Envelope envelope;
        private Signature signature;
        private Duration timeout = Duration.ofSeconds(180);
        private boolean acceptQueued;
        private boolean returnsWhenQueued;

        /**
         * Describes the submission of an envelope: unsigned, with 180 s for an outcome.
         *
         * @param envelope the envelope
         */
        public Submission(Envelope envelope) {
            this.envelope = envelope;
        }

        /**
         * Signs it.
         *
         * @param pairing the pairing for which the envelope is sealed
         * @return this submission
         */
        public Submission signedFor(PairingToken pairing) {
            signature = pairing.sign(envelope);
            return this;
        }

        /**
         * Signs it and moves the phone's binding from the sender key of an earlier pairing to this one's (PROTOCOL §3, "A
         * new key"). Do this after the phone was paired anew and has kept its device token, until a notification is
         * delivered.
         *
         * @param pairing the pairing for which the envelope is sealed
         * @param earlier the pairing of before
         * @return this submission
         * @throws IllegalArgumentException if the pairings have different device tokens
         */
        public Submission succeeding(PairingToken pairing, PairingToken earlier) {
            signature = pairing.sign(envelope).succeeding(pairing, earlier);
            return this;
        }

        /**
         * Limits the time, including the time in which no node is reachable.
         *
         * @param limit the longest time to wait for an outcome
         * @return this submission
         */
        public Submission timeout(Duration limit) {
            timeout = limit;
            return this;
        }

        /**
         * Lets the node store the envelope durably and deliver it later.
         *
         * @param returnsAtOnce whether the outcome is QUEUED then, without waiting for the final one
         * @return this submission
         */
        public Submission acceptQueued(boolean returnsAtOnce) {
            acceptQueued = true;
            returnsWhenQueued = returnsAtOnce;
            return this;
        }
    }

    /**
     * Submits an unsigned envelope.
     *
     * @param envelope the envelope
     * @return the final outcome
     */
    public CompletableFuture<Outcome> submit(Envelope envelope) {
        return submit(new Submission(envelope));
    }

    /**
     * Submits an envelope. A node's RETRY is obeyed within the time limit; then the other nodes are tried. RETRY is the
     * outcome if all nodes answer it.
     *
     * @param submission the envelope, and how to submit it
     * @return the final outcome
     */
    public CompletableFuture<Outcome> submit(Submission submission) {
        String address = submission.envelope.address();
        Entry entry = new Entry(
                submission.envelope,
                submission.signature,
                submission.acceptQueued,
                submission.returnsWhenQueued,
                Loop.now(),
                nanoseconds(submission.timeout),
                settings.workLimit);
        CompletableFuture<Outcome> future = send(entry, address);
        future.whenComplete((outcome, error) -> {
            if (outcome != null && outcome.endsPairing(submission.envelope.isByHandle())) {
                gone(address);
            }
        });
        return future;
    }

    /** Sends a submission or a request about a handle, on the connections of this address. */
    private CompletableFuture<Outcome> send(Entry entry, String address) {
        if (isClosed) {
            return CompletableFuture.failedFuture(
                    new SubmissionException(SubmissionException.Kind.CLOSED, "the client was closed"));
        }
        if (pending.incrementAndGet() > MAXIMUM_QUEUE) {
            pending.decrementAndGet();
            return CompletableFuture.failedFuture(new SubmissionException(
                    SubmissionException.Kind.QUEUE_FULL,
                    MAXIMUM_QUEUE + " submissions wait for an outcome already"));
        }
        loop.execute(() -> {
            if (!isClosed) {
                Channel channel = channel(address);
                channel.submit(entry);
                // Also where the app ends the future itself, e.g. with orTimeout.
                entry.future.whenComplete((outcome, error) -> {
                    if (error != null) {
                        loop.execute(() -> channel.cancelled(entry));
                    }
                });
            }
        });
        if (isClosed) {
            // The loop may have ended before it took the task.
            entry.future.completeExceptionally(
                    new SubmissionException(SubmissionException.Kind.CLOSED, "the client was closed"));
        }
        entry.future.whenComplete((outcome, error) -> pending.decrementAndGet());
        return entry.future;
    }

    // Handles

    /**
     * Asks the first node for a handle, which stands for a phone in the place of its device token. The same phone, app and
     * owner always get the same handle. Unless the phone rings by the handle within ten minutes, the node drops it.
     *
     * @param phone the phone's pairing token with its device token
     * @param app the name of an app of the node; empty for its first app
     * @param senderKeys the Ed25519 public keys, 32 bytes each, that may ring the phone besides the owner's; at most 8. None
     *     if whoever has the handle may
     * @param owner who may later change or end the handle
     * @param timeout the longest time to wait for an answer
     * @return the handle; fails with {@link HandleException} if the node does not accept the request
     */
    public CompletableFuture<Handle> register(
            PairingToken phone, String app, List<byte[]> senderKeys, HandleOwner owner, Duration timeout) {
        return ask(
                HandleRequest.register(phone, app, senderKeys, nextSequence(), owner, host()),
                phone.address(),
                timeout);
    }

    /**
     * Puts another device token behind a handle. Its sender keys are replaced, too.
     *
     * @param handle the handle
     * @param phone the phone's pairing token with its new device token
     * @param senderKeys as of {@link #register}
     * @param owner the owner of the handle
     * @param timeout the longest time to wait for an answer
     * @return the same handle; fails with {@link HandleException} if the node does not accept the request
     */
    public CompletableFuture<Handle> rotate(
            Handle handle, PairingToken phone, List<byte[]> senderKeys, HandleOwner owner, Duration timeout) {
        return ask(
                HandleRequest.rotate(handle, phone, senderKeys, nextSequence(), owner, host()),
                handle.reveal(),
                timeout);
    }

    /**
     * Ends a handle: nobody can ring the phone by it any more.
     *
     * @param handle the handle
     * @param owner the owner of the handle
     * @param timeout the longest time to wait for an answer
     * @return the same handle; fails with {@link HandleException} if the node does not accept the request
     */
    public CompletableFuture<Handle> forget(Handle handle, HandleOwner owner, Duration timeout) {
        return ask(HandleRequest.forget(handle, nextSequence(), owner, host()), handle.reveal(), timeout);
    }

    /** The present Unix time in milliseconds, or one more than the last sequence of this process if that is greater. */
    static long nextSequence() {
        return LAST_SEQUENCE.updateAndGet(last -> Math.max(last + 1, System.currentTimeMillis()));
    }

    /** The host of the only node that requests about handles go to. */
    private String host() {
        return settings.nodes.get(0).host();
    }

    private CompletableFuture<Handle> ask(HandleRequest request, String address, Duration timeout) {
        Entry entry = new Entry(request, Loop.now(), nanoseconds(timeout), settings.workLimit);
        CompletableFuture<Handle> answer = send(entry, address)
                .thenCompose(outcome -> entry.handle != null && outcome.kind() == Outcome.Kind.DELIVERED
                        ? CompletableFuture.completedFuture(entry.handle)
                        : CompletableFuture.failedFuture(new HandleException(outcome)));
        // Also where the app ends the future itself.
        answer.whenComplete((handle, error) -> entry.future.cancel(false));
        return answer;
    }

    /**
     * Seals, signs and submits a notification.
     *
     * @param pairing the phone
     * @param notification the notification
     * @return the final outcome
     */
    public CompletableFuture<Outcome> notify(PairingToken pairing, BisqNotification notification) {
        return notify(pairing, notification, Envelope.Options.DEFAULT);
    }

    /**
     * Seals, signs and submits a notification.
     *
     * @param pairing the phone
     * @param notification the notification
     * @param options how it is delivered
     * @return the final outcome
     */
    public CompletableFuture<Outcome> notify(
            PairingToken pairing, BisqNotification notification, Envelope.Options options) {
        try {
            Envelope envelope = pairing.seal(notification, options, pairing.defaultFormat(), settings.schema);
            return submit(new Submission(envelope).signedFor(pairing));
        } catch (RejectionException error) {
            return CompletableFuture.failedFuture(error);
        }
    }

    /**
     * Seals, signs and submits a clear text of the app's own form.
     *
     * @param pairing the phone
     * @param clearText the text, which is padded with spaces
     * @param options how it is delivered
     * @return the final outcome
     */
    public CompletableFuture<Outcome> notify(PairingToken pairing, byte[] clearText, Envelope.Options options) {
        try {
            return submit(new Submission(pairing.seal(clearText, options)).signedFor(pairing));
        } catch (RejectionException error) {
            return CompletableFuture.failedFuture(error);
        }
    }

    // Pairing

    /**
     * Reads a pairing token, confirms the pairing to the phone, and remembers it.
     *
     * @param text the text of the phone's QR code
     * @return the pairing; store {@link PairingToken#reveal()} where secrets belong
     */
    public CompletableFuture<PairingToken> pair(String text) {
        PairingToken pairing;
        try {
            pairing = PairingToken.parse(text);
        } catch (PairingException error) {
            return CompletableFuture.failedFuture(error);
        }
        return confirm(pairing).thenCompose(outcome -> {
            if (outcome.kind() != Outcome.Kind.DELIVERED) {
                return CompletableFuture.failedFuture(
                        new PairingException("the pairing was not confirmed: " + outcome.description()));
            }
            remember(pairing);
            return CompletableFuture.completedFuture(pairing);
        });
    }

    /**
     * Adds a pairing from an earlier run, so that {@link Builder#onGone} reports it.
     *
     * @param pairing the pairing
     */
    public void remember(PairingToken pairing) {
        pairings.put(pairing.address(), pairing);
    }

    /**
     * The phones that this client has paired with and not erased.
     *
     * @return the pairings
     */
    public List<PairingToken> pairings() {
        return List.copyOf(pairings.values());
    }

    /**
     * Tells the phone that it is paired.
     *
     * @param pairing the phone
     * @return the final outcome
     */
    public CompletableFuture<Outcome> confirm(PairingToken pairing) {
        return notify(pairing, confirmation(pairing.defaultFormat(), settings.schema));
    }

    /** A Bisq 1 app shows its own text for it; others may show the text that they receive. */
    static BisqNotification confirmation(EnvelopeFormat format, Schema schema) {
        boolean hasText = format == EnvelopeFormat.SEALED || schema == Schema.TOCSIN;
        return new BisqNotification(
                NotificationType.SETUP_CONFIRMATION,
                hasText ? "Paired" : "",
                hasText ? "This phone is paired." : "");
    }

    /**
     * Makes the phone's app delete its pairing and all notifications, and forgets the pairing here.
     *
     * @param pairing the phone
     * @return the final outcome
     * @throws UnsupportedOperationException if the app does not support it: Bisq Connect does not
     */
    public CompletableFuture<Outcome> erase(PairingToken pairing) {
        if (!settings.schema.supportsErase(pairing.defaultFormat())) {
            throw new UnsupportedOperationException(
                    "Bisq Connect does not support ERASE: delete the pairing in the app");
        }
        return notify(pairing, new BisqNotification(NotificationType.ERASE, "", ""), Envelope.Options.DEFAULT.silent())
                .thenApply(outcome -> {
                    if (outcome.kind() == Outcome.Kind.DELIVERED
                            || outcome.endsPairing(pairing.handle().isPresent())) {
                        pairings.remove(pairing.address());
                    }
                    return outcome;
                });
    }

    private void gone(String address) {
        PairingToken pairing = pairings.remove(address);
        if (pairing != null && settings.onGone != null) {
            settings.executor.execute(() -> settings.onGone.accept(pairing));
        }
    }

    // Channels

    /** The channel of a phone. The map is bounded; phones beyond the bound share channels. */
    private Channel channel(String address) {
        String key = settings.isIsolated ? address : "";
        Channel channel = channels.get(key);
        if (channel != null) {
            return channel;
        }
        if (channels.size() >= MAXIMUM_CIRCUITS) {
            List<Channel> shared = List.copyOf(channels.values());
            return shared.get(Math.floorMod(address.hashCode(), shared.size()));
        }
        channel = new Channel(settings, history, loop, solvers, idle -> channels.values().remove(idle));
        channels.put(key, channel);
        return channel;
    }

    /** Closes all connections; submissions without an outcome fail with {@link SubmissionException.Kind#CLOSED}. */
    @Override
    public void close() {
        if (!isClosed) {
            isClosed = true;
            loop.execute(() -> {
                channels.values().forEach(Channel::close);
                solvers.shutdown();
            });
            loop.stop();
        }
    }
}
