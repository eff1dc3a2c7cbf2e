// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.OptionalInt;
import java.util.Set;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Consumer;
import java.util.stream.IntStream;

/**
 * The links to all nodes over one tor circuit each, for one phone (or for all, if phones are not isolated); chooses the
 * node for each submission. All methods run on the loop's thread.
 */
final class Channel {
    /** The shortest wait before the client obeys a node's RETRY. */
    private static final long MINIMUM_RETRY = Duration.ofMillis(250).toNanos();

    private static final long TICK = Duration.ofSeconds(1).toNanos();

    /** What all channels of a client have seen. */
    static final class History {
        /** Whether the client has ever reached a node. What fails then is no mistake of its settings. */
        boolean hasConnected;
    }

    final Settings settings;
    final History history;
    final Loop loop;
    final Executor solvers;
    /** The password for the proxy: tor gives each one a circuit of its own. */
    final String password = HexFormat.of().formatHex(Crypto.random(16));

    private final Consumer<Channel> onIdle;
    private final List<Link> links;
    private final Set<Entry> entries = new HashSet<>();
    /** The entries that found no usable node. */
    private List<Entry> unassigned = new ArrayList<>();

    private Loop.Timer ticker;
    private boolean isClosed;

    Channel(Settings settings, History history, Loop loop, Executor solvers, Consumer<Channel> onIdle) {
        this.settings = settings;
        this.history = history;
        this.loop = loop;
        this.solvers = solvers;
        this.onIdle = onIdle;
        links = IntStream.range(0, settings.nodes.size())
                .mapToObj(index -> new Link(this, index))
                .toList();
    }

    boolean isClosed() {
        return isClosed;
    }

    /** Whether submissions wait for an outcome. */
    boolean isActive() {
        return !entries.isEmpty();
    }

    int size() {
        return entries.size();
    }

    /** A random number from 0 up to 1, for jitter. */
    double random() {
        return ThreadLocalRandom.current().nextDouble();
    }

    void report(Progress progress) {
        if (settings.onProgress != null) {
            run(() -> settings.onProgress.accept(progress));
        }
    }

    // Submissions

    /** Takes a new submission. */
    void submit(Entry entry) {
        entries.add(entry);
        if (entry.isForFirstNode()) {
            links.stream().skip(1).forEach(link -> entry.excluded.add(link.index));
        }
        entry.deadlineTimer = loop.schedule(entry.timeout, () -> overdue(entry));
        assign(entry);
        links.forEach(Link::wake);
        if (ticker == null) {
            tick();
        }
    }

    /** Abandons a submission whose future was cancelled. */
    void cancelled(Entry entry) {
        if (!entries.contains(entry)) {
            return;
        }
        Link link = entry.link;
        drop(entry);
        if (link != null) {
            link.flush();
        }
    }

    /** Where a submission goes, or how it ends. */
    private sealed interface Choice {}

    private record Give(Link link) implements Choice {}

    private record End(Outcome outcome) implements Choice {}

    private record Fail(SubmissionException error) implements Choice {}

    /** No node is usable, but one may be later. */
    private record Wait() implements Choice {}

    /** Chooses the first usable node that has not refused the submission. */
    private Choice choice(Entry entry) {
        long now = Loop.now();
        links.forEach(link -> link.node.revive(now));
        List<NodeState> states = links.stream().map(link -> link.node).toList();
        Set<Integer> excluded = new HashSet<>(entry.refusedBy);
        excluded.addAll(entry.excluded);
        OptionalInt index = NodeState.choose(states, excluded);
        if (index.isPresent()) {
            return new Give(links.get(index.getAsInt()));
        } else if (entry.refusal != null && !entry.refusedBy.isEmpty()) {
            return new End(entry.refusal);
        } else if (links.stream()
                .filter(link -> !entry.excluded.contains(link.index))
                .allMatch(link -> link.node.state == NodeState.State.REFUSED)) {
            return new Fail(links.get(0).failure());
        }
        return new Wait();
    }

    /** Gives a submission that no node has to a node, or ends it. */
    private void assign(Entry entry) {
        Choice choice = choice(entry);
        entry.link = null;
        if (choice instanceof Give give) {
            entry.link = give.link();
            entry.resends = 0;
            entry.link.session.add(entry);
        } else if (choice instanceof End end) {
            finish(entry, end.outcome());
        } else if (choice instanceof Fail failed) {
            fail(entry, failed.error());
        } else {
            unassigned.add(entry);
        }
    }

    /** Assigns the submissions that found no usable node, also those that stayed with a node that is down. */
    void assignWaiting() {
        List<Entry> waiting = unassigned;
        unassigned = new ArrayList<>();
        waiting.forEach(this::assign);
        for (Link link : links) {
            if (link.node.state == NodeState.State.DOWN) {
                give(link, link.session.notInFlight());
            }
        }
    }

    /** Moves submissions of a link to other nodes. */
    void moveEntries(Link link, List<Entry> moved) {
        give(link, moved);
        assignWaiting();
        links.stream().filter(other -> other != link).forEach(Link::wake);
    }

