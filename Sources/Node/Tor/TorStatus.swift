// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// The status of the node's tor.
package struct TorStatus: Equatable, Sendable {
    /// A phase of the process.
    package enum Phase: String, Sendable {
        /// Not started, or stopped and exited.
        case stopped
        /// The program is being checked and started.
        case starting
        /// The process runs; see ``TorStatus/bootstrap`` and ``TorStatus/descriptor``.
        case running
        /// The process is being stopped.
        case stopping
        /// tor restarts after a pause.
        case waiting
    }

    /// The state of a further onion.
    package struct Onion: Equatable, Sendable {
        /// Its name in the configuration.
        package let name: ClientName
        /// Its address.
        package let address: OnionAddress
        /// The state of its descriptor.
        package internal(set) var descriptor = OnionDescriptor.none
    }

    /// The current phase.
    package internal(set) var phase = Phase.stopped
    /// The first onion's address; `nil` until it is known, at the latest when tor begins to upload the descriptor.
    package internal(set) var address: OnionAddress?
    /// Bootstrap progress in percent, 0–100.
    package internal(set) var bootstrap = 0
    /// The state of the first onion's descriptor.
    package internal(set) var descriptor = OnionDescriptor.none
    /// The further onions whose keys exist.
    package internal(set) var onions: [Onion] = []
    /// The process id while tor runs.
    package internal(set) var pid: Int32?
    /// Number of restarts.
    package internal(set) var restarts = 0
    /// The last warning or error in tor's log.
    package internal(set) var lastWarning: String?
    /// Why the onion is unreachable; `nil` if no problem is known.
    package internal(set) var problem: TorProblem?

    /// Creates the status of a tor that is not running.
    package init() {}

    /// Whether tor runs and has published the first onion's descriptor, so that senders can find the onion.
    package var isReachable: Bool { phase == .running && descriptor == .published }
}
