// SPDX-License-Identifier: Apache-2.0
package org.tocsin.phone;

/** The node has not accepted a request about a handle. */
public final class RefusedException extends PhoneException {
    private static final long serialVersionUID = 1L;

    /** What the phone does next. */
    public enum Outcome {
        /** Never send this request again. */
        REJECTED,
        /** Send it again after {@link RefusedException#retryAfterMillis()}. */
        RETRY,
        /** The node does not know the handle: register anew. */
        GONE
    }

    private final Outcome outcome;
    private final int reason;
    private final long retryAfterMillis;

    RefusedException(Outcome outcome, int reason, long retryAfterMillis, String text) {
        super("the node has refused: " + sentence(text) + " (" + reason + ")");
        this.outcome = outcome;
        this.reason = reason;
        this.retryAfterMillis = retryAfterMillis;
    }

    /** The node's words for a log: printable, and not too many. */
    private static String sentence(String text) {
        return text.substring(0, Math.min(200, text.length())).replaceAll("[\\x00-\\x1f\\x7f]", " ");
    }

    /**
     * What the phone does next.
     *
     * @return the outcome
     */
    public Outcome outcome() {
        return outcome;
    }

    /**
     * The reason's number (PROTOCOL §4).
     *
     * @return the number
     */
    public int reason() {
        return reason;
    }

    /**
     * How long to wait before the request is sent again.
     *
     * @return milliseconds
     */
    public long retryAfterMillis() {
        return retryAfterMillis;
    }

    /** Whether a REGISTER lacks a proof of work, or its proof is not good enough. */
    boolean needsProof() {
        return outcome == Outcome.RETRY && (reason == 203 || reason == 204);
    }
}
