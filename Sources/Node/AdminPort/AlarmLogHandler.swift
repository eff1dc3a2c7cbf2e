// SPDX-License-Identifier: Apache-2.0

import Logging
import Synchronization
import Time

/// The recent alarms, written by any thread that logs and read by the dashboard.
package final class AlarmLog: Sendable {
    fileprivate let recent = Mutex(RecentAlarms())

    /// Creates an empty log.
    package init() {}

    /// The alarms, latest first.
    package var alarms: [NodeSnapshot.Alarm] { recent.withLock(\.alarms) }

    /// Forgets the advice about settings, which a reload gives again.
    package func forgetAdvice() { recent.withLock { $0.forgetAdvice() } }

    /// Records an alarm that another process has logged.
    package func record(_ level: String, _ text: String, details: [(name: String, value: String)]) {
        recent.withLock { $0.record(level, text, details: details, at: UnixTime.now) }
    }
}

/// A log handler that forwards every message to another handler and records messages from level `warning` up in an
/// ``AlarmLog``, even if the level of the other handler is higher.
package struct AlarmLogHandler: LogHandler {
    /// The metadata key of a phone's pseudonym. Alarms omit it: they identify no phone, and the same alarm about
    /// several phones counts as one.
    private static let phone = "phone"
    /// The metadata that marks a message as advice about settings.
    package static let setUp: Logger.Metadata = ["about": "set-up"]

    private var wrapped: any LogHandler
    private let log: AlarmLog

    /// Wraps a handler.
    package init(_ wrapped: any LogHandler, recordingTo log: AlarmLog) {
        self.wrapped = wrapped
        self.log = log
    }

    package var logLevel: Logger.Level {
        get { min(wrapped.logLevel, .warning) }
        set { wrapped.logLevel = newValue }
    }

    package var metadata: Logger.Metadata {
        get { wrapped.metadata }
        set { wrapped.metadata = newValue }
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { wrapped[metadataKey: key] }
        set { wrapped[metadataKey: key] = newValue }
    }

    package func log(event: LogEvent) {
        if event.level >= .warning {
            let details = metadata.merging(event.metadata ?? [:]) { _, new in new }
                .filter { $0.key != Self.phone && Self.setUp[$0.key] != $0.value }.sorted { $0.key < $1.key }
            let isSetUp = event.metadata?.contains { Self.setUp[$0.key] == $0.value } ?? false
            log.recent.withLock {
                $0.record(
                    event.level.rawValue, "\(event.message)",
                    details: details.map { (name: $0.key, value: "\($0.value)") }, isSetUp: isSetUp,
                    at: UnixTime.now)
            }
        }
        if event.level >= wrapped.logLevel { wrapped.log(event: event) }
    }
}
