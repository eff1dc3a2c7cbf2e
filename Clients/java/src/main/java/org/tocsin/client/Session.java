// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.UnaryOperator;

/**
 * The state machine of one node's connections (PROTOCOL §2–§6): tracks the entries of the node. Events in, actions out;
 * no I/O and no clock.
 */
final class Session {
    /** The largest number of submissions in flight before WELCOME. */
    static final int EARLY_SUBMISSIONS = 16;
    /** The largest number of submissions in flight, whatever the node allows: bounds the memory of unsent output. */
    static final int MAXIMUM_IN_FLIGHT = 1024;
    /** The largest number of searches for proofs at a time. */
    static final int SEARCHES = 2;
    /** How often the client sends a submission again because the node requires (more) work. */
    static final int PROOF_RESENDS = 8;

    private static final int TOO_MANY_IN_FLIGHT = 210;
    private static final int PROOF_REQUIRED = 203;
    private static final int PROOF_WRONG = 204;
    private static final int TOO_LARGE = 105;
    private static final int UNSUPPORTED_FIELD = 106;

    /** What the caller does after an event. */
    sealed interface Action {}

    /** Send these bytes. */
    record Send(byte[] data) implements Action {}

    /** WELCOME has arrived. */
    record Welcomed(Wire.Welcome welcome) implements Action {}

    /** The node has answered an entry. The session keeps it only if the outcome is QUEUED. */
    record Answered(Entry entry, Outcome outcome) implements Action {}

    /** The node takes no more submissions on this connection. */
    record Leaving(Wire.GoAway goAway) implements Action {}

    /** Search for a proof; report the end with {@link #solved} or {@link #searchEnded}. */
    record Solve(Entry entry, Wire.Puzzle puzzle, long nanoseconds) implements Action {}

    /** Cancel the search for this entry's proof. */
    record StopSolving(Entry entry) implements Action {}

    private static final class Search {
        final Wire.Puzzle puzzle;
        /** When it began; null while it waits for a thread. */
        Long started;

        Search(Wire.Puzzle puzzle) {
            this.puzzle = puzzle;
        }
    }

    private final boolean doesWork;
    /** Makes AUTH from the seed of WELCOME's puzzle; {@code null} if the sender is no site. */
    private final UnaryOperator<byte[]> site;
    /** Whether the node has accepted the site's key on this connection: it then requires no proof of work. */
    private boolean isSite;
    /** Whether submissions wait for AUTHED. */
    private boolean awaitsAuthentication;
    private Wire.FrameDecoder decoder = new Wire.FrameDecoder();
    /** Whether the connection takes submissions: connected, and no GOAWAY yet. */
    private boolean isOpen;
    private Wire.Welcome welcome;
    private Wire.Puzzle puzzle;
    private Wire.Puzzle previousPuzzle;
    private final TreeMap<Long, Entry> pending = new TreeMap<>();
    private final Map<Entry, Long> requests = new HashMap<>();
    /** The requests that wait for a slot or a proof. */
    private final TreeSet<Long> queue = new TreeSet<>();
    /** The requests in flight on this connection, including abandoned ones. */
    private final Set<Long> sent = new HashSet<>();
    private final Map<Entry, Search> searches = new HashMap<>();
    private long nextRequest = 1;

    /**
     * Creates a session without a connection.
     *
     * @param doesWork whether the client computes proofs; if not, it leaves the rejection to the node
     * @param site makes AUTH from the seed of WELCOME's puzzle; {@code null} if the sender is no site
     */
    Session(boolean doesWork, UnaryOperator<byte[]> site) {
        this.doesWork = doesWork;
        this.site = site;
    }

    // Entries

    /** Adds an entry; {@link #flush} sends it when there is a slot and, if required, a proof. */
    void add(Entry entry) {
        while (pending.containsKey(nextRequest) || sent.contains(nextRequest)) {
            nextRequest = (nextRequest + 1) & 0xFFFFFFFFL;
        }
        pending.put(nextRequest, entry);
        requests.put(entry, nextRequest);
        queue.add(nextRequest);
        nextRequest = (nextRequest + 1) & 0xFFFFFFFFL;
    }

