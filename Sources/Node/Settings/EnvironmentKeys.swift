// SPDX-License-Identifier: Apache-2.0

/// The few keys of the configuration that an environment variable may set, as is usual for containers. A variable
/// replaces the value in the file. No secret is among them: other processes can read a process's environment, and
/// container runtimes show it.
package struct EnvironmentKeys: Sendable, Equatable {
    /// The keys, each as `table.key`.
    package static let all = [
        "node.name", "node.log", "node.log_format", "listen.tnp", "listen.http", "listen.admin", "app.upstream.node",
    ]

    private var values: [String: String] = [:]

    /// No variable is set.
    package init() {}

    /// - Parameter environment: looks up an environment variable. An empty value counts as not set: container tools
    ///   write one for a setting without a value.
    package init(_ environment: (String) -> String?) {
        for key in Self.all {
            if let value = environment(Self.variable(of: key)), !value.isEmpty { values[key] = value }
        }
    }

    /// The variables that are set, in order.
    package var variables: [String] { Self.all.filter { values[$0] != nil }.map(Self.variable) }

    /// The name of the variable for a key: `TOCSIN_LISTEN_HTTP` for `listen.http`.
    package static func variable(of key: String) -> String {
        "TOCSIN_" + key.uppercased().replacing(".", with: "_")
    }

    /// The variable that sets a key, and its value.
    subscript(key: String) -> (variable: String, value: String)? {
        values[key].map { (Self.variable(of: key), $0) }
    }
}
