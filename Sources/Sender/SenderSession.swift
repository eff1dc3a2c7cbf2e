// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP
import Time

/// The state machine of a sender: tracks the submissions without a final result across connections (PROTOCOL §3–§6).
/// Takes events and time, returns actions, and has no I/O and no clock.
package struct SenderSession {
    /// What the caller does after an event.
    package enum Action: Equatable {
        /// WELCOME has arrived.
        case welcomed(Welcome)
        /// A submission has an outcome, which may be QUEUED.
        case result(SubmissionResult)
        /// The node takes no more submissions on this connection. Reconnect after its `retryAfter`, or, if `isFatal`,
        /// not at all: the node would close the next connection for the same reason.
        case goAway(GoAway, isFatal: Bool)
        /// Send these bytes.
        case send([UInt8])
        /// Search for a proof of work. Report the end of the search with ``solved(_:_:now:)`` or, at the deadline
        /// `until`, with ``searchEnded(_:)``.
        case solve(request: UInt32, digest: Digest256, puzzle: Puzzle, until: MonotonicTime)
        /// Cancel the search for this request's proof, which would not be sent.
        case stopSolving(UInt32)
    }

    /// A submission without a final result.
    private struct Pending {
        var submission: Submission
        /// The time left to search for its proof.
        var workLeft: Duration
        /// Whether the node has required work for it. If so, it waits for WELCOME and is not sent early.
        var needsWork = false
        /// The node's last RETRY that required work.
        var refusal: Outcome?
        /// How often it was sent again after such a RETRY.
        var resends = 0
    }

    /// A running search for a proof.
    private struct Search {
        let puzzle: Puzzle
        let started: MonotonicTime
    }

    /// The state of the connection; `leaving` after a GOAWAY.
    private enum Connection { case none, open, leaving }

    private let workLimit: Duration
    private var connection = Connection.none
    private var decoder = FrameDecoder(maximumLength: Self.maximumFrame)
    private var pending: [UInt32: Pending] = [:]
    /// The pending requests that wait for a slot on the connection or for a proof, oldest first.
    private var queue: [UInt32] = []
    /// The requests in flight on the current connection, including those that ``remove(_:)`` has abandoned.
    private var sent: Set<UInt32> = []
    private var searches: [UInt32: Search] = [:]
    private var nextRequest: UInt32 = 1
    /// The WELCOME of the current connection; `nil` before it arrives.
    package private(set) var welcome: Welcome?
    /// The puzzle that the node sent last on the current connection; `nil` before WELCOME.
    private var puzzle: Puzzle?
    /// The seed before the current one; the node still accepts proofs for it.
    private var previousSeed: [UInt8]?

    /// The largest `length` of a frame that the sender accepts. The largest frame that a node sends is a WELCOME with
    /// many routes.
    private static let maximumFrame = 128 * 1024
    /// The largest number of submissions in flight before WELCOME.
    private static let maximumEarly = 16
    /// The largest number of searches at a time, so that the machine keeps processors for other work.
    private static let maximumSearches = 2
    /// How often the sender sends a submission again because the node requires (more) work.
    private static let maximumResends = 8

    /// Creates a session without a connection.
    /// - Parameter workLimit: the longest time to search for proofs of work for one submission; zero for no searches.
    package init(workLimit: Duration) { self.workLimit = workLimit }

    /// The number of submissions without a final result.
    package var pendingCount: Int { pending.count }

    // MARK: Submissions

    /// Adds a submission and returns its request number. ``flush(now:)`` sends it when the connection has a free slot and
    /// the submission has the proof that the node requires.
    /// - Parameter make: creates the submission with this request number.
    package mutating func add(_ make: (UInt32) -> Submission) -> UInt32 {
        while pending[nextRequest] != nil { nextRequest &+= 1 }
        let request = nextRequest
        pending[request] = Pending(submission: make(request), workLeft: workLimit)
        queue.append(request)
        nextRequest &+= 1
        return request
    }

    /// Abandons a submission. If it is in flight, it occupies its slot on the connection until the node answers.
    package mutating func remove(_ request: UInt32) {
        pending[request] = nil
        queue.removeAll { $0 == request }
    }

    // MARK: Connections

    /// Starts a new connection and returns the bytes of HELLO. ``flush(now:)`` then sends all submissions without a final
    /// result, with the same bytes as before. Those that need a proof wait for WELCOME, which shows whether their proof is
    /// still valid.
    package mutating func connected(agent: String) -> [UInt8] {
        connection = .open
        decoder = FrameDecoder(maximumLength: Self.maximumFrame)
        welcome = nil
        puzzle = nil
        previousSeed = nil
        sent = []
        queue = pending.keys.sorted()
        var output: [UInt8] = []
        output.append(Hello(agent: agent))
        return output
    }

    /// Ends the connection. Searches go on, because their proofs may be valid on the next connection.
    package mutating func disconnected() { connection = .none }

    /// Returns the actions that are due: submissions to send, up to the node's limit in flight; searches to start and to
    /// stop; and results of submissions that would need more work than the work limit allows.
    package mutating func flush(now: MonotonicTime) -> [Action] {
        var actions: [Action] = []
        abandonSearches(now: now, &actions)
        guard connection == .open else { return actions }
        let limit = welcome.map { Int($0.maximumInFlight) } ?? Self.maximumEarly
        // A submission without its proof reserves a slot, so that later ones do not overtake it indefinitely. This also
        // limits the submissions examined here to the number of free slots.
        var examined = 0
        var waiting: [UInt32] = []
        var spent: [UInt32] = []
        var output: [UInt8] = []
        while examined < queue.count, sent.count + waiting.count < limit {
            let request = queue[examined]
            examined += 1
            if isReady(request) {
                send(request, in: &output)
            } else if puzzle != nil, pending[request]!.workLeft <= .zero {
                spent.append(request)
            } else {
                waiting.append(request)
                if let action = search(for: request, now: now) { actions.append(action) }
            }
        }
        queue.replaceSubrange(..<examined, with: waiting)
        if !output.isEmpty { actions.append(.send(output)) }
        for request in spent { actions += searchEnded(request) }
        return actions
    }

    /// Whether abandoned submissions occupy all slots of the connection while other submissions wait for one.
    package var isBlockedByAbandoned: Bool {
        guard connection == .open, let welcome, !queue.isEmpty, sent.count >= max(1, welcome.maximumInFlight) else {
            return false
        }
        return sent.allSatisfy { pending[$0] == nil }
    }

    private mutating func send(_ request: UInt32, in output: inout [UInt8]) {
        var submission = pending[request]!.submission
        // The node would count a proof for a seed that it no longer knows as invalid.
        if let proof = submission.proof, !isForKnownSeed(proof) { submission.proof = nil }
        sent.insert(request)
        output.append(submission)
    }

    /// Processes received bytes and appends the resulting actions to `actions`, including those before an error.
    /// - Throws: ``ProtocolError`` if the bytes are not frames that a node may send.
    package mutating func received(_ bytes: RawSpan, _ actions: inout [Action]) throws(ProtocolError) {
        decoder.append(bytes)
        while let frame = try decoder.next() {
            switch try Message(frame) {
            case .welcome(let welcome):
                guard welcome.version == ProtocolVersion.current else {
                    throw ProtocolError(
                        code: .version, text: "WELCOME selects version \(welcome.version), which HELLO did not offer")
                }
                self.welcome = welcome
                announced(welcome.puzzle)
                actions.append(.welcomed(welcome))
            case .result(let result): answered(result, &actions)
            case .ping(let opaque):
                var pong: [UInt8] = []
                pong.append(pong: opaque)
                actions.append(.send(pong))
            case .goAway(let goAway):
                connection = .leaving
                actions.append(.goAway(goAway, isFatal: Self.isFatal(goAway.code)))
            case .puzzle(let puzzle): announced(puzzle)
            case .pong, .skipped: break
            case .hello, .submit:
                throw ProtocolError(code: .protocolError, text: "a frame type that only a sender may send")
            }
        }
    }

    private mutating func answered(_ result: SubmissionResult, _ actions: inout [Action]) {
        let (request, outcome) = (result.request, result.outcome)
        // A RESULT for a request that is not in flight has no effect.
        guard sent.contains(request) else { return }
        if outcome.isFinal { sent.remove(request) }
        guard pending[request] != nil else { return }
        if outcome.kind == .retry, outcome.reason == .tooManyInFlight, let welcome,
            sent.count >= welcome.maximumInFlight
        {
            // Sent before WELCOME, above the node's limit: send it again when a slot is free.
            return enqueue(request)
        }
        if outcome.kind == .retry, outcome.reason == .proofRequired || outcome.reason == .proofWrong {
            return requiresWork(request, outcome, &actions)
        }
        if outcome.isFinal { pending[request] = nil }
        actions.append(.result(result))
    }

    private mutating func enqueue(_ request: UInt32) {
        queue.insert(request, at: queue.firstIndex { $0 > request } ?? queue.endIndex)
    }

    /// Whether the node would close a new connection for the same reason.
    private static func isFatal(_ code: GoAway.Code) -> Bool {
        switch code {
        case .shuttingDown, .idle, .busy, .handshakeTimeout: false
        default: true
        }
    }
}