    /**
     * Gives submissions of a link to other nodes. What the node has stored stays with it; so does, with the search for its
     * proof, what no other node can take now.
     */
    private void give(Link link, List<Entry> given) {
        for (Entry entry : given) {
            if (entry.queued != null) {
                if (link.node.state == NodeState.State.REFUSED) {
                    finish(entry, entry.queued);
                }
            } else {
                Choice choice = choice(entry);
                // Slow nodes do not take from each other.
                boolean isNoBetter = choice instanceof Give give
                        && (give.link() == link || give.link().node.isSlow && link.node.isSlow);
                if (!(choice instanceof Wait) && !isNoBetter) {
                    link.session.remove(entry);
                    assign(entry);
                }
            }
        }
    }

    /** Takes a node's answer, and decides what follows a RETRY. */
    void answered(Link link, Entry entry, Outcome outcome) {
        if (outcome.kind() == Outcome.Kind.QUEUED) {
            report(new Progress(Progress.Step.QUEUED, link.address));
            if (entry.returnsWhenQueued) {
                finish(entry, outcome);
            }
            return;
        }
        if (outcome.kind() != Outcome.Kind.RETRY) {
            finish(entry, outcome);
            return;
        }
        entry.link = null;
        entry.queued = null;
        entry.refusal = outcome;
        // Jitter, so that submissions with the same pause do not return at the same moment.
        long pause = (long)
                (Math.max(outcome.retryAfter() * 1_000_000, MINIMUM_RETRY) * (1 + random() / 10));
        // Waiting does not help against missing work, for which the time is spent.
        boolean isWorthWaiting = outcome.retryAfter() > 0 && !Session.requiresWork(outcome);
        if (isWorthWaiting && pause <= settings.patience && entry.deadline - Loop.now() > pause) {
            report(new Progress(
                    Progress.Step.WAITING, link.address, outcome.description(), pause / 1_000_000, 0));
            entry.pause = loop.schedule(pause, () -> again(entry));
        } else {
            entry.refusedBy.add(link.index);
            again(entry);
        }
    }

    private void again(Entry entry) {
        entry.pause = null;
        if (entries.contains(entry)) {
            assign(entry);
            if (entry.link != null) {
                entry.link.wake();
            }
        }
    }

    private void drop(Entry entry) {
        entries.remove(entry);
        entry.deadlineTimer.cancel();
        if (entry.pause != null) {
            entry.pause.cancel();
        }
        if (entry.link != null) {
            entry.link.session.remove(entry);
            entry.link = null;
        }
        unassigned.remove(entry);
    }

    private void finish(Entry entry, Outcome outcome) {
        drop(entry);
        run(() -> entry.future.complete(outcome));
    }

    private void fail(Entry entry, SubmissionException error) {
        drop(entry);
        SubmissionException copy = error.copy();
        run(() -> entry.future.completeExceptionally(copy));
    }

    /** Runs a callback on the user's executor; here, if that takes no more tasks. */
    private void run(Runnable callback) {
        try {
            settings.executor.execute(callback);
        } catch (RejectedExecutionException error) {
            callback.run();
        }
    }

    private void overdue(Entry entry) {
        Link link = entry.link;
        if (entry.queued != null) {
            finish(entry, entry.queued);
        } else if (link != null && link.session.lacksProof(entry)) {
            link.stopSolving(entry);
            for (Session.Action action : link.session.searchEnded(entry)) {
                finish(entry, ((Session.Answered) action).outcome());
            }
        } else if (entry.refusal != null && (link == null || link.session.isWaiting(entry))) {
            finish(entry, entry.refusal);
        } else {
            fail(entry, (link == null ? links.get(0) : link).deadlineError(entry, Loop.now()));
        }
        if (link != null) {
            link.flush();
        }
    }

    // Time

    private void tick() {
        if (isClosed) {
            return;
        }
        long now = Loop.now();
        links.forEach(link -> link.tick(now));
        if (!history.hasConnected) {
            giveUp(now);
        }
        if (isActive() || isBusy()) {
            ticker = loop.schedule(TICK, this::tick);
        } else {
            ticker = null;
            // Remembers the pauses of its nodes until they are over.
            long pause = links.stream()
                    .filter(link -> !link.node.isUsable())
                    .mapToLong(link -> link.node.retryAt - now)
                    .max()
                    .orElse(0);
            loop.schedule(Math.max(0, pause), () -> {
                if (!isActive() && !isBusy()) {
                    onIdle.accept(this);
                }
            });
        }
    }

    /** Ends submissions that a mistake in the settings keeps from every node: no proxy, or no node, at the address. */
    private void giveUp(long now) {
        for (Entry entry : List.copyOf(entries)) {
            List<Link> candidates = links.stream()
                    .filter(link -> !entry.excluded.contains(link.index))
                    .toList();
            long started = entry.deadline - entry.timeout;
            if (now - started >= NodeState.HOPELESS_AFTER
                    && candidates.stream().allMatch(link -> link.node.isHopeless(started))) {
                fail(entry, candidates.get(0).failure());
            }
        }
    }

    private boolean isBusy() {
        return links.stream().anyMatch(Link::isBusy);
    }

    /** Closes all connections; submissions without an outcome fail. */
    void close() {
        isClosed = true;
        links.forEach(Link::close);
        for (Entry entry : List.copyOf(entries)) {
            fail(entry, new SubmissionException(SubmissionException.Kind.CLOSED, "the client was closed"));
        }
    }
}
