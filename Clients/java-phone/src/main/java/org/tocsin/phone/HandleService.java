// SPDX-License-Identifier: Apache-2.0
package org.tocsin.phone;

import java.io.IOException;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The handles of a phone, over the app's own HTTP client (PROTOCOL §11): through Orbot, the app's tor, or whatever reaches the
 * nodes. The methods block: call them off the main thread.
 */
public final class HandleService {
    /** The app's HTTP client. */
    public interface Transport {
        /**
         * Sends a request to a node.
         *
         * @param host the node's host name
         * @param method {@code GET}, {@code POST}, {@code PUT} or {@code DELETE}
         * @param path the path, which begins with a slash
         * @param body the body, of type {@code application/octet-stream}; empty for GET
         * @return the answer
         * @throws IOException if the node cannot be reached
         */
        Answer send(String host, String method, String path, byte[] body) throws IOException;
    }

    /** The answer to a request. */
    public static final class Answer {
        private final int status;
        private final byte[] body;

        /**
         * Takes status and body.
         *
         * @param status the status of the answer, also one above 299
         * @param body the body
         */
        public Answer(int status, byte[] body) {
            this.status = status;
            this.body = body;
        }
    }

    /** A handle, the node that keeps it, and who may ring by it: what the app stores of each handle. */
    public static final class Entry {
        private final String host;
        private final PhoneHandle handle;
        private final List<byte[]> senderKeys;

        /**
         * Takes the parts.
         *
         * @param host the host name of the node
         * @param handle the handle
         * @param senderKeys the public keys that may ring, besides the owner's; none: whoever has the handle
         */
        public Entry(String host, PhoneHandle handle, List<byte[]> senderKeys) {
            this.host = host;
            this.handle = handle;
            this.senderKeys = senderKeys;
        }

        /**
         * The node that keeps the handle.
         *
         * @return its host name
         */
        public String host() {
            return host;
        }

        /**
         * The handle.
         *
         * @return the handle
         */
        public PhoneHandle handle() {
            return handle;
        }

        /**
         * Who may ring, besides the owner.
         *
         * @return public keys; none: whoever has the handle
         */
        public List<byte[]> senderKeys() {
            return senderKeys;
        }
    }

    private static final int MOST_TRIES = 6;
    private static final long SHORTEST_WAIT = 250;
    /** A node that asks for a longer wait has refused, and does not hold up the others. In milliseconds. */
    private static final long LONGEST_WAIT = 10_000;

    private final HandleOwner owner;
    private final Transport transport;
    private long lastSequence;

    /**
     * Makes the requests of a phone.
     *
     * @param owner whose handles they are. A phone has one owner: a node binds a device token that is rung by handle to the
     *     handle's owner
     * @param lastSequence what {@link #lastSequence()} was when the app ran before; 0 the first time
     * @param transport the app's HTTP client
     */
    public HandleService(HandleOwner owner, long lastSequence, Transport transport) {
        this.lastSequence = lastSequence;
        this.owner = owner;
        this.transport = transport;
    }

    /**
     * The sequence of the last request: Unix time in milliseconds, unless a clock was ahead. Store it.
     *
     * @return the sequence
     */
    public synchronized long lastSequence() {
        return lastSequence;
    }

    private synchronized long sequence() {
        lastSequence = Math.max(lastSequence + 1, System.currentTimeMillis());
        return lastSequence;
    }

    /**
     * Registers the phone, once for each node: the same device token, app and owner have the same handle.
     *
     * @param host the host name of the node; the signature names it
     * @param pairing whose platform and device token
     * @param app the name of an app of the node; empty for its first one
     * @param senderKeys who may ring, besides the owner; none: whoever has the handle
     * @return the handle
     * @throws PhoneException if the node refuses ({@link RefusedException}), or is not understood
     * @throws IOException if the node cannot be reached
     */
    public PhoneHandle register(String host, PhonePairing pairing, String app, List<byte[]> senderKeys)
            throws PhoneException, IOException {
        return perform(host, HandleCall.register(pairing, app, senderKeys, sequence(), host, owner));
    }

