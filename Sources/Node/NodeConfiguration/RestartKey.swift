// SPDX-License-Identifier: Apache-2.0

import Admission

/// A key of the configuration, or a whole table, whose change takes effect only after a restart. Each table
/// lists its own; those of `[node]` and of `AdmissionSettings` are below.
struct RestartKey {
    let name: String
    fileprivate let differs: (Configuration, Configuration) -> Bool
    fileprivate let keep: (inout Configuration, Configuration) -> Void

    init<Value: Equatable>(_ name: String, _ path: WritableKeyPath<Configuration, Value>) {
        self.name = name
        differs = { $0[keyPath: path] != $1[keyPath: path] }
        keep = { $0[keyPath: path] = $1[keyPath: path] }
    }

    /// A table that needs a restart when it appears or disappears, but not when its keys change.
    init<Value>(presence name: String, _ path: WritableKeyPath<Configuration, Value?>) {
        self.name = name
        let differs = { (one: Configuration, other: Configuration) in
            (one[keyPath: path] == nil) != (other[keyPath: path] == nil)
        }
        self.differs = differs
        keep = { if differs($0, $1) { $0[keyPath: path] = $1[keyPath: path] } }
    }
}

extension Configuration {
    private static var restartKeys: [RestartKey] {
        nodeRestartKeys + Listen.restartKeys + Tor.restartKeys + Limits.restartKeys + admissionRestartKeys
            + Spool.restartKeys + Handles.restartKeys + Cluster.restartKeys
    }

    private static var nodeRestartKeys: [RestartKey] {
        [
            RestartKey("node.state", \.state), RestartKey("node.log_format", \.logFormat),
            RestartKey("node.key_holder", \.hasKeyHolder), RestartKey("node.sandbox", \.sandbox),
        ]
    }

    private static var admissionRestartKeys: [RestartKey] {
        [RestartKey("limits.device_tokens", \.admission.deviceTokens)]
    }

    /// The configuration after a reload: the new one, with the current values of the keys that require a restart.
    package func reloaded(from new: Configuration) -> Configuration {
        Self.restartKeys.reduce(into: new) { merged, key in key.keep(&merged, self) }
    }

    /// The changed keys that take effect only after a restart.
    package func keysRequiringRestart(comparedTo old: Configuration) -> [String] {
        Self.restartKeys.filter { $0.differs(self, old) }.map(\.name)
    }
}
