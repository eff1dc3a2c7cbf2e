// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP
import Time

/// Receives the events of its links, on their loop.
package protocol NodeLinkOwner: AnyObject {
    /// Whether submissions wait that may go to this link's node; if not, the link does not reconnect.
    func needs(_ link: NodeLink) -> Bool
    func handle(_ event: NodeLink.Event, of link: NodeLink)
}

/// One sender's access to one node: its connection, and searches for proofs of work, as ``NodeLinkState`` decides. Connects
/// when the session has submissions, connects again when it loses the connection, and closes an idle one.
package final class NodeLink: ByteStreamHandler, TurnEndHandler, @unchecked Sendable {
    // Unchecked: used on the loop's thread only: by its owner, its stream, and tasks that prefer the loop's executor.

    /// The bytes of unsent output above which the link does not answer PING.
    private static let maximumUnsent = 1024 * 1024

    /// The owner's number of the link.
    package let id: Int
    /// The node.
    package let destination: Destination
    private let loop: EventLoop
    private unowned let owner: any NodeLinkOwner
    private var state: NodeLinkState
    private var stream: ByteStream?
    /// What the link sends in this turn of the loop, in one write.
    private var output: [UInt8] = []
    /// The pending attempt to connect, and the pause before it.
    private var dialling: Task<Void, Never>?
    /// The running searches for proofs of work.
    let searches: ProofSearches

    /// A link without a connection.
    /// - Parameters:
    ///   - destination: the node.
    ///   - agent: the agent in HELLO, at most 64 bytes of UTF-8.
    ///   - slots: shared by all links whose searches for proofs of work are limited together.
    ///   - owner: receives the events; not retained.
    package init(
        _ id: Int, to destination: Destination, agent: String, session: SenderSession, slots: SearchSlots,
        owner: any NodeLinkOwner, on loop: EventLoop
    ) {
        self.id = id
        self.destination = destination
        self.owner = owner
        self.loop = loop
        searches = ProofSearches(slots, on: loop)
        state = NodeLinkState(session: session, destination: destination, agent: agent, now: .now)
    }

    deinit { stream?.close() }

    /// What the owner knows of the node.
    package var node: NodeState {
        _read { yield state.node }
        _modify { yield &state.node }
    }

    /// The submissions at this node.
    package var session: SenderSession {
        _read { yield state.session }
        _modify { yield &state.session }
    }

    /// Why the last attempt failed or the last connection ended.
    package var failure: Failure? { state.failure }

    /// When the current connection began; without one, when the last one did.
    package var connectedAt: MonotonicTime { state.connectedAt }

    package var isConnected: Bool { state.isConnected }

    /// Whether the link neither is connected nor connects.
    package var isUnused: Bool { state.isUnused }

    /// Closes the connection for good; the session keeps its submissions.
    package func close() {
        dialling?.cancel()
        searches.stopAll()
        update { $0.close(&$1) }
    }

    /// Closes the connection if nothing is pending, although the node may owe answers to abandoned submissions. The link
    /// connects again when it has a submission.
    package func closeIfEmpty() { update { $0.closeIfEmpty(&$1) } }

    /// Begins to connect, after the rest of the node's pause, if submissions need the node; then sends what is due.
    package func wake() {
        // Only an unused link needs the answer, and the owner of a closed link may no longer exist.
        let isNeeded = isUnused && !state.isClosed && owner.needs(self)
        update { $0.wake(isNeeded: isNeeded, now: .now, &$1) }
        flush()
    }

    /// Sends what is due in the session, and starts and stops its searches for proofs of work.
    package func flush() { update { $0.flush(now: .now, random: SecureRandom.fraction, &$1) } }

    /// Watches for silence, idleness and slow attempts to connect. Call it at least once a second while the link is in
    /// use.
    package func watch(now: MonotonicTime) {
        update { $0.watch(now: now, random: SecureRandom.fraction, opaque: SecureRandom.bytes, &$1) }
    }

    /// Applies an event to the state, and performs the resulting actions.
    private func update(_ event: (inout NodeLinkState, inout [NodeLinkState.Action]) -> Void) {
        var actions: [NodeLinkState.Action] = []
        event(&state, &actions)
        for action in actions { perform(action) }
    }

    private func perform(_ action: NodeLinkState.Action) {
        switch action {
        case .disconnect:
            stream?.close()
            stream = nil
            output.removeAll(keepingCapacity: true)
        // The owner has closed the link at an earlier action of the same event, and may no longer exist.
        case _ where state.isClosed: break
        case .dial(let pause): dial(after: pause)
        case .send(let bytes): send(bytes)
        case .pong(let bytes):
            // A node that sends PING but does not read gets no answer.
            if let stream, output.count + stream.unsent < Self.maximumUnsent { send(bytes) }
        case .solve(let request, let digest, let puzzle, let deadline):
            solve(request, digest, puzzle, within: deadline - .now)
        case .stopSolving(let request): stopSolving(request)
        case .report(let event): owner.handle(event, of: self)
        case .wake: wake()
        }
    }

    // MARK: Connection

    private func dial(after pause: Duration) {
        dialling = Task(executorPreference: loop) { [self] in
            if pause > .zero { await loop.sleep(for: pause) }
            guard !Task.isCancelled, beginsDialling() else { return }
            do throws(StreamError) {
                connected(try await loop.dial(destination))
            } catch {
                update { $0.couldNotConnect(error, now: .now, random: SecureRandom.fraction, &$1) }
            }
        }
    }

    private func beginsDialling() -> Bool {
        guard !state.isClosed else { return false }
        let isNeeded = owner.needs(self)
        var begins = false
        update { begins = $0.beginsDialling(isNeeded: isNeeded, now: .now, &$1) }
        return begins
    }

    private func connected(_ stream: ByteStream) {
        guard !state.isClosed else { return stream.close() }
        stream.handler = self
        self.stream = stream
        update { $0.connected(now: .now, &$1) }
        flush()
        stream.resumeReading()
    }

    package func stream(_ stream: ByteStream, received bytes: RawSpan) {
        update { $0.received(bytes, now: .now, random: SecureRandom.fraction, &$1) }
        flush()
    }

    package func stream(_ stream: ByteStream, ended reason: StreamError) {
        update { $0.ended(reason.description, now: .now, random: SecureRandom.fraction, &$1) }
    }

    package func turnEnded() {
        stream?.write(output)
        output.removeAll(keepingCapacity: true)
    }

    private func send(_ bytes: [UInt8]) {
        guard stream != nil, !bytes.isEmpty else { return }
        if output.isEmpty { loop.atEndOfTurn(self) }
        output += bytes
    }

    // MARK: Proof of work

    private func solve(_ request: UInt32, _ digest: Digest256, _ puzzle: Puzzle, within limit: Duration) {
        searches.begin(request, digest, puzzle, within: limit) { [self] in
            session.searchBegan(request, now: .now)
        } ended: { [self] proof in
            if let proof {
                session.solved(request, proof, now: .now)
            } else {
                update { $0.searchEnded(request, now: .now, random: SecureRandom.fraction, &$1) }
            }
            flush()
        }
    }

    /// Takes a submission back, for another node.
    package func withdraw(_ request: UInt32) -> PendingSubmission? {
        session.endSearch(for: request, now: .now)
        searches.stop(request)
        return session.remove(request)
    }

    /// Cancels the search for a request's proof.
    package func stopSolving(_ request: UInt32) { searches.stop(request) }
}
