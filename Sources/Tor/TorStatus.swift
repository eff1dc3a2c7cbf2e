// SPDX-License-Identifier: Apache-2.0

/// How the node's tor is.
package struct TorStatus: Equatable, Sendable {
    /// Where it stands.
    package enum Phase: String, Sendable {
        /// Not started, or told to stop and gone.
        case stopped
        /// The program is being looked at and started.
        case starting
        /// It runs; see ``TorStatus/bootstrap`` and ``TorStatus/descriptor``.
        case running
        /// It was told to end.
        case stopping
        /// It is started again after a pause.
        case waiting
    }

    /// Where it stands.
    package internal(set) var phase = Phase.stopped
    /// The onion's address, from when tor has begun to publish it.
    package internal(set) var address: OnionAddress?
    /// How much of the way into the network is done, 0–100.
    package internal(set) var bootstrap = 0
    /// Whether the onion can be found.
    package internal(set) var descriptor = OnionDescriptor.none
    /// While it runs.
    package internal(set) var pid: Int32?
    /// How often it was started again.
    package internal(set) var restarts = 0
    /// The last warning in tor's log.
    package internal(set) var lastWarning: String?
    /// Why the onion cannot be reached, where that is so.
    package internal(set) var trouble: TorProblem?

    /// Nothing runs.
    package init() {}

    /// Whether senders find the onion.
    package var isReachable: Bool { phase == .running && descriptor == .published }
}
