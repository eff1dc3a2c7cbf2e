// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.time.Duration;

/** A submission has no outcome. The message contains nothing of the notification. */
public final class SubmissionException extends Exception {
    private static final long serialVersionUID = 1L;

    /** Why there is no outcome. */
    public enum Kind {
        /** No node could be reached, or each connection was lost, until the time limit passed. */
        NODE_UNREACHABLE,
        /** The client could not connect to tor's SOCKS port. */
        PROXY_UNREACHABLE,
        /** The client was connected, but got no result in time. The node may still deliver the notification. */
        NO_RESULT,
        /** The client was connected, but the peer sent no WELCOME in time. */
        NO_WELCOME,
        /** Every node ended the connection for a reason that a retry does not remove, or does not speak TNP. */
        REFUSED,
        /** The client already has its maximum number of submissions without an outcome. */
        QUEUE_FULL,
        /** The client was closed. */
        CLOSED
    }

    /** Why there is no outcome. */
    private final Kind kind;
    /** The node's hint in milliseconds. */
    private final long retryAfter;

    SubmissionException(Kind kind, String message) {
        this(kind, message, 0);
    }

    SubmissionException(Kind kind, String message, long retryAfter) {
        super(message);
        this.kind = kind;
        this.retryAfter = retryAfter;
    }

    /**
     * Why there is no outcome.
     *
     * @return the kind of failure
     */
    public Kind kind() {
        return kind;
    }

    /**
     * How long the node asks to wait before another attempt.
     *
     * @return the time; zero if the node gave none
     */
    public Duration retryAfter() {
        return Duration.ofMillis(retryAfter);
    }

    /** An exception of its own for each caller: suppressed exceptions gather on a shared one. */
    SubmissionException copy() {
        return new SubmissionException(kind, getMessage(), retryAfter);
    }
}
