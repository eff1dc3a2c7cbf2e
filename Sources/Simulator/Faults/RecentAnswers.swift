// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// The notifications that were answered within the last second on one connection: if it is dropped, their answers may
/// not have arrived.
struct RecentAnswers {
    /// How long an answer counts as recent.
    static let window = Duration.seconds(1)
    private var entries: [(notification: ReceivedNotification, at: MonotonicTime)] = []
    private var first = 0

    /// Returns the notifications answered within the window before `now`, oldest first.
    func recent(at now: MonotonicTime) -> [ReceivedNotification] {
        entries[first...].filter { now - $0.at < Self.window }.map { $0.notification }
    }

    mutating func append(_ notification: ReceivedNotification, at now: MonotonicTime) {
        while first < entries.count, now - entries[first].at >= Self.window { first += 1 }
        // Compacts rarely, so that each entry is moved about once.
        if first > 64, first > entries.count / 2 {
            entries.removeFirst(first)
            first = 0
        }
        entries.append((notification, now))
    }
}
