// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.time.Duration;
import java.util.List;
import java.util.OptionalInt;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** What the client knows of one node of its list. Times are in nanoseconds; time and randomness are parameters. */
final class NodeState {
    /** The ceiling of the first wait before a new attempt to connect; it doubles with each failure. */
    static final long BACKOFF_BASE = Duration.ofMillis(250).toNanos();
    /** The ceiling of all such waits. */
    static final long BACKOFF_CAP = Duration.ofSeconds(30).toNanos();
    /** The longest {@code retry_after} of a GOAWAY that the client obeys. */
    static final long MAXIMUM_PAUSE = Duration.ofMinutes(10).toNanos();
    /** How long a submission waits for nodes that a mistake seems to keep away. */
    static final long HOPELESS_AFTER = Duration.ofSeconds(5).toNanos();
    /** The longest wait after such an attempt. */
    static final long MISTAKE_PAUSE = Duration.ofSeconds(2).toNanos();
    /**
     * An attempt to connect that has taken this part of its time limit lets other nodes come first: 15 s of 60. Through tor a
     * connection takes a few seconds; of a machine without power tor learns nothing.
     */
    static final int SLOW_PART = 4;
    /** How long the client does not use a node that closed a connection for good. */
    static final long FATAL_PAUSE = Duration.ofSeconds(60).toNanos();

    enum State {
        /** There is no connection, and no reason not to open one. */
        UNUSED,
        /** The client is connecting, possibly again after a lost connection: the node is likely to be back at once. */
        CONNECTING,
        CONNECTED,
        /** The last attempt to connect failed, or the node is shutting down or busy. */
        DOWN,
        /** The node ended the connection for a reason that a retry does not remove, or does not speak TNP. */
        REFUSED
    }

    State state = State.UNUSED;
    /** Whether the client has been connecting for so long that it prefers other nodes meanwhile. */
    boolean isSlow;
    /** The time from which the client may connect again, while the node is down or has refused. */
    long retryAt;

    /** Whether the last attempt failed because nothing answers at the proxy, or without one at the node's address. */
    private boolean isMistaken;

    private long failedAt;

    private int failures;

    boolean isUsable() {
        return state != State.DOWN && state != State.REFUSED;
    }

    /** Losses in a row, without a RESULT between them, after which other nodes are tried. */
    private static final int UNRELIABLE = 3;

    /** Resets the backoff after a RESULT. */
    void answered() {
        failures = 0;
    }

    /** Whether the node loses connections before it answers anything. */
    boolean isUnreliable() {
        return failures >= UNRELIABLE;
    }

    /** Whether several attempts have failed, the last one after this time, in a way that waiting is not likely to change. */
    boolean isHopeless(long since) {
        return state == State.DOWN && isMistaken && failedAt - since >= 0 && failures >= UNRELIABLE;
    }

    /**
     * Counts a failure.
     *
     * @param random from 0 up to 1: the wait is this part of the present ceiling (full jitter)
     * @param atLeast the node's {@code retry_after}
     * @param byMistake whether nothing answers at the proxy or the node's address: an attempt then costs nobody anything
     * @return the wait before the next attempt
     */
    long failed(long now, double random, long atLeast, boolean byMistake) {
        isMistaken = byMistake;
        failedAt = now;
        long ceiling = Math.min(BACKOFF_BASE << Math.min(failures, 16), BACKOFF_CAP);
        failures++;
        long pause = Math.max(
                Math.min(atLeast, MAXIMUM_PAUSE),
                Math.min((long) (ceiling * random), byMistake ? MISTAKE_PAUSE : BACKOFF_CAP));
        retryAt = now + pause;
        return pause;
    }

    void refused(long now, long atLeast) {
        state = State.REFUSED;
        retryAt = now + Math.max(Math.min(atLeast, MAXIMUM_PAUSE), FATAL_PAUSE);
    }

    /** Lets a refusing node be tried again once its pause is over; whether that is so now. */
    boolean revive(long now) {
        boolean isOver = state == State.REFUSED && now - retryAt >= 0;
        if (isOver) {
            state = State.UNUSED;
        }
        return isOver;
    }

    /**
     * The first usable node, a slow one only if there is no other: the client prefers the first of its list, so that bindings
     * and rates are one node's.
     */
    static OptionalInt choose(List<NodeState> nodes, Set<Integer> excluded) {
        List<Integer> usable = IntStream.range(0, nodes.size())
                .filter(index -> nodes.get(index).isUsable() && !excluded.contains(index))
                .boxed()
                .toList();
        return Stream.concat(usable.stream().filter(index -> !nodes.get(index).isSlow), usable.stream())
                .mapToInt(Integer::intValue)
                .findFirst();
    }
}
