// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Sender
import TNP
import Time

/// Handles the events of the links.
extension TocsinClient: NodeLinkOwner {
    package nonisolated func needs(_ link: NodeLink) -> Bool {
        assumeIsolated { $0.links[link.id]?.channel.isActive == true }
    }

    package nonisolated func handle(_ event: NodeLink.Event, of link: NodeLink) {
        assumeIsolated { $0.handle(event, of: link.id, at: link.destination.endpoint) }
    }

    private func handle(_ event: NodeLink.Event, of id: Int, at node: Endpoint) {
        guard let link = links[id] else { return }
        switch event {
        case .connecting: progress?(.connecting(node))
        case .connected:
            hasConnected = true
            progress?(.connected)
            assignWaiting(link.channel)
        case .welcomed(let welcome): progress?(.welcomed(welcome))
        case .answered(let result): answered(result, by: link)
        case .retrying(let reason, let pause): progress?(.retrying(reason: reason, after: pause))
        case .solving(let effort): progress?(.solvingPuzzle(effort: effort))
        case .usable: assignWaiting(link.channel)
        case .slow(let requests), .unusable(let requests, _): move(requests, from: link)
        }
    }
}
