// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.UnaryOperator;

/** One node of a channel: its session, and the shell that connects it and performs the session's actions. */
final class Link implements Connection.Handler {
    /** The silence of a node that owes an answer after which the client sends PING. */
    private static final long PING_AFTER = Duration.ofSeconds(20).toNanos();
    /** The silence of such a node after which the client gives up the connection. */
    private static final long SILENCE_LIMIT = Duration.ofSeconds(40).toNanos();
    /** How long an idle connection stays open; less if the node's idle timeout is short. */
    private static final long IDLE_TIME = Duration.ofSeconds(60).toNanos();
    /** Bytes of unsent output above which the client does not answer PING. */
    private static final int MAXIMUM_UNSENT = 1024 * 1024;

    final int index;
    final NodeAddress address;
    final NodeState node = new NodeState();
    final Session session;

    private final Channel channel;
    /** Why the last attempt failed, or the last connection ended; {@code null} before. */
    private SubmissionException failure;

    private Connection connection;
    private boolean isOpen;
    private Loop.Timer dial;
    private Wire.GoAway leaving;
    private long connectedAt;
    private long lastFrame;
    private boolean hasPinged;
    /** Since when nothing is to be done; {@code null} if there is something. */
    private Long idleSince;

    /** When the present attempt to connect began, if {@code connection} is not open. */
    private long dialledAt;

    private final Map<Entry, AtomicBoolean> searches = new HashMap<>();

    Link(Channel channel, int index) {
        this.channel = channel;
        this.index = index;
        address = channel.settings.nodes.get(index);
        session = new Session(
                channel.settings.workLimit > 0,
                channel.settings.siteKey
                        .map(key -> (UnaryOperator<byte[]>) seed -> key.authentication(seed, address.host()))
                        .orElse(null));
    }

    /** Whether there is a connection, or an attempt to open one. */
    boolean isBusy() {
        return connection != null || dial != null;
    }

    SubmissionException failure() {
        return failure;
    }

    // Connecting

    /** Connects if there is a reason to and nothing speaks against it; then flushes. */
    void wake() {
        long now = Loop.now();
        if (node.revive(now)) {
            channel.assignWaiting();
        }
        if (connection == null && dial == null && !channel.isClosed()) {
            if (node.state == NodeState.State.UNUSED && !session.isEmpty()) {
                startDial(0);
            } else if (node.state == NodeState.State.DOWN && channel.isActive()) {
                startDial(Math.max(0, node.retryAt - now));
            }
        }
        flush();
    }

    private void startDial(long pause) {
        if (node.state == NodeState.State.UNUSED) {
            node.state = NodeState.State.CONNECTING;
        }
        dial = channel.loop.schedule(pause, this::connect);
    }

    private void connect() {
        dial = null;
        if (channel.isClosed() || !channel.isActive()) {
            if (node.state == NodeState.State.CONNECTING) {
                node.state = NodeState.State.UNUSED;
            }
            return;
        }
        channel.report(new Progress(Progress.Step.CONNECTING, address));
        dialledAt = Loop.now();
        connection = new Connection(
                channel.loop,
                address,
                channel.settings.proxy,
                channel.password,
                channel.settings.connectTimeout,
                this);
    }

    /** Marks the node as down. Its entries move to other nodes, and it is tried again later. */
    private void fail(SubmissionException cause, long atLeast, boolean byMistake) {
        failure = cause;
        node.state = NodeState.State.DOWN;
        reportRetry(node.failed(Loop.now(), channel.random(), atLeast, byMistake));
        channel.moveEntries(this, session.entries());
        wake();
    }

    private void reportRetry(long pause) {
        channel.report(
                new Progress(Progress.Step.RETRYING, address, failure.getMessage(), pause / 1_000_000, 0));
    }

    private static SubmissionException unreachable(String reason) {
        return new SubmissionException(
                SubmissionException.Kind.NODE_UNREACHABLE, "the node cannot be reached: " + reason);
    }

    // The connection