// MARK: - Proof of work

extension SenderSession {
    /// Stores the proof that a search has found.
    package mutating func solved(_ request: UInt32, _ proof: Proof, now: MonotonicTime) {
        endSearch(for: request, now: now)
        pending[request]?.submission.proof = proof
    }

    /// Ends a submission with RETRY, because the time for its proof is over.
    package mutating func searchEnded(_ request: UInt32) -> [Action] {
        searches[request] = nil
        guard let submission = pending[request] else { return [] }
        remove(request)
        var outcome = submission.refusal ?? .retry(.proofRequired, after: 0)
        outcome.text = workLimitText
        return [.result(SubmissionResult(request: request, outcome: outcome))]
    }

    /// Whether this submission has not been sent because it lacks the proof that the node requires.
    package func lacksProof(_ request: UInt32) -> Bool {
        connection == .open && puzzle != nil && pending[request] != nil && !sent.contains(request)
            && !isReady(request)
    }

    private mutating func announced(_ puzzle: Puzzle) {
        if let present = self.puzzle, present.seed != puzzle.seed { previousSeed = present.seed }
        self.puzzle = puzzle
    }

    /// Handles a RETRY that requires work. The proof that was sent, if any, was not sufficient.
    private mutating func requiresWork(_ request: UInt32, _ outcome: Outcome, _ actions: inout [Action]) {
        var outcome = outcome
        if let puzzle, puzzle.effort > 0, let submission = pending[request] {
            if submission.workLeft <= .zero {
                outcome.text = workLimitText
            } else if submission.resends < Self.maximumResends {
                pending[request]!.needsWork = true
                pending[request]!.refusal = outcome
                pending[request]!.resends += 1
                pending[request]!.submission.proof = nil
                return enqueue(request)
            }
        }
        pending[request] = nil
        actions.append(.result(SubmissionResult(request: request, outcome: outcome)))
    }

