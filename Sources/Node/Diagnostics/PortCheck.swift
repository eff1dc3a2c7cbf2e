// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Settings

/// Checks an address on which the node listens.
struct PortCheck: Equatable {
    /// The current state of an address.
    enum State: Equatable {
        case free
        /// A process listens on the address.
        case inUse
        /// The node cannot listen on the address, for this reason.
        case impossible(String)
    }

    /// The configuration key, e.g. `listen.tnp`.
    var key: String
    var endpoint: Endpoint
    var state: State
    var lock: LockState

    var finding: Finding {
        switch (state, lock) {
        case (.impossible(let reason), _):
            finding(.failed, "the node cannot listen on it (\(reason)): choose another address for \(key)")
        case (.free, .held):
            finding(.warning, "the running node does not listen on it: if you have changed \(key), restart the node")
        case (.free, _): finding(.ok, "free")
        case (.inUse, .held): finding(.ok, "the running node listens on it")
        case (.inUse, .free):
            finding(
                .failed,
                "another process listens on it (ss -ltnp shows which): stop it, or choose another address for \(key)")
        case (.inUse, .unknown):
            finding(.warning, "in use; cannot tell whether the node uses it: run the check as the node's user")
        }
    }

    private func finding(_ grade: Finding.Grade, _ text: String) -> Finding {
        Finding(.ports, "\(key) \(endpoint)", grade, text)
    }
}

extension PortCheck.State {
    /// The state of an address: ``free`` if nothing stands in the way of listening on it.
    init(_ obstacle: ListenError?) {
        self =
            switch obstacle {
            case nil: .free
            case let error? where error.isInUse: .inUse
            case let error?: .impossible(error.reason)
            }
    }
}
