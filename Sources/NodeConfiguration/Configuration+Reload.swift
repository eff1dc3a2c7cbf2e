// SPDX-License-Identifier: Apache-2.0

import Admission

extension Configuration {
    /// A key, or a whole table, whose change takes effect only after a restart.
    private struct RestartKey {
        let name: String
        let differs: (Configuration, Configuration) -> Bool
        let keep: (inout Configuration, Configuration) -> Void

        init<Value: Equatable>(_ name: String, _ path: WritableKeyPath<Configuration, Value>) {
            self.name = name
            differs = { $0[keyPath: path] != $1[keyPath: path] }
            keep = { $0[keyPath: path] = $1[keyPath: path] }
        }

        init(
            _ name: String, _ value: @escaping (Configuration) -> Bool,
            keep: @escaping (inout Configuration, Configuration) -> Void
        ) {
            self.name = name
            differs = { value($0) != value($1) }
            self.keep = { if value($0) != value($1) { keep(&$0, $1) } }
        }
    }

    private static var restartKeys: [RestartKey] {
        [
            RestartKey("handles.enabled", { $0.handles != nil }) { $0.handles = $1.handles },
            RestartKey("node.state", \.state), RestartKey("node.log_format", \.logFormat),
            RestartKey("node.key_holder", \.hasKeyHolder), RestartKey("node.sandbox", \.sandbox),
            RestartKey("listen", \.listen), RestartKey("tor", \.tor), RestartKey("spool", \.spool),
            RestartKey("cluster", \.cluster),
            RestartKey("limits.replay_window", \.limits.replayWindow),
            RestartKey("limits.replay_entries", \.limits.replayEntries),
            RestartKey("limits.device_tokens", \.admission.deviceTokens),
        ]
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
