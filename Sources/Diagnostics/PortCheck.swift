// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Glibc

/// What is to be said of an address that the node listens at.
struct PortCheck: Equatable {
    /// How it is now.
    enum State: Equatable {
        case free
        /// Somebody listens there.
        case taken
        /// Nobody can listen there, for this reason.
        case impossible(String)
    }

    /// `listen.tnp`
    var key: String
    var endpoint: Endpoint
    var state: State
    var lock: LockState

    var finding: Finding {
        switch (state, lock) {
        case (.impossible(let reason), _):
            finding(.failed, "nobody can listen there (\(reason)): choose another address in \(key)")
        case (.free, .held):
            finding(
                .warning, "the running node does not listen there: was \(key) changed? It counts from its next start on"
            )
        case (.free, _): finding(.ok, "free")
        case (.taken, .held): finding(.ok, "the running node listens there")
        case (.taken, .free):
            finding(
                .failed,
                "another process listens there (ss -ltnp shows which): end it, or choose another address in \(key)")
        case (.taken, .unknown): finding(.warning, "somebody listens there; whether it is the node cannot be seen")
        }
    }

    private func finding(_ grade: Finding.Grade, _ text: String) -> Finding {
        Finding(.ports, "\(key) \(endpoint)", grade, text)
    }
}

extension PortCheck.State {
    private static let patience = Duration.seconds(2)

    /// Looks, by listening or connecting for a moment. On the loop.
    static func look(at endpoint: Endpoint, on loop: EventLoop, isolation: isolated (any Actor)? = #isolation) async
        -> Self
    {
        switch endpoint {
        case .tcp(_, 0): return .free
        case .tcp:
            do throws(ListenError) {
                let listener = try Listener(endpoint, on: loop) { $0.close() }
                listener.close()
                return .free
            } catch {
                return error.reason == String(cString: strerror(EADDRINUSE)) ? .taken : .impossible(error.reason)
            }
        case .unix(let path):
            // Not made even for a moment: its owner and its directory would be this user's choice.
            if access(path, F_OK) == 0 {
                guard let stream = try? await loop.dial(endpoint, timeout: patience) else { return .free }
                stream.close()
                return .taken
            }
            let directory = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
            if access(directory, W_OK | X_OK) == 0 { return .free }
            return .impossible("\(directory): \(String(cString: strerror(errno)))")
        }
    }
}
