// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Settings

/// Checks an address on which the node listens.
struct PortCheck: Equatable {
    /// The configuration key, e.g. `listen.tnp`.
    var key: String
    var endpoint: Endpoint
    /// What stands in the way of listening there; `nil` if nothing does.
    var obstacle: ListenError?
    var lock: LockState

    var finding: Finding {
        switch (obstacle, lock) {
        case (let error?, _) where !error.isInUse:
            finding(.failed, "the node cannot listen on it (\(error.reason)): choose another address for \(key)")
        case (nil, .held):
            finding(.warning, "the running node does not listen on it: if you have changed \(key), restart the node")
        case (nil, _): finding(.ok, "free")
        case (_, .held): finding(.ok, "the running node listens on it")
        case (_, .free):
            finding(
                .failed,
                "another process listens on it (ss -ltnp shows which): stop it, or choose another address for \(key)")
        case (_, .unknown):
            finding(.warning, "in use; cannot tell whether the node uses it: run the check as the node's user")
        }
    }

    private func finding(_ grade: Finding.Grade, _ text: String) -> Finding {
        Finding(.ports, "\(key) \(endpoint)", grade, text)
    }
}
