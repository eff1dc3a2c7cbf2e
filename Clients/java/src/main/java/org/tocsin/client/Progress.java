// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

/**
 * A step in the client's work, for display.
 *
 * @param step the step
 * @param node the node that it concerns
 * @param reason why the client waits; else empty
 * @param milliseconds how long it waits
 * @param effort the expected hashes of the proof of work
 */
public record Progress(Step step, NodeAddress node, String reason, long milliseconds, long effort) {
    /** The kinds of steps. */
    public enum Step {
        /** The client connects. */
        CONNECTING,
        /** The client is connected and sends HELLO and the submissions. */
        CONNECTED,
        /** The node has answered with WELCOME. */
        WELCOMED,
        /** The connection failed or was lost; the client tries again. */
        RETRYING,
        /** The node has stored an envelope; the final outcome follows. */
        QUEUED,
        /** The node answered RETRY; the client sends the envelope again after the time that the node named. */
        WAITING,
        /** The client computes a proof of work. */
        SOLVING
    }

    Progress(Step step, NodeAddress node) {
        this(step, node, "", 0, 0);
    }
}