    @Override
    public void opened() {
        isOpen = true;
        node.isSlow = false;
        leaving = null;
        hasPinged = false;
        idleSince = null;
        node.state = NodeState.State.CONNECTED;
        channel.history.hasConnected = true;
        connectedAt = Loop.now();
        lastFrame = connectedAt;
        channel.report(new Progress(Progress.Step.CONNECTED, address));
        connection.write(session.connected(channel.settings.agent));
        channel.assignWaiting();
        flush();
    }

    @Override
    public void received(ByteBuffer bytes) {
        List<Session.Action> actions = new ArrayList<>();
        String fault = null;
        try {
            if (session.received(bytes, actions)) {
                lastFrame = Loop.now();
                hasPinged = false;
            }
        } catch (ProtocolException error) {
            fault = error.getMessage();
        }
        actions.forEach(this::perform);
        if (fault != null) {
            refuse("connection closed: the node does not speak TNP (" + fault + ")", 0);
        } else {
            flush();
        }
    }

    @Override
    public void ended(String reason, boolean isProxyUnreachable) {
        boolean wasOpen = isOpen;
        boolean wasWelcomed = session.welcome().isPresent();
        disconnect();
        if (!wasOpen) {
            boolean isMistaken = isProxyUnreachable
                    || (channel.settings.proxy == null && Connection.NOTHING_THERE.contains(reason));
            fail(
                    isProxyUnreachable
                            ? new SubmissionException(
                                    SubmissionException.Kind.PROXY_UNREACHABLE,
                                    "the SOCKS proxy at " + channel.settings.proxy + " cannot be reached: " + reason)
                            : unreachable(reason),
                    0,
                    isMistaken);
        } else if (leaving != null && leaving.code() != Wire.GoAway.IDLE) {
            fail(unreachable(leaving.reason()), leaving.retryAfter() * 1_000_000, false);
        } else if (wasWelcomed && !node.isUnreliable()) {
            reconnect(reason);
        } else {
            fail(unreachable(reason), 0, false);
        }
    }

    /** Connects to the same node again: entries in flight may already be known there, and ring once. */
    private void reconnect(String reason) {
        failure = unreachable(reason);
        node.state = NodeState.State.UNUSED;
        if (!session.isEmpty()) {
            long pause = node.failed(Loop.now(), channel.random(), 0, false);
            reportRetry(pause);
            startDial(pause);
        }
    }

    private void disconnect() {
        isOpen = false;
        node.isSlow = false;
        if (connection != null) {
            connection.close();
            connection = null;
        }
        session.disconnected();
    }

    /** Ends the connection for good. */
    private void refuse(String reason, long retryAfter) {
        disconnect();
        if (dial != null) {
            dial.cancel();
            dial = null;
        }
        failure = new SubmissionException(SubmissionException.Kind.REFUSED, reason, retryAfter);
        node.refused(Loop.now(), retryAfter * 1_000_000);
        channel.moveEntries(this, session.entries());
    }

    /** Ends everything at once. */
    void close() {
        if (dial != null) {
            dial.cancel();
        }
        searches.values().forEach(search -> search.set(true));
        disconnect();
    }

    /** Performs what is due in the session. */
    void flush() {
        session.flush(Loop.now()).forEach(this::perform);
        if (isOpen && session.isBlockedByAbandoned()) {
            disconnect();
            reconnect("abandoned submissions occupy all slots of the connection");
        }
    }

    private void perform(Session.Action action) {
        if (action instanceof Session.Send send) {
            // A node that sends PING but does not read gets no answer.
            if (isOpen && (send.data().length > 16 || connection.unsent() < MAXIMUM_UNSENT)) {
                connection.write(send.data());
            }
        } else if (action instanceof Session.Welcomed) {
            channel.report(new Progress(Progress.Step.WELCOMED, address));
        } else if (action instanceof Session.Answered answered) {
            node.answered();
            channel.answered(this, answered.entry(), answered.outcome());
        } else if (action instanceof Session.Leaving left) {
            leave(left.goAway());
        } else if (action instanceof Session.Solve solve) {
            channel.report(new Progress(Progress.Step.SOLVING, address, "", 0, solve.puzzle().effort()));
            solve(solve.entry(), solve.puzzle(), solve.nanoseconds());
        } else if (action instanceof Session.StopSolving stop) {
            stopSolving(stop.entry());
        }
    }

