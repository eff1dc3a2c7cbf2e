// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Sender
import TNP
import Time

/// Gives each submission to a node, as its ``SubmissionRouting`` decides.
extension TocsinClient {
    private func nodes(of circuit: NodeCircuit) -> [NodeState] {
        for link in circuit.links { link.node.revive(now: .now) }
        return circuit.nodes
    }

    /// Gives a submission that no node has to a node, or ends it.
    func assign(_ number: UInt64) {
        let circuit = circuits.circuit(of: number)
        switch waiters[number]!.routing.choice(of: nodes(of: circuit)) {
        case .give(let index):
            guard let submission = waiters[number]!.submission.take() else { return }
            circuits.give(submission, number, to: circuit.links[index])
        case .end(let outcome): finish(number, .success(outcome))
        case .fail: finish(number, .failure(ClientError(noNodeOf: circuit)))
        case .wait: break
        }
    }

    /// Assigns the submissions that found no usable node, also those that stayed with a node that is down.
    func assignWaiting(_ circuit: NodeCircuit) {
        for number in circuits.submissions.unplaced(on: circuit.number)
        where circuits.submissions.contains(number) && !waiters[number]!.routing.isPausing {
            assign(number)
        }
        for (index, link) in circuit.links.enumerated() where link.node.state == .down {
            give(link.session.notInFlight, from: link, index, of: circuit)
        }
    }

    /// Moves submissions from a link to other nodes.
    func move(_ requests: [UInt32], from link: NodeLink, _ node: Int, of circuit: NodeCircuit) {
        give(requests, from: link, node, of: circuit)
        assignWaiting(circuit)
        for other in circuit.links where other !== link { other.wake() }
    }

    /// Gives submissions of a link to other nodes. A submission that the node has stored stays with it. One that no other
    /// node can take stays, too, and the search for its proof goes on.
    private func give(_ requests: [UInt32], from link: NodeLink, _ node: Int, of circuit: NodeCircuit) {
        for request in requests {
            guard let number = circuits.submission(at: link, request) else { continue }
            let stored = link.session.stored(request)
            switch waiters[number]!.routing.reassignment(stored: stored, from: link.node) {
            case .stay: break
            case .end(let outcome): finish(number, .success(outcome))
            case .move:
                guard waiters[number]!.routing.leaves(node, of: nodes(of: circuit)) else { continue }
                circuits.submissions.displace(number)
                waiters[number]!.submission = link.withdraw(request)
                assign(number)
            }
        }
    }

    /// Handles a node's answer.
    func answered(_ result: SubmissionResult, by link: NodeLink, _ node: Int) {
        let (request, outcome) = (result.request, result.outcome)
        guard let number = circuits.submission(at: link, request) else {
            _ = link.session.takeRefused(request)
            return
        }
        let step = waiters[number]!.routing.answered(
            outcome, by: node, now: .now, random: SecureRandom.fraction())
        switch step {
        case .stored(let isEnd):
            progress?(.queued)
            if isEnd { finish(number, .success(outcome)) }
        case .end:
            waiters[number]!.handle = link.session.takeHandle(request)
            finish(number, .success(outcome))
        case .pause, .move:
            circuits.submissions.displace(number)
            waiters[number]!.submission = link.session.takeRefused(request)
            if case .pause(let pause) = step {
                progress?(.waiting(reason: outcome.sentence, after: pause))
            } else {
                again(number)
            }
        }
    }

    /// Assigns a submission once more after a RETRY.
    func again(_ number: UInt64) {
        assign(number)
        circuits.place(of: number)?.link.wake()
    }

    /// Ends a submission whose deadline has passed.
    func overdue(_ number: UInt64, now: MonotonicTime) {
        let place = circuits.place(of: number)
        let routing = waiters[number]!.routing
        let isInFlight = place.map { !$0.link.session.waiting.contains($0.request) } ?? false
        let lacksProof = place.map { $0.link.session.lacksProof($0.request) } ?? false
        switch routing.overdue(lacksProof: lacksProof, isInFlight: isInFlight) {
        case .outcome(let outcome): finish(number, .success(outcome))
        case .noProof:
            guard let (link, request) = place else { break }
            link.stopSolving(request)
            for case .result(let result) in link.session.searchEnded(request) {
                finish(number, .success(result.outcome))
            }
        case .noAnswer:
            let link = place?.link ?? circuits.circuit(of: number).links[0]
            finish(number, .failure(ClientError(overdue: routing.terms, at: link, now: now)))
        }
        if let (link, request) = place {
            _ = link.session.takeRefused(request)
            link.flush()
        }
    }
}
