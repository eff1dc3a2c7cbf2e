// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Sender
import TNP
import Time

/// Chooses the node for each submission. No two nodes have the same submission at a time.
extension TocsinClient {
    /// The shortest wait before the client obeys a node's RETRY.
    private static let shortestRetry = Duration.milliseconds(250)

    /// What is to be done with a submission.
    private enum Choice {
        case give(to: Link)
        case end(Result<Outcome, any Error>)
        /// No node is usable, but one may be later.
        case wait
    }

    /// Chooses the first usable node that has not refused the submission.
    private func choice(for waiter: Waiter) -> Choice {
        let links = waiter.channel.links
        for link in links { link.access.node.revive(now: .now) }
        let excluded = waiter.refusedBy.union(waiter.excluded)
        let candidates = links.filter { !waiter.excluded.contains($0.index) }
        if let index = NodeState.choose(links.map(\.access.node), excluding: excluded) {
            return .give(to: links[index])
        } else if let refusal = waiter.refusal, !waiter.refusedBy.isEmpty {
            return .end(.success(refusal))
        } else if let failure = links[0].failure, candidates.allSatisfy({ $0.access.node.state == .refused }) {
            return .end(.failure(failure))
        } else {
            return .wait
        }
    }

    /// Gives a submission that no node has to a node, or ends it.
    func assign(_ waiter: Waiter) {
        switch choice(for: waiter) {
        case .give(let link):
            guard let submission = waiter.submission else { return }
            let request = link.access.session.add(submission)
            link.waiters[request] = waiter
            waiter.submission = nil
            waiter.place = (link, request)
        case .end(let result): finish(waiter, result)
        case .wait: waiter.channel.unassigned.append(waiter)
        }
    }

    /// Assigns the submissions that found no usable node, also those that stayed with a node that is down.
    func assignWaiting(_ channel: Channel) {
        let waiting = channel.unassigned
        channel.unassigned = []
        for waiter in waiting { assign(waiter) }
        for link in channel.links where link.access.node.state == .down {
            give(link.access.session.notInFlight, from: link)
        }
    }

    /// Moves submissions from a link to other nodes.
    func move(_ requests: [UInt32], from link: Link) {
        give(requests, from: link)
        assignWaiting(link.channel)
        for other in link.channel.links where other !== link { other.access.wake() }
    }

    /// Gives submissions of a link to other nodes. What the node has stored stays with it; so does, with the search for its
    /// proof, what no other node can take now.
    private func give(_ requests: [UInt32], from link: Link) {
        for request in requests {
            guard let waiter = link.waiters[request] else { continue }
            if let queued = waiter.queued ?? link.access.session.stored(request) {
                waiter.queued = queued
                if link.access.node.state == .refused { finish(waiter, .success(queued)) }
                continue
            }
            if case .wait = choice(for: waiter) { continue }
            link.waiters[request] = nil
            waiter.submission = link.access.withdraw(request)
            waiter.place = nil
            assign(waiter)
        }
    }

    /// Handles a node's answer, and decides what follows a RETRY.
    func answered(_ result: SubmissionResult, by link: Link) {
        let (request, outcome) = (result.request, result.outcome)
        guard let waiter = link.waiters[request] else {
            _ = link.access.session.takeRefused(request)
            return
        }
        switch outcome.kind {
        case .queued:
            waiter.queued = outcome
            progress?(.queued)
            if waiter.returnsWhenQueued { finish(waiter, .success(outcome)) }
        case .delivered, .rejected, .gone:
            waiter.handle = link.access.session.takeHandle(request)
            finish(waiter, .success(outcome))
        case .retry:
            link.waiters[request] = nil
            waiter.place = nil
            waiter.queued = nil
            waiter.submission = link.access.session.takeRefused(request)
            waiter.refusal = outcome
            // Jitter, so that submissions with the same pause do not return at the same moment.
            let pause =
                max(.milliseconds(Int64(outcome.retryAfter)), Self.shortestRetry) * (1 + 0.1 * SecureRandom.fraction())
            // Waiting does not help against missing work, for which the time is spent.
            let isWork = outcome.reason == .proofRequired || outcome.reason == .proofWrong
            if outcome.retryAfter > 0, !isWork, pause <= options.patience, .now + pause < waiter.deadline {
                progress?(.waiting(reason: outcome.text ?? outcome.reason.description, after: pause))
                waiter.resumesAt = .now + pause
            } else {
                waiter.refusedBy.insert(link.index)
                again(waiter)
            }
        }
    }

    /// Assigns a submission once more after a RETRY.
    func again(_ waiter: Waiter) {
        assign(waiter)
        waiter.place?.link.access.wake()
    }

    /// Ends a submission whose deadline has passed.
    func overdue(_ waiter: Waiter, now: MonotonicTime) {
        let place = waiter.place
        if let queued = waiter.queued {
            finish(waiter, .success(queued))
        } else if let (link, request) = place, link.access.session.lacksProof(request) {
            link.access.stopSolving(request)
            for case .result(let result) in link.access.session.searchEnded(request) {
                finish(waiter, .success(result.outcome))
            }
        } else if let refusal = waiter.refusal,
            place.map({ $0.link.access.session.waiting.contains($0.request) }) ?? true
        {
            finish(waiter, .success(refusal))
        } else {
            let link = place?.link ?? waiter.channel.links[0]
            finish(waiter, .failure(link.deadlineError(of: waiter, now: now)))
        }
        if let (link, request) = place {
            _ = link.access.session.takeRefused(request)
            link.access.flush()
        }
    }
}