    /**
     * Puts a new device token behind all of the phone's handles, at all nodes, so that every desktop rings it as before. With
     * the same device token, it puts other sender keys behind them: so one desktop of several is switched off. It costs nothing,
     * so call it daily with the token that the system gives.
     *
     * @param entries the handles, each with its sender keys, which ROTATE replaces
     * @param pairing whose platform and device token
     * @return why a handle could not be rotated, for each such one; the others are rotated. A handle that the node does not
     *     know ({@link RefusedException.Outcome#GONE}) must be registered anew, and paired anew
     */
    public Map<Entry, Exception> rotate(List<Entry> entries, PhonePairing pairing) {
        Map<Entry, Exception> failures = new LinkedHashMap<>();
        for (Entry entry : entries) {
            try {
                perform(
                        entry.host,
                        HandleCall.rotate(entry.handle, pairing, entry.senderKeys, sequence(), entry.host, owner));
            } catch (PhoneException | IOException error) {
                failures.put(entry, error);
            }
        }
        return failures;
    }

    /**
     * Ends one handle: nobody rings by it any more. The phone's other handles stay.
     *
     * @param entry the handle
     * @throws PhoneException if the node refuses, or is not understood
     * @throws IOException if the node cannot be reached
     */
    public void forget(Entry entry) throws PhoneException, IOException {
        try {
            perform(entry.host, HandleCall.forget(entry.handle, sequence(), entry.host, owner));
        } catch (RefusedException error) {
            // A handle that the node does not know was forgotten before.
            if (error.outcome() != RefusedException.Outcome.GONE) {
                throw error;
            }
        }
    }

    private PhoneHandle perform(String host, HandleCall call) throws PhoneException, IOException {
        byte[] proof = null;
        for (int tries = 1; ; tries++) {
            try {
                return read(transport.send(host, call.method(), call.path(), call.body(proof)));
            } catch (RefusedException refused) {
                if (refused.outcome() != RefusedException.Outcome.RETRY
                        || tries == MOST_TRIES
                        || refused.retryAfterMillis() > LONGEST_WAIT) {
                    throw refused;
                }
                if (refused.needsProof()) {
                    proof = proof(host, call);
                } else {
                    pause(Math.max(SHORTEST_WAIT, refused.retryAfterMillis()));
                }
            }
        }
    }

    private static void pause(long millis) throws PhoneException {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new PhoneException("interrupted");
        }
    }

    private byte[] proof(String host, HandleCall call) throws PhoneException, IOException {
        Answer answer = transport.send(host, "GET", HandleChallenge.PATH, new byte[0]);
        if (answer.status != 200) {
            throw new PhoneException("the challenge has status " + answer.status);
        }
        HandleChallenge challenge = HandleChallenge.parse(answer.body);
        if (!Arrays.equals(challenge.onionKey(), HandleCall.onionKey(host))) {
            throw new PhoneException("the node does not know itself by the name " + host);
        }
        return challenge.solve(call);
    }

    private static PhoneHandle read(Answer answer) throws PhoneException {
        Map<String, Object> fields;
        try {
            fields = Json.object(answer.body);
        } catch (PhoneException error) {
            fields = Collections.emptyMap();
        }
        if (answer.status == 200 && fields.get("handle") instanceof String) {
            return PhoneHandle.parse((String) fields.get("handle"));
        }
        Object outcome = fields.get("outcome");
        if (outcome instanceof String
                && fields.get("reason") instanceof Long
                && fields.get("retryAfterMillis") instanceof Long) {
            for (RefusedException.Outcome known : RefusedException.Outcome.values()) {
                if (known.name().equals(outcome)) {
                    throw new RefusedException(
                            known,
                            ((Long) fields.get("reason")).intValue(),
                            (Long) fields.get("retryAfterMillis"),
                            String.valueOf(fields.get("text")));
                }
            }
        }
        // A node that is full or shuts down answers like this, before it looks at the request; so may a proxy.
        if (answer.status == 408 || answer.status == 429 || answer.status == 503) {
            throw new RefusedException(RefusedException.Outcome.RETRY, 0, 1000, "status " + answer.status);
        }
        throw new PhoneException("status " + answer.status + ", without an outcome: does this node keep handles?");
    }
}
