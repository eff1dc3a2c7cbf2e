// SPDX-License-Identifier: Apache-2.0

import Admission

extension Configuration {
    /// The configuration after a reload: the new one, with the current values of the keys that require a restart.
    package func reloaded(from new: Configuration) -> Configuration {
        var merged = new
        merged.state = state
        merged.logFormat = logFormat
        merged.listen = listen
        merged.tor = tor
        merged.spool = spool
        merged.limits.replayWindow = limits.replayWindow
        merged.limits.replayEntries = limits.replayEntries
        merged.admission.deviceTokens = admission.deviceTokens
        return merged
    }

    /// The changed keys that take effect only after a restart.
    package func keysRequiringRestart(comparedTo old: Configuration) -> [String] {
        var keys: [String] = []
        if state != old.state { keys.append("node.state") }
        if logFormat != old.logFormat { keys.append("node.log_format") }
        if listen != old.listen { keys.append("listen") }
        if tor != old.tor { keys.append("tor") }
        if spool != old.spool { keys.append("spool") }
        if limits.replayWindow != old.limits.replayWindow { keys.append("limits.replay_window") }
        if limits.replayEntries != old.limits.replayEntries { keys.append("limits.replay_entries") }
        if admission.deviceTokens != old.admission.deviceTokens { keys.append("limits.device_tokens") }
        return keys
    }
}
