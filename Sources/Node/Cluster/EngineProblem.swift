// SPDX-License-Identifier: Apache-2.0

import Redis

/// Why a node cannot use the engine, and what to do.
package struct EngineProblem: Error, Equatable, Sendable, CustomStringConvertible {
    /// The text for the operator.
    package let description: String

    init(_ description: String) { self.description = description }

    /// The problem behind the engine's refusal of a command, or the failure of the connection.
    init(_ error: RedisError, user: String?) {
        guard case .refused(let text) = error else {
            description = error.description
            return
        }
        let name = user ?? "default"
        switch text.prefix(while: { $0 != " " }) {
        case "NOAUTH": description = "the engine asks for a password: set cluster.password_file"
        case "WRONGPASS":
            description =
                "the engine refused the password of the user \(name): see cluster.user and cluster.password_file"
        case "NOPERM":
            description =
                "the engine's ACL does not allow the user \(name) what a node needs; cluster.md has the rules (\(text))"
        case "READONLY":
            description = "this engine is a replica: set cluster.redis to the primary, or use cluster.sentinels"
        case "LOADING": description = "the engine is still loading its data"
        case "OOM": description = "the engine has reached its maxmemory: raise it"
        case "MISCONF": description = "the engine cannot write its files: see its log (\(text))"
        case "NOREPLICAS": description = "the engine has fewer replicas than its min-replicas-to-write"
        default: description = error.description
        }
    }
}