    private var workLimitText: String {
        "the node requires more proof of work than the sender's limit allows"
            + (puzzle.map { ": effort \($0.effort)" } ?? "")
    }

    /// Whether a submission may be sent: the node requires no proof, the submission has one, or this sender does no work
    /// and leaves the rejection to the node.
    private func isReady(_ request: UInt32) -> Bool {
        guard let puzzle else { return !pending[request]!.needsWork }
        guard puzzle.effort > 0, workLimit > .zero else { return true }
        guard let proof = pending[request]!.submission.proof else { return false }
        return proof.effort >= puzzle.effort && isForKnownSeed(proof)
    }

    private func isForKnownSeed(_ proof: Proof) -> Bool {
        [puzzle?.seed, previousSeed].contains { $0?.starts(with: proof.seedPrefix) == true }
    }

    /// Starts the search for a missing proof, unless it is running already or the limit of searches is reached.
    private mutating func search(for request: UInt32, now: MonotonicTime) -> Action? {
        guard let puzzle, searches[request] == nil, searches.count < Self.maximumSearches,
            let entry = pending[request]
        else { return nil }
        pending[request]!.needsWork = true
        searches[request] = Search(puzzle: puzzle, started: now)
        return .solve(
            request: request, digest: entry.submission.envelope.digest, puzzle: puzzle,
            until: now + entry.workLeft)
    }

    /// Stops the searches whose proof would not be sent. A search keeps no state, so restarting it with another effort,
    /// even a lower one, loses no progress.
    private mutating func abandonSearches(now: MonotonicTime, _ actions: inout [Action]) {
        guard !searches.isEmpty else { return }
        for request in searches.keys.sorted() where isObsolete(searches[request]!, for: request) {
            endSearch(for: request, now: now)
            actions.append(.stopSolving(request))
        }
    }

    private func isObsolete(_ search: Search, for request: UInt32) -> Bool {
        guard pending[request] != nil else { return true }
        // Between two connections the required effort is unknown.
        guard let puzzle else { return false }
        return search.puzzle.effort != puzzle.effort
            || (search.puzzle.seed != puzzle.seed && search.puzzle.seed != previousSeed)
    }

    private mutating func endSearch(for request: UInt32, now: MonotonicTime) {
        guard let search = searches.removeValue(forKey: request) else { return }
        pending[request]?.workLeft -= now - search.started
    }
}
