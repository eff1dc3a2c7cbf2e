// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

/** A submission, or a request about a handle, without a final outcome. Times are values of {@link System#nanoTime()} or differences of them. */
final class Entry {
    /** {@code null} in a request about a handle. */
    private final Envelope envelope;
    private final Signature signature;
    private final boolean acceptQueued;
    /** {@code null} in a submission. */
    private final HandleRequest handleRequest;
    final boolean returnsWhenQueued;
    final CompletableFuture<Outcome> future = new CompletableFuture<>();
    /** When the caller gives up. */
    final long deadline;
    /** The caller's time limit. */
    final long timeout;

    /** The time left to search for its proof. */
    long workLeft;
    Proof proof;
    /** Whether a node has required work: then the entry waits for WELCOME and is not sent early. */
    boolean needsWork;
    /** The last RETRY that required work. */
    Outcome workRefusal;
    /** The last RETRY of a node. */
    Outcome refusal;
    /** How often it was sent again after a RETRY that required work. */
    int resends;
    /** The handle in the node's answer to a request about one. */
    Handle handle;
    /** QUEUED, if the current node has stored the envelope. */
    Outcome queued;
    /** The node that has the entry; {@code null} between two nodes. */
    Link link;
    /** The indices of the nodes that cannot know what the request is about. */
    final Set<Integer> excluded = new HashSet<>();
    /** The indices of the nodes that answered RETRY for longer than the caller waits. */
    final Set<Integer> refusedBy = new HashSet<>();

    Loop.Timer deadlineTimer;
    /** Runs while the entry waits for a node's {@code retry_after}. */
    Loop.Timer pause;

    Entry(
            Envelope envelope,
            Signature signature,
            boolean acceptQueued,
            boolean returnsWhenQueued,
            long now,
            long timeout,
            long workLimit) {
        this.envelope = envelope;
        handleRequest = null;
        this.signature = signature;
        this.acceptQueued = acceptQueued;
        this.returnsWhenQueued = returnsWhenQueued;
        this.timeout = timeout;
        deadline = now + timeout;
        workLeft = workLimit;
    }

    Entry(HandleRequest handleRequest, long now, long timeout, long workLimit) {
        envelope = null;
        signature = null;
        acceptQueued = false;
        returnsWhenQueued = false;
        this.handleRequest = handleRequest;
        this.timeout = timeout;
        deadline = now + timeout;
        workLeft = workLimit;
    }

    /** What a proof of work is for. */
    byte[] digest() {
        return envelope == null ? handleRequest.hash() : envelope.digest();
    }

    /** Whether this is the request of a handle's owner. It waits for WELCOME, which says whether the node keeps handles. */
    boolean isAboutHandle() {
        return envelope == null;
    }

    /** Whether the node may require a proof of work. */
    boolean mayNeedProof() {
        return envelope != null || handleRequest.mayNeedProof();
    }

    /** Whether no node but the first, which keeps the handle, can answer. */
    boolean isForFirstNode() {
        return envelope == null || envelope.isByHandle();
    }

    /** The frame with this request number. */
    byte[] encode(long request) {
        if (envelope == null) {
            return handleRequest.encode(request, proof);
        }
        Bytes.Output output = new Bytes.Output();
        output.append(Bytes.number(request, 4));
        envelope.encode(output, acceptQueued);
        if (proof != null) {
            output.field(0x10, proof.encoded());
        }
        if (signature != null) {
            signature.encode(output);
        }
        return output.frame(Wire.SUBMIT);
    }
}
