// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Glibc
import Settings

/// Checks an address on which the node listens.
struct PortCheck: Equatable {
    /// The current state of an address.
    enum State: Equatable {
        case free
        /// A process listens on the address.
        case inUse
        /// No process can listen on the address, for this reason.
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
    private static let timeout = Duration.seconds(2)

    /// Tests an address. Must be called on the loop.
    static func probe(_ endpoint: Endpoint, on loop: EventLoop, isolation: isolated (any Actor)? = #isolation) async
        -> Self
    {
        switch endpoint {
        case .tcp(_, 0): return .free
        case .tcp(let host, let port):
            switch Listener.obstacle(at: host, port) {
            case nil: return .free
            case EADDRINUSE?: return .inUse
            case let error?: return .impossible(String(cString: strerror(error)))
            }
        case .unix(let path):
            // Creates no socket file: it would belong to this user, not to the node's user.
            if access(path, F_OK) == 0 {
                guard let stream = try? await loop.dial(endpoint, timeout: timeout) else { return .free }
                stream.close()
                return .inUse
            }
            let directory = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
            if access(directory, W_OK | X_OK) == 0 { return .free }
            return .impossible("\(directory): \(String(cString: strerror(errno)))")
        }
    }
}
