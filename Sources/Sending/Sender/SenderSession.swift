// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP
import Time

/// A submission, or a request about a handle, without a final result. It can move from one node's session to another's.
package struct PendingSubmission {
    /// What is sent, with the request number of the session that has it.
    fileprivate var request: SenderRequest
    /// The time left to search for its proof.
    fileprivate var workLeft: Duration
    /// Whether a node has required work for it. If so, it waits for WELCOME and is not sent early.
    fileprivate var needsWork = false
    /// The node's last RETRY that required work.
    fileprivate var refusal: Outcome?
    /// How often it was sent again after such a RETRY.
    fileprivate var resends = 0

    /// Creates a submission that was never sent.
    /// - Parameter workLimit: the longest time to search for its proofs of work; zero for no searches.
    package init(_ submission: Submission, workLimit: Duration) {
        self.init(.submission(submission), workLimit: workLimit)
    }

    /// Creates a submission or another request that was never sent.
    /// - Parameter workLimit: the longest time to search for its proofs of work; zero for no searches.
    package init(_ request: SenderRequest, workLimit: Duration) {
        self.request = request
        workLeft = workLimit
    }
}

/// The state machine of a sender at one node: tracks the submissions without a final result across connections
/// (PROTOCOL §3–§6).
/// Takes events and time, returns actions, and has no I/O and no clock.
package struct SenderSession {
    /// What the caller does after an event.
    package enum Action: Equatable {
        /// WELCOME has arrived.
        case welcomed(Welcome)
        /// A submission has an outcome, which may be QUEUED. After RETRY, ``SenderSession/takeRefused(_:)`` returns the
        /// submission.
        case result(SubmissionResult)
        /// The node takes no more submissions on this connection. Reconnect after its `retryAfter`, or, if `isFatal`,
        /// not at all: the node would close the next connection for the same reason.
        case goAway(GoAway, isFatal: Bool)
        /// The node has refused the sender's site key. Do not reconnect.
        case siteRefused
        /// Send these bytes.
        case send([UInt8])
        /// Send these bytes, unless too many are unsent: the answer to a PING.
        case pong([UInt8])
        /// Search for a proof of work. Report the end of the search with ``solved(_:_:now:)`` or, at the deadline
        /// `until`, with ``searchEnded(_:)``.
        case solve(request: UInt32, digest: Digest256, puzzle: Puzzle, until: MonotonicTime)
        /// Cancel the search for this request's proof, which would not be sent.
        case stopSolving(UInt32)
    }

    /// A running search for a proof.
    private struct Search {
        let puzzle: Puzzle
        /// `nil` while it waits for other searches of the sender.
        var started: MonotonicTime?
    }

    /// The state of the connection; `leaving` after a GOAWAY.
    private enum Connection { case none, open, leaving }

    /// Whether the sender computes proofs at all; if not, it leaves the rejection to the node.
    private let doesWork: Bool
    /// The largest effort, in expected hashes, for which the sender searches at all.
    private let maximumEffort: UInt32
    /// The key with which the sender authenticates as a site, which the node's operator knows (PROTOCOL §10); `nil` if it is
    /// none.
    private let site: SiteIdentity?
    /// Whether the node has accepted the site's key on the current connection: submissions then need no proof of work.
    private var isSite = false
    /// Whether submissions wait for AUTHED.
    private var awaitsAuthentication = false
    private var connection = Connection.none
    private var decoder = FrameDecoder(maximumLength: Self.maximumFrame)
    private var pending: [UInt32: PendingSubmission] = [:]
    /// The submissions that ended with RETRY, until the caller takes them.
    private var refused: [UInt32: PendingSubmission] = [:]
    /// The handles in the node's answers, by request, until the caller takes them.
    private var handles: [UInt32: Handle] = [:]
    /// The pending requests that wait for a slot on the connection or for a proof, oldest first.
    private var queue: [UInt32] = []
    /// The requests in flight on the current connection, including those that ``remove(_:)`` has abandoned.
    private var sent: Set<UInt32> = []
    private var searches: [UInt32: Search] = [:]
    /// The QUEUED outcomes of the submissions that the node has stored, by request.
    private var stored: [UInt32: Outcome] = [:]
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
    /// The largest number of submissions in flight, whatever the node allows: bounds the memory of unsent output.
    private static let maximumInFlight = 1024
    /// The largest number of searches at a time, so that the machine keeps processors for other work.
    private static let maximumSearches = 2
    /// How often at most the sender sends a submission again because the node requires (more) work.
    private static let maximumResends = 8

    /// Creates a session without a connection.
    /// - Parameters:
    ///   - doesWork: whether to search for proofs of work.
    ///   - maximumEffort: the largest effort, in expected hashes, for which to search at all.
    ///   - site: the identity of a site; `nil` if the sender is none. If the node takes site keys, submissions wait for
    ///     AUTHED.
    package init(doesWork: Bool, maximumEffort: UInt32 = .max, site: SiteIdentity? = nil) {
        self.doesWork = doesWork
        self.maximumEffort = maximumEffort
        self.site = site
    }

    /// The requests without a final result, oldest first.
    package var requests: [UInt32] { pending.keys.sorted() }

    /// The requests that wait for a slot on the connection or for a proof, oldest first. Once the connection has ended,
    /// those that were in flight on it are not among them.
    package var waiting: [UInt32] { queue }

    /// The requests that the node does not owe an answer to on this connection, oldest first.
    package var notInFlight: [UInt32] { requests.filter { !sent.contains($0) } }

    /// The QUEUED outcome of a submission; `nil` if the node has not stored it.
    package func stored(_ request: UInt32) -> Outcome? { stored[request] }

    /// Whether no request waits for a final result.
    package var isEmpty: Bool { pending.isEmpty }

    /// Whether the node owes a RESULT on this connection.
    package var isInFlight: Bool { !sent.isEmpty }

    /// Whether the node owes an answer: WELCOME, AUTHED or a RESULT.
    package var isOwedAnswer: Bool { isInFlight || welcome == nil || awaitsAuthentication }

    // MARK: Submissions

    /// Adds a submission and returns its request number. ``flush(now:)`` sends it when the connection has a free slot and
    /// the submission has the proof that the node requires.
    package mutating func add(_ submission: PendingSubmission) -> UInt32 {
        while pending[nextRequest] != nil || sent.contains(nextRequest) { nextRequest &+= 1 }
        let request = nextRequest
        pending[request] = submission
        pending[request]!.request.number = request
        pending[request]!.resends = 0
        queue.append(request)
        nextRequest &+= 1
        return request
    }

    /// Abandons a submission. If it is in flight, it occupies its slot on the connection until the node answers.
    /// - Returns: the submission, for another session; `nil` if there is none with this number.
    @discardableResult
    package mutating func remove(_ request: UInt32) -> PendingSubmission? {
        queue.removeAll { $0 == request }
        stored[request] = nil
        return pending.removeValue(forKey: request)
    }

    /// Returns a submission that ended with RETRY, to send it again here or at another node.
    package mutating func takeRefused(_ request: UInt32) -> PendingSubmission? { refused.removeValue(forKey: request) }

    /// Returns the handle in the answer to a REGISTER, ROTATE or FORGET.
    package mutating func takeHandle(_ request: UInt32) -> Handle? { handles.removeValue(forKey: request) }

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
        isSite = false
        awaitsAuthentication = site != nil
        sent = []
        queue = pending.keys.sorted()
        var output: [UInt8] = []
        output.append(Hello(agent: agent))
        return output
    }

    /// Ends the connection. Searches go on, because their proofs may be valid on the next connection.
    package mutating func disconnected() {
        connection = .none
        sent = []
    }

    /// How many requests may be in flight at present.
    private var limit: Int {
        if awaitsAuthentication { return 0 }
        return welcome.map { min(Int(clamping: $0.maximumInFlight), Self.maximumInFlight) } ?? Self.maximumEarly
    }

    /// Returns the actions that are due: requests to send, up to the limit in flight; searches to start and to stop;
    /// and results of requests that the node would not take, or that need more work than the sender's limits allow.
    package mutating func flush(now: MonotonicTime) -> [Action] {
        var actions: [Action] = []
        abandonSearches(now: now, &actions)
        guard connection == .open else { return actions }
        // A submission without its proof reserves a slot, so that later ones do not overtake it indefinitely. This also
        // limits the submissions examined here to the number of free slots.
        var examined = 0
        var waiting: [UInt32] = []
        var spent: [UInt32] = []
        var rejected: [(UInt32, Outcome)] = []
        var output: [UInt8] = []
        while examined < queue.count, sent.count + waiting.count < limit {
            let request = queue[examined]
            examined += 1
            if let outcome = refusal(of: request) {
                rejected.append((request, outcome))
            } else if isReady(request) {
                if let outcome = send(request, in: &output) { rejected.append((request, outcome)) }
            } else if let puzzle, pending[request]!.workLeft <= .zero || puzzle.effort > maximumEffort {
                spent.append(request)
            } else {
                waiting.append(request)
                if let action = search(for: request, now: now) { actions.append(action) }
            }
        }
        queue.replaceSubrange(..<examined, with: waiting)
        if !output.isEmpty { actions.append(.send(output)) }
        for (request, outcome) in rejected { actions.append(finish(request, outcome)) }
        for request in spent { actions += searchEnded(request) }
        return actions
    }

    /// The outcome of a request about a handle at a node that keeps none, and would close the connection; `nil` for any
    /// other request.
    private func refusal(of request: UInt32) -> Outcome? {
        guard let welcome, pending[request]!.request.isAboutHandle, !welcome.features.contains(.handles) else {
            return nil
        }
        return .rejected(.unsupportedField, text: "this node keeps no handles")
    }

    /// Whether abandoned submissions occupy all slots of the connection while other submissions wait for one.
    package var isBlockedByAbandoned: Bool {
        guard connection == .open, welcome != nil, !queue.isEmpty, sent.count >= max(1, limit) else { return false }
        return sent.allSatisfy { pending[$0] == nil }
    }

    /// Appends the request's frame to the output.
    /// - Returns: `nil`, or the outcome of a submission that is larger than the node accepts.
    private mutating func send(_ request: UInt32, in output: inout [UInt8]) -> Outcome? {
        // A node that requires a proof refuses one for a seed that it no longer knows (reason 204).
        if let proof = pending[request]!.request.proof, !isForKnownSeed(proof) {
            pending[request]!.request.proof = nil
        }
        let start = output.count
        pending[request]!.request.append(to: &output)
        // max_frame does not count the four bytes of the length.
        if let largest = welcome?.maximumFrame, output.count - start - 4 > Int(clamping: largest) {
            output.removeSubrange(start...)
            return .rejected(
                .tooLarge, text: "the notification exceeds the node's frame limit of \(largest) bytes")
        }
        sent.insert(request)
        return nil
    }

    /// Ends a submission with an outcome.
    private mutating func finish(_ request: UInt32, _ outcome: Outcome) -> Action {
        if outcome.kind == .retry { refused[request] = pending[request] }
        remove(request)
        return .result(SubmissionResult(request: request, outcome: outcome))
    }

    /// Processes received bytes and appends the resulting actions to `actions`, including those before an error.
    /// - Returns: whether a whole frame has arrived.
    /// - Throws: ``ProtocolError`` if the bytes are not frames that a node may send.
    @discardableResult
    package mutating func received(_ bytes: RawSpan, _ actions: inout [Action]) throws(ProtocolError) -> Bool {
        decoder.append(bytes)
        var isAlive = false
        while let frame = try decoder.next() {
            isAlive = true
            let message = try Message(frame)
            switch message {
            case .welcome(let welcome):
                guard welcome.version == ProtocolVersion.current else {
                    throw ProtocolError(
                        code: .version, text: "WELCOME selects version \(welcome.version), which HELLO did not offer")
                }
                self.welcome = welcome
                announced(welcome.puzzle)
                actions.append(.welcomed(welcome))
                awaitsAuthentication = site != nil && welcome.features.contains(.siteKeys)
                if awaitsAuthentication, let site {
                    var frame: [UInt8] = []
                    frame.append(site.authentication(seed: welcome.puzzle.seed))
                    actions.append(.send(frame))
                }
            case .result, .registered, .puzzle:
                guard welcome != nil else {
                    throw ProtocolError(code: .protocolError, text: "the first frame is not WELCOME")
                }
                if case .result(let result) = message { answered(result, &actions) }
                if case .registered(let result) = message {
                    if sent.contains(result.request), pending[result.request]?.request.isAboutHandle == true,
                        result.outcome.kind == .delivered
                    {
                        handles[result.request] = result.handle
                    }
                    answered(SubmissionResult(request: result.request, outcome: result.outcome), &actions)
                }
                if case .puzzle(let puzzle) = message { announced(puzzle) }
            case .ping(let opaque):
                var pong: [UInt8] = []
                pong.append(pong: opaque)
                actions.append(.pong(pong))
            case .goAway(let goAway):
                connection = .leaving
                actions.append(.goAway(goAway, isFatal: Self.isFatal(goAway.code)))
            case .pong, .skipped: break
            case .authenticated(let result):
                guard awaitsAuthentication else { continue }
                awaitsAuthentication = false
                isSite = result.isAccepted
                guard !isSite else { continue }
                connection = .leaving
                actions.append(.siteRefused)
            case .hello, .submit, .handleRequest, .authentication:
                throw ProtocolError(code: .protocolError, text: "a frame type that only a sender may send")
            }
        }
        return isAlive
    }

    private mutating func answered(_ result: SubmissionResult, _ actions: inout [Action]) {
        let (request, outcome) = (result.request, result.outcome)
        // A RESULT for a request that is not in flight has no effect.
        guard sent.contains(request) else { return }
        if outcome.isFinal { sent.remove(request) }
        guard pending[request] != nil else { return }
        if outcome.kind == .retry, outcome.reason == .tooManyInFlight, sent.count >= limit {
            // Sent before WELCOME, above the node's limit: send it again when a slot is free.
            return enqueue(request)
        }
        if outcome.kind == .retry, outcome.reason == .proofRequired || outcome.reason == .proofWrong {
            return requiresWork(request, outcome, &actions)
        }
        if !outcome.isFinal { stored[request] = outcome }
        actions.append(outcome.isFinal ? finish(request, outcome) : .result(result))
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
    /// Counts the time of a search from this moment: the search may have waited for others to end.
    package mutating func searchBegan(_ request: UInt32, now: MonotonicTime) { searches[request]?.started = now }

    /// Stores the proof that a search has found.
    package mutating func solved(_ request: UInt32, _ proof: Proof, now: MonotonicTime) {
        endSearch(for: request, now: now)
        pending[request]?.request.proof = proof
    }

    /// Ends a submission with RETRY, because the time for its proof is over or the effort is too large.
    package mutating func searchEnded(_ request: UInt32) -> [Action] {
        searches[request] = nil
        guard let submission = pending[request] else { return [] }
        pending[request]!.workLeft = .zero
        var outcome = submission.refusal ?? .retry(.proofRequired, after: 0)
        outcome.text = workLimitText
        return [finish(request, outcome)]
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
            if submission.workLeft <= .zero || puzzle.effort > maximumEffort {
                outcome.text = workLimitText
            } else if submission.resends < Self.maximumResends {
                pending[request]!.needsWork = true
                pending[request]!.refusal = outcome
                pending[request]!.resends += 1
                pending[request]!.request.proof = nil
                return enqueue(request)
            }
        }
        actions.append(finish(request, outcome))
    }

    private var workLimitText: String {
        "the node requires more proof of work than the sender's limit allows"
            + (puzzle.map { ": effort \($0.effort)" } ?? "")
    }

    /// Whether a request may be sent: it needs no proof, it has one, or this sender does no work and leaves the
    /// rejection to the node. Before WELCOME, requests about handles and submissions that have needed work must wait.
    private func isReady(_ request: UInt32) -> Bool {
        guard let puzzle else { return !pending[request]!.needsWork && !pending[request]!.request.isAboutHandle }
        guard puzzle.effort > 0, doesWork, !isSite, pending[request]!.request.mayNeedProof else { return true }
        guard let proof = pending[request]!.request.proof else { return false }
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
        searches[request] = Search(puzzle: puzzle)
        return .solve(
            request: request, digest: entry.request.digest, puzzle: puzzle,
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

    /// Ends a search, and subtracts its time from the time left for the submission's proof.
    mutating func endSearch(for request: UInt32, now: MonotonicTime) {
        guard let started = searches.removeValue(forKey: request)?.started else { return }
        pending[request]?.workLeft -= now - started
    }
}
