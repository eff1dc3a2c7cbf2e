// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Simulator
import Synchronization
import Time

/// What the phones have got, envelope by envelope, in little room: a million of them fit.
final class Tally: Sendable {
    private struct Seen {
        var times: UInt16 = 0
        /// How often the node cannot have known that it was delivered.
        var unanswered: UInt16 = 0
        var id = 0
        var collapseID = 0
    }

    private struct State {
        var seen: [Int: Seen] = [:]
        /// What came in the last second, oldest first.
        var recent: [(at: MonotonicTime, envelope: Int)] = []
        var secondIDs = 0
        var otherCollapseIDs = 0
        var deliveries = 0
    }

    /// How long an answer may still be on its way to a process that is killed.
    private static let onItsWay = Duration.seconds(1)
    private let state = Mutex(State())

    /// What names an envelope on both sides: the text that only its phone can open.
    static func name(_ encrypted: String) -> Int { encrypted.hashValue }

    /// A phone has got something.
    func delivered(_ notification: ReceivedNotification) {
        state.withLock { state in
            let envelope = Self.name(notification.encrypted)
            let (id, collapseID) = (notification.id.hashValue, notification.collapseID.hashValue)
            var seen = state.seen[envelope] ?? Seen(id: id, collapseID: collapseID)
            seen.times += 1
            // Google makes a new id for each message; Apple's is the sender's.
            if notification.platform != .fcm, seen.id != id { state.secondIDs += 1 }
            if seen.collapseID != collapseID { state.otherCollapseIDs += 1 }
            state.seen[envelope] = seen
            state.deliveries += 1
            let now = MonotonicTime.now
            state.recent.append((now, envelope))
            if state.recent.count > 4096, let first = state.recent.first, now - first.at > Self.onItsWay {
                state.recent.removeAll { now - $0.at > Self.onItsWay }
            }
        }
    }

    /// The answer to a delivery may not have reached the node.
    func unanswered(_ notification: ReceivedNotification) {
        state.withLock { $0.seen[Self.name(notification.encrypted)]?.unanswered += 1 }
    }

    /// The node was killed between these two moments: what it had been told in the last second before it may not have
    /// kept, and what came after it cannot have been told.
    func nodeKilled(after first: MonotonicTime, before last: MonotonicTime) {
        state.withLock { state in
            for (at, envelope) in state.recent where at + Self.onItsWay >= first && at <= last {
                state.seen[envelope]?.unanswered += 1
            }
        }
    }

    /// Whether a phone has got it.
    func has(_ envelope: Int) -> Bool { state.withLock { $0.seen[envelope] != nil } }

    /// How often phones have got something.
    var deliveries: Int { state.withLock { $0.deliveries } }

    /// Sums over all envelopes.
    struct Sums {
        /// Envelopes that came, and how often they came again.
        var envelopes = 0
        var repeats = 0
        /// Repeats of what the node had an answer for.
        var unexplained = 0
        /// Deliveries under another apns-id, or another collapse id, than the first.
        var secondIDs = 0
        var otherCollapseIDs = 0
    }

    var sums: Sums {
        state.withLock { state in
            var sums = Sums(secondIDs: state.secondIDs, otherCollapseIDs: state.otherCollapseIDs)
            for seen in state.seen.values {
                sums.envelopes += 1
                sums.repeats += Int(seen.times) - 1
                sums.unexplained += max(0, Int(seen.times) - 1 - Int(seen.unanswered))
            }
            return sums
        }
    }
}
