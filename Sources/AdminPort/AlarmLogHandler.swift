// SPDX-License-Identifier: Apache-2.0

import Logging
import Providers
import Synchronization
import Time

/// An alarm book that the logger's threads write into and the dashboard reads.
package final class AlarmLog: Sendable {
    private let book = Mutex(RecentAlarms())

    /// An empty log.
    package init() {}

    /// Latest first.
    package var alarms: [NodeSnapshot.Alarm] { book.withLock(\.alarms) }

    /// - Parameter now: Unix time in seconds.
    func note(_ level: Logger.Level, _ text: String, details: [(name: String, value: String)], at now: Int64) {
        book.withLock { $0.note(level.rawValue, text, details: details, at: now) }
    }
}

/// Passes every line on to another handler, and notes warnings and what is worse in an ``AlarmLog``; that also where
/// the other handler wants to hear of errors only.
package struct AlarmLogHandler: LogHandler {
    /// Tells of one phone, if by a pseudonym only: an alarm does not, and is the same for all of them.
    private static let phone = "phone"

    private var wrapped: any LogHandler
    private let log: AlarmLog

    package init(_ wrapped: any LogHandler, noting log: AlarmLog) {
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
                .filter { $0.key != Self.phone }.sorted { $0.key < $1.key }
            log.note(
                event.level, "\(event.message)", details: details.map { (name: $0.key, value: "\($0.value)") },
                at: UnixTime.now)
        }
        if event.level >= wrapped.logLevel { wrapped.log(event: event) }
    }
}