    /** Abandons an entry. If it is in flight, it occupies its slot until the node answers. */
    void remove(Entry entry) {
        Long request = requests.remove(entry);
        if (request != null) {
            pending.remove(request);
            queue.remove(request);
        }
    }

    /** All entries, oldest first. */
    List<Entry> entries() {
        return List.copyOf(pending.values());
    }

    /** The entries that are not in flight, oldest first. */
    List<Entry> waiting() {
        return queue.stream().map(pending::get).toList();
    }

    /** The entries that the node does not owe an answer to on this connection, oldest first. */
    List<Entry> notInFlight() {
        return pending.entrySet().stream()
                .filter(request -> !sent.contains(request.getKey()))
                .map(Map.Entry::getValue)
                .toList();
    }

    boolean isEmpty() {
        return pending.isEmpty();
    }

    boolean isWaiting(Entry entry) {
        Long request = requests.get(entry);
        return request != null && queue.contains(request);
    }

    /** Whether the node owes a RESULT on this connection. */
    boolean isInFlight() {
        return !sent.isEmpty();
    }

    /** Whether the node owes an answer: WELCOME, what it says of the site key, or a RESULT. */
    boolean isOwedAnswer() {
        return isInFlight() || welcome == null || awaitsAuthentication;
    }

    /** Whether the entry has not been sent because it lacks the proof that the node requires. */
    boolean lacksProof(Entry entry) {
        return isOpen && puzzle != null && isWaiting(entry) && !isReady(entry);
    }

    /** Whether abandoned submissions occupy all slots of the connection while others wait for one. */
    boolean isBlockedByAbandoned() {
        return isOpen
                && welcome != null
                && !queue.isEmpty()
                && sent.size() >= Math.max(1, limit())
                && sent.stream().noneMatch(pending::containsKey);
    }

    Optional<Wire.Welcome> welcome() {
        return Optional.ofNullable(welcome);
    }

    // Connections

    /** Starts a new connection and returns HELLO. All entries are sent again, with the same bytes. */
    byte[] connected(byte[] agent) {
        isOpen = true;
        isSite = false;
        awaitsAuthentication = site != null;
        decoder = new Wire.FrameDecoder();
        welcome = null;
        puzzle = null;
        previousPuzzle = null;
        sent.clear();
        queue.clear();
        queue.addAll(pending.keySet());
        return Wire.hello(agent);
    }

    /** Ends the connection. Searches go on: their proofs may be valid on the next one. */
    void disconnected() {
        isOpen = false;
        sent.clear();
    }

    private int limit() {
        if (awaitsAuthentication) {
            return 0;
        }
        return welcome == null ? EARLY_SUBMISSIONS : Math.min(welcome.maxInFlight(), MAXIMUM_IN_FLIGHT);
    }

    /** The actions that are due: submissions to send, searches to start and to stop. */
    List<Action> flush(long now) {
        List<Action> actions = new ArrayList<>();
        abandonSearches(now, actions);
        if (!isOpen) {
            return actions;
        }
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        int waiting = 0;
        for (Iterator<Long> next = queue.iterator(); next.hasNext() && sent.size() + waiting < limit(); ) {
            long request = next.next();
            Entry entry = pending.get(request);
            if (welcome != null && entry.isAboutHandle() && !welcome.keepsHandles()) {
                // The node would close the connection.
                next.remove();
                forget(entry);
                actions.add(new Answered(
                        entry, Outcome.of(Outcome.Kind.REJECTED, UNSUPPORTED_FIELD, "this node keeps no handles")));
            } else if (isReady(entry)) {
                next.remove();
                byte[] frame = frame(request, entry);
                if (welcome != null && frame.length - 4 > welcome.maxFrame()) {
                    forget(entry);
                    String text = "the notification exceeds the node's frame limit of " + welcome.maxFrame() + " bytes";
                    actions.add(new Answered(entry, Outcome.of(Outcome.Kind.REJECTED, TOO_LARGE, text)));
                } else {
                    sent.add(request);
                    output.writeBytes(frame);
                }
            } else if (puzzle != null && entry.workLeft <= 0) {
                next.remove();
                forget(entry);
                actions.add(new Answered(entry, workLimitOutcome(entry)));
            } else {
                // An entry without its proof reserves a slot, so that later ones do not overtake it indefinitely.
                waiting++;
                startSearch(entry, actions);
            }
        }
        if (output.size() > 0) {
            actions.add(new Send(output.toByteArray()));
        }
        return actions;
    }

