// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP
import Time

/// What a sender has submitted and not yet heard the end of, across connections (PROTOCOL §3–§6): events and time in,
/// actions out. No I/O and no clock.
package struct SenderSession {
    /// What follows from an event.
    package enum Action: Equatable {
        case welcomed(Welcome)
        case result(SubmissionResult)
        /// The connection is over for sending; it comes back after so many milliseconds, or never where the fault is
        /// the sender's.
        case goAway(GoAway, isFatal: Bool)
        case send([UInt8])
        /// A proof of work is to be looked for: it ends in ``solved(_:_:now:)`` or, at that time, ``gaveUp(_:)``.
        case solve(request: UInt32, digest: Digest256, puzzle: Puzzle, until: MonotonicTime)
        /// The search for this request's proof is in vain.
        case stopSolving(UInt32)
    }

    /// A submission without a final result.
    private struct Pending {
        var submission: Submission
        /// How long a proof may still be looked for.
        var workLeft: Duration
        /// Whether the node has asked for work: it then waits for WELCOME, and does not go out early.
        var needsWork = false
        /// What the node said when it asked for work last.
        var refusal: Outcome?
        /// How often it went out again after such a refusal.
        var resends = 0
    }

    /// A proof that is looked for.
    private struct Search {
        let puzzle: Puzzle
        let started: MonotonicTime
    }

    private enum Connection { case none, open, leaving }

    private let workLimit: Duration
    private var connection = Connection.none
    private var decoder = FrameDecoder(maximumLength: Self.largestWelcome)
    private var pending: [UInt32: Pending] = [:]
    /// Of the pending ones, those that wait for a place on the connection or for a proof, oldest first.
    private var queue: [UInt32] = []
    /// Of the pending ones, those that the present connection carries.
    private var sent: Set<UInt32> = []
    private var searches: [UInt32: Search] = [:]
    private var nextRequest: UInt32 = 1
    package private(set) var welcome: Welcome?
    /// What the present connection was told last; nil before WELCOME.
    private var puzzle: Puzzle?
    /// The seed before that, which the node still accepts.
    private var previousSeed: [UInt8]?

    /// A WELCOME may name many routes; no frame of a node is larger.
    private static let largestWelcome = 128 * 1024
    /// How many submissions go out before the node has said how many it takes.
    private static let early = 16
    /// How many proofs are looked for at a time: the machine has other things to do.
    private static let searchesAtOnce = 2
    /// How often a submission goes out again because the node asked for (more) work.
    private static let mostResends = 8

    /// - Parameter workLimit: how long a proof of work may be looked for, for one submission; zero: none ever is.
    package init(workLimit: Duration) { self.workLimit = workLimit }

    /// How many submissions wait for their final result.
    package var pendingCount: Int { pending.count }

    // MARK: Submissions

    /// Takes a submission: ``flush(now:)`` gives its bytes when there is a place for it, and a proof where one is asked.
    package mutating func add(_ make: (UInt32) -> Submission) -> UInt32 {
        while pending[nextRequest] != nil { nextRequest &+= 1 }
        let request = nextRequest
        pending[request] = Pending(submission: make(request), workLeft: workLimit)
        queue.append(request)
        nextRequest &+= 1
        return request
    }

    /// Gives a submission up. One that is out still takes its place on the connection until the node answers.
    package mutating func remove(_ request: UInt32) {
        pending[request] = nil
        queue.removeAll { $0 == request }
    }

    // MARK: Connections

    /// A new connection is there: HELLO, and by ``flush(now:)`` at once what has no final result, with the same bytes as
    /// before; but for that which needs a proof, since only WELCOME says whether the one it has still holds.
    package mutating func connected(agent: String) -> [UInt8] {
        connection = .open
        decoder = FrameDecoder(maximumLength: Self.largestWelcome)
        welcome = nil
        puzzle = nil
        previousSeed = nil
        sent = []
        queue = pending.keys.sorted()
        var output: [UInt8] = []
        output.append(Hello(agent: agent))
        return output
    }

    /// The connection is gone. Proofs are looked for all the same: they may hold on the next one, too.
    package mutating func disconnected() { connection = .none }

    /// What is to be done now: what may go out on the present connection, no more than the node takes at a time; the
    /// proofs to be looked for; and what ends because it would need more work than is allowed.
    package mutating func flush(now: MonotonicTime) -> [Action] {
        var actions: [Action] = []
        abandonSearches(now: now, &actions)
        guard connection == .open else { return actions }
        let limit = welcome.map { Int($0.maximumInFlight) } ?? Self.early
        // What lacks a proof has its place reserved: so it is not overtaken for ever, and no more are looked at here
        // than may go out.
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
        for request in spent { actions += gaveUp(request) }
        return actions
    }

    /// Whether all places on the connection are taken by what nobody here waits for any more, and something has none.
    package var isStuck: Bool {
        guard connection == .open, let welcome, !queue.isEmpty, sent.count >= welcome.maximumInFlight else {
            return false
        }
        return sent.allSatisfy { pending[$0] == nil }
    }

    private mutating func send(_ request: UInt32, in output: inout [UInt8]) {
        var submission = pending[request]!.submission
        // The node would take a proof for a forgotten seed for a wrong one.
        if let proof = submission.proof, !isForKnownSeed(proof) { submission.proof = nil }
        sent.insert(request)
        output.append(submission)
    }

    /// Bytes came; what follows is appended to `actions`, also where an error comes after it.
    /// - Throws: ``ProtocolError`` where they are no frames of a node.
    package mutating func received(_ bytes: RawSpan, _ actions: inout [Action]) throws(ProtocolError) {
        decoder.append(bytes)
        while let frame = try decoder.next() {
            switch try Message(frame) {
            case .welcome(let welcome):
                guard welcome.version == ProtocolVersion.current else {
                    throw ProtocolError(
                        code: .version, text: "WELCOME names version \(welcome.version), which was not offered")
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
                throw ProtocolError(code: .protocolError, text: "a frame that only a sender sends")
            }
        }
    }

    private mutating func answered(_ result: SubmissionResult, _ actions: inout [Action]) {
        let (request, outcome) = (result.request, result.outcome)
        // Whatever a node says of what is not out there does no harm.
        guard sent.contains(request) else { return }
        if outcome.isFinal { sent.remove(request) }
        guard pending[request] != nil else { return }
        if outcome.kind == .retry, outcome.reason == .tooManyInFlight, let welcome,
            sent.count >= welcome.maximumInFlight
        {
            // It has only been too early, before WELCOME: it goes out again when there is a place.
            return enqueue(request)
        }
        if outcome.kind == .retry, outcome.reason == .proofNeeded || outcome.reason == .proofWrong {
            return askedForWork(request, outcome, &actions)
        }
        if outcome.isFinal { pending[request] = nil }
        actions.append(.result(result))
    }

    private mutating func enqueue(_ request: UInt32) {
        queue.insert(request, at: queue.firstIndex { $0 > request } ?? queue.endIndex)
    }

    /// Whether coming back would meet with the same again.
    private static func isFatal(_ code: GoAway.Code) -> Bool {
        switch code {
        case .shuttingDown, .idle, .busy, .handshakeTimeout: false
        default: true
        }
    }
}

// MARK: - Proof of work

extension SenderSession {
    /// A proof was found.
    package mutating func solved(_ request: UInt32, _ proof: Proof, now: MonotonicTime) {
        endSearch(for: request, now: now)
        pending[request]?.submission.proof = proof
    }

    /// The time for this submission's proof is over: it ends with RETRY.
    package mutating func gaveUp(_ request: UInt32) -> [Action] {
        searches[request] = nil
        guard let submission = pending[request] else { return [] }
        remove(request)
        var outcome = submission.refusal ?? .retry(.proofNeeded, after: 0)
        outcome.text = tooMuch
        return [.result(SubmissionResult(request: request, outcome: outcome))]
    }

    /// Whether this submission has not gone out because it lacks a proof that the node asks for.
    package func lacksProof(_ request: UInt32) -> Bool {
        connection == .open && puzzle != nil && pending[request] != nil && !sent.contains(request)
            && !isReady(request)
    }

    private mutating func announced(_ puzzle: Puzzle) {
        if let present = self.puzzle, present.seed != puzzle.seed { previousSeed = present.seed }
        self.puzzle = puzzle
    }

    /// The node did not take a submission for want of work. What went with it was not enough, whatever it was.
    private mutating func askedForWork(_ request: UInt32, _ outcome: Outcome, _ actions: inout [Action]) {
        var outcome = outcome
        if let puzzle, puzzle.effort > 0, let submission = pending[request] {
            if submission.workLeft <= .zero {
                outcome.text = tooMuch
            } else if submission.resends < Self.mostResends {
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

    private var tooMuch: String {
        "the node asks for more proof of work than is allowed" + (puzzle.map { ": effort \($0.effort)" } ?? "")
    }

    /// Whether a submission may go out: nothing is asked, it has what is asked, or this sender does no work and leaves
    /// it to the node to refuse that.
    private func isReady(_ request: UInt32) -> Bool {
        guard let puzzle else { return !pending[request]!.needsWork }
        guard puzzle.effort > 0, workLimit > .zero else { return true }
        guard let proof = pending[request]!.submission.proof else { return false }
        return proof.effort >= puzzle.effort && isForKnownSeed(proof)
    }

    private func isForKnownSeed(_ proof: Proof) -> Bool {
        [puzzle?.seed, previousSeed].contains { $0?.starts(with: proof.seedPrefix) == true }
    }

    /// Begins to look for a proof that is lacking, unless it has begun or enough others are looked for.
    private mutating func search(for request: UInt32, now: MonotonicTime) -> Action? {
        guard let puzzle, searches[request] == nil, searches.count < Self.searchesAtOnce,
            let submission = pending[request]
        else { return nil }
        pending[request]!.needsWork = true
        searches[request] = Search(puzzle: puzzle, started: now)
        return .solve(
            request: request, digest: submission.submission.envelope.digest, puzzle: puzzle,
            until: now + submission.workLeft)
    }

    /// Ends the searches whose proof would not go out. A search has no memory: to begin anew under another effort, also
    /// a smaller one, loses nothing.
    private mutating func abandonSearches(now: MonotonicTime, _ actions: inout [Action]) {
        guard !searches.isEmpty else { return }
        for request in searches.keys.sorted() where isExhausted(searches[request]!, for: request) {
            endSearch(for: request, now: now)
            actions.append(.stopSolving(request))
        }
    }

    private func isExhausted(_ search: Search, for request: UInt32) -> Bool {
        guard pending[request] != nil else { return true }
        // Between two connections nobody knows.
        guard let puzzle else { return false }
        return search.puzzle.effort != puzzle.effort
            || (search.puzzle.seed != puzzle.seed && search.puzzle.seed != previousSeed)
    }

    private mutating func endSearch(for request: UInt32, now: MonotonicTime) {
        guard let search = searches.removeValue(forKey: request) else { return }
        pending[request]?.workLeft -= now - search.started
    }
}
