// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Sender
import TNP
import Time

/// Gives each submission to a node, as its ``SubmissionRouting`` decides.
extension TocsinClient {
    private func nodes(for waiter: Waiter) -> [NodeState] {
        let links = waiter.channel.links
        for link in links { link.access.node.revive(now: .now) }
        return links.map(\.access.node)
    }

    /// Gives a submission that no node has to a node, or ends it.
    func assign(_ waiter: Waiter) {
        switch waiter.routing.choice(of: nodes(for: waiter)) {
        case .give(let index):
            guard let submission = waiter.submission else { return }
            let link = waiter.channel.links[index]
            let request = link.access.session.add(submission)
            link.waiters[request] = waiter
            waiter.submission = nil
            waiter.place = (link, request)
        case .end(let outcome): finish(waiter, .success(outcome))
        case .fail:
            finish(waiter, .failure(waiter.channel.links[0].failure ?? .unreachable("no node can be used now")))
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
            switch waiter.routing.reassignment(stored: link.access.session.stored(request), from: link.access.node) {
            case .stay: break
            case .end(let outcome): finish(waiter, .success(outcome))
            case .move:
                guard waiter.routing.leaves(link.index, of: nodes(for: waiter)) else { continue }
                link.waiters[request] = nil
                waiter.submission = link.access.withdraw(request)
                waiter.place = nil
                assign(waiter)
            }
        }
    }

    /// Handles a node's answer.
    func answered(_ result: SubmissionResult, by link: Link) {
        let (request, outcome) = (result.request, result.outcome)
        guard let waiter = link.waiters[request] else {
            _ = link.access.session.takeRefused(request)
            return
        }
        let step = waiter.routing.answered(outcome, by: link.index, now: .now, random: SecureRandom.fraction())
        switch step {
        case .stored(let isEnd):
            progress?(.queued)
            if isEnd { finish(waiter, .success(outcome)) }
        case .end:
            waiter.handle = link.access.session.takeHandle(request)
            finish(waiter, .success(outcome))
        case .pause, .move:
            link.waiters[request] = nil
            waiter.place = nil
            waiter.submission = link.access.session.takeRefused(request)
            if case .pause(let pause) = step {
                progress?(.waiting(reason: outcome.sentence, after: pause))
            } else {
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
        let isInFlight = place.map { !$0.link.access.session.waiting.contains($0.request) } ?? false
        let lacksProof = place.map { $0.link.access.session.lacksProof($0.request) } ?? false
        switch waiter.routing.overdue(lacksProof: lacksProof, isInFlight: isInFlight) {
        case .outcome(let outcome): finish(waiter, .success(outcome))
        case .noProof:
            guard let (link, request) = place else { break }
            link.access.stopSolving(request)
            for case .result(let result) in link.access.session.searchEnded(request) {
                finish(waiter, .success(result.outcome))
            }
        case .noAnswer:
            let link = place?.link ?? waiter.channel.links[0]
            finish(waiter, .failure(link.deadlineError(of: waiter, now: now)))
        }
        if let (link, request) = place {
            _ = link.access.session.takeRefused(request)
            link.access.flush()
        }
    }
}
