// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Sender
import TNP
import Time

/// Handles the events of the links.
extension TocsinClient: NodeLinkOwner {
    package nonisolated func needs(_ link: NodeLink) -> Bool {
        assumeIsolated { $0.circuits.submissions.needs(link.id) }
    }

    package nonisolated func handle(_ event: NodeLink.Event, of link: NodeLink) {
        assumeIsolated { $0.linkReports(event, link) }
    }

    private func linkReports(_ event: NodeLink.Event, _ link: NodeLink) {
        guard let (circuit, node) = circuits.position(of: link) else { return }
        switch event {
        case .connecting: progress?(.connecting(link.destination.endpoint))
        case .connected:
            hasConnected = true
            progress?(.connected)
            assignWaiting(circuit)
        case .welcomed(let welcome): progress?(.welcomed(welcome))
        case .answered(let result): answered(result, by: link, node)
        case .retrying(let reason, let pause): progress?(.retrying(reason: reason, after: pause))
        case .solving(let effort): progress?(.solvingPuzzle(effort: effort))
        case .usable: assignWaiting(circuit)
        case .slow(let requests), .unusable(let requests, _): move(requests, from: link, node, of: circuit)
        }
    }
}