    private byte[] frame(long request, Entry entry) {
        // The node would count a proof for a seed that it no longer knows as invalid.
        if (entry.proof != null && !isForKnownSeed(entry.proof)) {
            entry.proof = null;
        }
        return entry.encode(request);
    }

    /**
     * Processes received bytes and appends the actions that follow, including those before an error.
     *
     * @return whether a whole frame has arrived
     * @throws ProtocolException if the bytes are not frames that a node may send
     */
    boolean received(ByteBuffer bytes, List<Action> actions) throws ProtocolException {
        decoder.append(bytes);
        boolean isAlive = false;
        for (Optional<Wire.Frame> frame = decoder.next(); frame.isPresent(); frame = decoder.next()) {
            isAlive = true;
            if (frame.get().message().isPresent()) {
                take(frame.get().message().get(), actions);
            }
        }
        return isAlive;
    }

    private void take(Wire.Message message, List<Action> actions) throws ProtocolException {
        if (message instanceof Wire.Welcome arrived) {
            welcome = arrived;
            announced(arrived.puzzle());
            actions.add(new Welcomed(arrived));
            awaitsAuthentication = site != null && arrived.takesSiteKeys();
            if (awaitsAuthentication) {
                actions.add(new Send(site.apply(arrived.puzzle().seed())));
            }
        } else if (message instanceof Wire.Ping ping) {
            actions.add(new Send(Wire.pong(ping.opaque())));
        } else if (message instanceof Wire.GoAway goAway) {
            isOpen = false;
            actions.add(new Leaving(goAway));
        } else if (welcome == null) {
            throw new ProtocolException("the first frame is not WELCOME");
        } else if (message instanceof Wire.Result result) {
            answered(result.request(), result.outcome(), actions);
        } else if (message instanceof Wire.Registered registered) {
            Entry entry = pending.get(registered.request());
            if (entry != null && entry.isAboutHandle() && sent.contains(registered.request())) {
                entry.handle = registered.handle().orElse(null);
            }
            answered(registered.request(), registered.outcome(), actions);
        } else if (message instanceof Wire.Puzzle changed) {
            announced(changed);
        } else if (message instanceof Wire.Authenticated answer && awaitsAuthentication) {
            awaitsAuthentication = false;
            isSite = answer.isAccepted();
            if (!isSite) {
                isOpen = false;
                String text = "the node does not know this site key, or the key is for another onion";
                actions.add(new Leaving(new Wire.GoAway(Wire.GoAway.ABUSE, 0, text)));
            }
        }
    }

    private void answered(long request, Outcome outcome, List<Action> actions) {
        // A RESULT for a request that is not in flight has no effect.
        if (!sent.contains(request)) {
            return;
        }
        if (outcome.isFinal()) {
            sent.remove(request);
        }
        Entry entry = pending.get(request);
        if (entry == null) {
            return;
        }
        Outcome answer = outcome;
        if (outcome.kind() == Outcome.Kind.QUEUED) {
            entry.queued = outcome;
        } else if (outcome.kind() == Outcome.Kind.RETRY) {
            if (outcome.reason() == TOO_MANY_IN_FLIGHT && sent.size() >= limit()) {
                // Sent before WELCOME, above the node's limit: send it again when a slot is free.
                queue.add(request);
                return;
            }
            if (requiresWork(outcome)) {
                if (resendsWithProof(request, entry, outcome)) {
                    return;
                }
                if (entry.workLeft <= 0) {
                    answer = outcome.withText(workLimitText());
                }
            }
        }
        if (outcome.isFinal()) {
            forget(entry);
        }
        actions.add(new Answered(entry, answer));
    }

