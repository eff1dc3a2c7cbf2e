// SPDX-License-Identifier: Apache-2.0

import Sender
import TNP
import Time

/// Decides which node gets a submission, and what follows a node's answer. No I/O and no clock; randomness is a parameter.
/// No two nodes have the same submission at a time.
struct SubmissionRouting {
    /// What the caller wants.
    struct Terms {
        let started: MonotonicTime
        let deadline: MonotonicTime
        /// The longest time for which a node's RETRY is obeyed.
        let maximumPause: Duration
        /// Whether the submission ends at QUEUED.
        let returnsWhenQueued: Bool
    }

    /// The node that gets a submission.
    enum Choice: Equatable {
        case give(to: Int)
        case end(Outcome)
        /// Each node that may get the submission has refused the client.
        case fail
        /// No node is usable, but one may be later.
        case wait
    }

    /// What follows a node's answer.
    enum Step: Equatable {
        case end
        /// The node has stored the envelope.
        case stored(isEnd: Bool)
        /// The submission is sent again after this time, to any of the same nodes.
        case pause(Duration)
        /// The submission moves to another node.
        case move
    }

    /// What becomes of a submission whose node cannot be used now.
    enum Reassignment: Equatable {
        /// The node has stored it.
        case stay
        case end(Outcome)
        case move
    }

    /// How a submission ends at its deadline.
    enum Overdue: Equatable {
        case outcome(Outcome)
        /// The search for its proof of work has not ended.
        case noProof
        case noAnswer
    }

    /// The shortest pause after a node's RETRY.
    static let shortestRetry = Duration.milliseconds(250)
    /// The longest random extension of a pause, as a fraction of it: submissions with the same pause are not sent again
    /// at the same moment.
    private static let jitter = 0.1

    let terms: Terms
    /// The nodes that do not know the handle which the request uses.
    private let excluded: Set<Int>
    /// The nodes whose RETRY made the submission move to another node.
    private var ruledOut: Set<Int> = []
    /// The last RETRY of a node.
    private var refusal: Outcome?
    /// The QUEUED outcome of the current node, if it has stored the envelope.
    private var queued: Outcome?
    /// When the submission is sent again after a RETRY.
    private var resumesAt: MonotonicTime?

    /// - Parameter excluded: the nodes that do not know the handle which the request uses.
    init(_ terms: Terms, excluding excluded: Set<Int>) {
        self.terms = terms
        self.excluded = excluded
    }

    /// The first usable node that has not refused the submission.
    func choice(of nodes: [NodeState]) -> Choice {
        if let index = NodeState.choose(nodes, excluding: ruledOut.union(excluded)) { return .give(to: index) }
        if let refusal, !ruledOut.isEmpty { return .end(refusal) }
        let candidates = nodes.indices.filter { !excluded.contains($0) }
        return candidates.allSatisfy { nodes[$0].state == .refused } ? .fail : .wait
    }

    /// Whether the submission should leave a node for another one, or end. It stays while no other node is better, and
    /// does not move from one slow node to another.
    func leaves(_ index: Int, of nodes: [NodeState]) -> Bool {
        switch choice(of: nodes) {
        case .give(let other): other != index && !(nodes[other].isSlow && nodes[index].isSlow)
        case .wait: false
        case .end, .fail: true
        }
    }

    /// How long a submission waits while a wrong setting of the client is the likely reason that no node can be
    /// reached.
    static let mistakeTimeout = Duration.seconds(5)

    /// Whether the submission ends without an outcome, because no node is likely to be reached. For a client that has
    /// never reached one.
    func givesUp(on nodes: [NodeState], now: MonotonicTime) -> Bool {
        now - terms.started >= Self.mistakeTimeout
            && nodes.indices.allSatisfy { excluded.contains($0) || nodes[$0].isHopeless(since: terms.started) }
    }

    /// Handles a node's answer.
    /// - Parameter random: a random number from 0 up to 1, for the jitter.
    mutating func answered(_ outcome: Outcome, by node: Int, now: MonotonicTime, random: Double) -> Step {
        switch outcome.kind {
        case .queued:
            queued = outcome
            return .stored(isEnd: terms.returnsWhenQueued)
        case .delivered, .rejected, .gone: return .end
        case .retry:
            queued = nil
            refusal = outcome
            let pause = max(.milliseconds(Int64(outcome.retryAfter)), Self.shortestRetry) * (1 + Self.jitter * random)
            // A pause does not help against a missing proof of work.
            let isWork = outcome.reason == .proofRequired || outcome.reason == .proofWrong
            if outcome.retryAfter > 0, !isWork, pause <= terms.maximumPause, now + pause < terms.deadline {
                resumesAt = now + pause
                return .pause(pause)
            }
            ruledOut.insert(node)
            return .move
        }
    }

    /// The node that has the submission cannot be used now.
    /// - Parameters:
    ///   - stored: the QUEUED that the link has received but not yet reported.
    ///   - node: the state of that node.
    mutating func reassignment(stored: Outcome?, from node: NodeState) -> Reassignment {
        guard let queued = queued ?? stored else { return .move }
        self.queued = queued
        return node.state == .refused ? .end(queued) : .stay
    }

    /// Whether the submission waits for the end of a pause after RETRY.
    var isPausing: Bool { resumesAt != nil }

    /// Whether a pause after RETRY is over.
    mutating func resumes(at now: MonotonicTime) -> Bool {
        guard let time = resumesAt, time <= now else { return false }
        resumesAt = nil
        return true
    }

    /// How the submission ends now, at its deadline.
    /// - Parameters:
    ///   - lacksProof: whether a search for its proof of work is unfinished.
    ///   - isInFlight: whether a node has it and owes the answer.
    func overdue(lacksProof: Bool, isInFlight: Bool) -> Overdue {
        if let queued { return .outcome(queued) }
        if lacksProof { return .noProof }
        if let refusal, !isInFlight { return .outcome(refusal) }
        return .noAnswer
    }
}