    private void leave(Wire.GoAway goAway) {
        if (!isOpen) {
            return;
        }
        if (goAway.isFatal()) {
            refuse("connection closed: " + goAway.reason(), goAway.retryAfter());
            return;
        }
        leaving = goAway;
        if (goAway.code() == Wire.GoAway.IDLE) {
            // The node works: submissions it has not accepted wait for the next connection.
            node.state = NodeState.State.CONNECTING;
        } else {
            node.state = NodeState.State.DOWN;
            channel.moveEntries(this, session.waiting());
        }
        if (!goAway.answersInFlight() || !session.isInFlight()) {
            ended("", false);
        }
    }

    // Proof of work

    private void solve(Entry entry, Wire.Puzzle puzzle, long limit) {
        AtomicBoolean isCancelled = new AtomicBoolean();
        searches.put(entry, isCancelled);
        byte[] digest = entry.digest();
        channel.solvers.execute(() -> {
            // The search may have waited for a thread: its time begins now.
            channel.loop.execute(() -> searchBegan(entry, isCancelled));
            long deadline = Loop.now() + limit;
            Proof proof = Proof.search(puzzle, digest, System.nanoTime() ^ index, deadline, isCancelled);
            channel.loop.execute(() -> searched(entry, isCancelled, proof));
        });
    }

    private void searchBegan(Entry entry, AtomicBoolean isCancelled) {
        // Another search may be running for the entry of a cancelled one.
        if (!isCancelled.get()) {
            session.searchBegan(entry, Loop.now());
        }
    }

    private void searched(Entry entry, AtomicBoolean isCancelled, Proof proof) {
        // Ignores a cancelled search: another may be running for the same entry.
        if (isCancelled.get()) {
            return;
        }
        searches.remove(entry);
        if (proof != null) {
            session.solved(entry, proof, Loop.now());
        } else {
            session.searchEnded(entry).forEach(this::perform);
        }
        flush();
    }

    void stopSolving(Entry entry) {
        AtomicBoolean isCancelled = searches.remove(entry);
        if (isCancelled != null) {
            isCancelled.set(true);
        }
    }

    // Time

    /** Watches for silence and idleness; called every second. */
    void tick(long now) {
        if (!isOpen) {
            if (connection != null && now - dialledAt >= channel.settings.connectTimeout / NodeState.SLOW_PART) {
                node.isSlow = true;
                channel.moveEntries(this, session.entries());
            }
            wake();
            return;
        }
        boolean isOwed = session.isOwedAnswer() || leaving != null;
        if (leaving != null && !session.isInFlight()) {
            ended("", false);
        } else if (isOwed) {
            idleSince = null;
            watchSilence(now - lastFrame);
        } else if (session.isEmpty()) {
            idleSince = idleSince == null ? Long.valueOf(now) : idleSince;
            lastFrame = now;
            long limit = session.welcome().get().idleTimeout() * 750_000_000;
            if (now - idleSince >= Math.min(IDLE_TIME, limit)) {
                disconnect();
                node.state = NodeState.State.UNUSED;
            }
        } else {
            idleSince = null;
            // A node that owes nothing may be silent.
            lastFrame = now;
        }
    }

    private void watchSilence(long silence) {
        if (silence >= SILENCE_LIMIT) {
            ended("it stopped responding", false);
        } else if (silence >= PING_AFTER && !hasPinged && session.welcome().isPresent()) {
            hasPinged = true;
            connection.write(Wire.ping(Crypto.random(8)));
        }
    }

    /** The error of a submission whose deadline has passed. */
    SubmissionException deadlineError(Entry entry, long now) {
        long limit = entry.timeout / 1_000_000_000;
        if (!isOpen) {
            return failure != null ? failure : unreachable("no connection within " + limit + " s");
        }
        if (session.welcome().isEmpty()) {
            return new SubmissionException(
                    SubmissionException.Kind.NO_WELCOME,
                    "connected, but the node sent nothing within " + (now - connectedAt) / 1_000_000_000 + " s");
        }
        return new SubmissionException(
                SubmissionException.Kind.NO_RESULT,
                "no result within " + limit + " s; the node may still deliver the notification");
    }
}