    static boolean requiresWork(Outcome outcome) {
        return outcome.reason() == PROOF_REQUIRED || outcome.reason() == PROOF_WRONG;
    }

    private void forget(Entry entry) {
        pending.remove(requests.remove(entry));
    }

    // Proof of work

    /** Stores the proof that a search has found. */
    void solved(Entry entry, Proof proof, long now) {
        endSearch(entry, now);
        entry.proof = proof;
    }

    /** Ends an entry with RETRY, because the time for its proof is over. */
    List<Action> searchEnded(Entry entry) {
        searches.remove(entry);
        entry.workLeft = 0;
        if (!requests.containsKey(entry)) {
            return List.of();
        }
        remove(entry);
        return List.of(new Answered(entry, workLimitOutcome(entry)));
    }

    private void announced(Wire.Puzzle changed) {
        if (puzzle != null && !puzzle.hasSeedOf(changed)) {
            previousPuzzle = puzzle;
        }
        puzzle = changed;
    }

    /** Handles a RETRY that requires work: whether the entry is sent again with a proof. */
    private boolean resendsWithProof(long request, Entry entry, Outcome outcome) {
        if (puzzle == null || puzzle.effort() == 0 || entry.workLeft <= 0 || entry.resends >= PROOF_RESENDS) {
            return false;
        }
        entry.needsWork = true;
        entry.workRefusal = outcome;
        entry.resends++;
        entry.proof = null;
        queue.add(request);
        return true;
    }

    private String workLimitText() {
        return "the node requires more proof of work than the sender's limit allows"
                + (puzzle == null ? "" : ": effort " + puzzle.effort());
    }

    private Outcome workLimitOutcome(Entry entry) {
        return entry.workRefusal == null
                ? Outcome.of(Outcome.Kind.RETRY, PROOF_REQUIRED, workLimitText())
                : entry.workRefusal.withText(workLimitText());
    }

    private boolean isReady(Entry entry) {
        if (puzzle == null) {
            return !entry.needsWork && !entry.isAboutHandle();
        }
        if (puzzle.effort() == 0 || !doesWork || isSite || !entry.mayNeedProof()) {
            return true;
        }
        return entry.proof != null && entry.proof.covers(puzzle.effort()) && isForKnownSeed(entry.proof);
    }

    private boolean isForKnownSeed(Proof proof) {
        return puzzle != null && proof.isFor(puzzle) || previousPuzzle != null && proof.isFor(previousPuzzle);
    }

    private void startSearch(Entry entry, List<Action> actions) {
        if (puzzle == null || searches.containsKey(entry) || searches.size() >= SEARCHES) {
            return;
        }
        entry.needsWork = true;
        searches.put(entry, new Search(puzzle));
        actions.add(new Solve(entry, puzzle, entry.workLeft));
    }

    /** Starts the time of a search, which may have waited for a thread. */
    void searchBegan(Entry entry, long now) {
        Search search = searches.get(entry);
        if (search != null) {
            search.started = now;
        }
    }

    /** Stops the searches whose proof would not be sent. A search keeps no state, so nothing is lost. */
    private void abandonSearches(long now, List<Action> actions) {
        for (Map.Entry<Entry, Search> search : List.copyOf(searches.entrySet())) {
            if (isObsolete(search.getKey(), search.getValue())) {
                endSearch(search.getKey(), now);
                actions.add(new StopSolving(search.getKey()));
            }
        }
    }

    private boolean isObsolete(Entry entry, Search search) {
        if (!requests.containsKey(entry)) {
            return true;
        }
        // Between two connections the required effort is unknown.
        if (puzzle == null) {
            return false;
        }
        return search.puzzle.effort() != puzzle.effort()
                || !search.puzzle.hasSeedOf(puzzle)
                        && (previousPuzzle == null || !search.puzzle.hasSeedOf(previousPuzzle));
    }

    private void endSearch(Entry entry, long now) {
        Search search = searches.remove(entry);
        if (search != null && search.started != null) {
            entry.workLeft -= now - search.started;
        }
    }
}
