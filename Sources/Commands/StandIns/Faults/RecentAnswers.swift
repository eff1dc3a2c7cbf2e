// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// The notifications that were answered a short time ago on one connection: if it ends, their answers may not have
/// arrived.
struct RecentAnswers {
    /// The age up to which an answer counts as lost when the service drops the connection.
    static let window = Duration.seconds(1)
    /// The age up to which an answer counts as lost when the network fails: longer than a client waits on a silent
    /// connection.
    static let maximumWindow = Duration.seconds(15)
    private var entries: [(notification: ReceivedNotification, at: MonotonicTime)] = []
    private var first = 0

    /// Returns the notifications answered within this time before `now`, oldest first.
    /// - Parameter window: at most ``maximumWindow``.
    func recent(at now: MonotonicTime, within window: Duration = Self.window) -> [ReceivedNotification] {
        entries[first...].filter { now - $0.at < window }.map { $0.notification }
    }

    mutating func append(_ notification: ReceivedNotification, at now: MonotonicTime) {
        while first < entries.count, now - entries[first].at >= Self.maximumWindow { first += 1 }
        // Compacts rarely, so that each entry is moved about once.
        if first > 64, first > entries.count / 2 {
            entries.removeFirst(first)
            first = 0
        }
        entries.append((notification, now))
    }
}
