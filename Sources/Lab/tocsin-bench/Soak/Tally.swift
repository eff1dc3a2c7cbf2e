// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import Synchronization
import Time

/// Counts the deliveries of each envelope, compactly enough for a million envelopes.
final class Tally: Sendable {
    private struct Seen {
        var times: UInt16 = 0
        /// Deliveries whose answer may not have reached the node.
        var unanswered: UInt16 = 0
        var id = 0
        var collapseID = 0
        let first: MonotonicTime
        var last: MonotonicTime

        /// Repeats of a delivery whose answer had reached the node.
        var unexplained: Int { max(0, Int(times) - 1 - Int(unanswered)) }
    }

    private struct State {
        var seen: [Int: Seen] = [:]
        /// Recent answers to deliveries, oldest first; at least those of the last second.
        var answers: [(at: MonotonicTime, envelope: Int)] = []
        var secondIDs = 0
        var otherCollapseIDs = 0
        var watchedDeviceToken: String?
        var deliveriesToWatched = 0
    }

    /// How long an answer may be in transit when the node is killed.
    private static let answerDelay = Duration.seconds(1)
    private let state = Mutex(State())

    /// Identifies an envelope at sender and phone, by its encrypted text.
    static func name(_ encrypted: String) -> Int { encrypted.hashValue }

    /// Counts a notification that a phone received.
    func delivered(_ notification: ReceivedNotification) {
        state.withLock { state in
            let envelope = Self.name(notification.encrypted)
            let (id, collapseID) = (notification.id.hashValue, notification.collapseID.hashValue)
            let now = MonotonicTime.now
            var seen = state.seen[envelope] ?? Seen(id: id, collapseID: collapseID, first: now, last: now)
            seen.times += 1
            seen.last = now
            // Google and push servers assign a new id to each message; Apple's is chosen by the node.
            let isOfNode = [.apnsProduction, .apnsDevelopment].contains(notification.platform)
            if isOfNode, seen.id != id { state.secondIDs += 1 }
            if seen.collapseID != collapseID { state.otherCollapseIDs += 1 }
            state.seen[envelope] = seen
            if notification.deviceToken == state.watchedDeviceToken { state.deliveriesToWatched += 1 }
        }
    }

    /// Notes that the answer to a delivery has been sent.
    func answered(_ notification: ReceivedNotification) {
        state.withLock { state in
            let now = MonotonicTime.now
            state.answers.append((now, Self.name(notification.encrypted)))
            if state.answers.count > 4096, let first = state.answers.first, now - first.at > Self.answerDelay {
                state.answers.removeAll { now - $0.at > Self.answerDelay }
            }
        }
    }

    /// Notes that the answer to a delivery may not have reached the node.
    func unanswered(_ notification: ReceivedNotification) {
        state.withLock { $0.seen[Self.name(notification.encrypted)]?.unanswered += 1 }
    }

    /// Excuses one repeat of an envelope, because two nodes that did not know of each other had it.
    /// - Returns: whether the envelope had a repeat that nothing else explains.
    func excuse(_ envelope: Int) -> Bool {
        state.withLock { state in
            guard let seen = state.seen[envelope], seen.unexplained > 0 else { return false }
            state.seen[envelope]?.unanswered += 1
            return true
        }
    }

    /// Whether this envelope has been delivered more than once.
    func isRepeated(_ envelope: Int) -> Bool { state.withLock { ($0.seen[envelope]?.times ?? 0) > 1 } }

    /// Notes that a node was killed between these two times. It may have lost answers that were sent within the second
    /// before, and cannot have received those sent meanwhile.
    func answersLost(after first: MonotonicTime, before last: MonotonicTime) {
        state.withLock { state in
            for (at, envelope) in state.answers where at + Self.answerDelay >= first && at <= last {
                state.seen[envelope]?.unanswered += 1
            }
        }
    }

    /// Whether a phone has received this envelope.
    func has(_ envelope: Int) -> Bool { state.withLock { $0.seen[envelope] != nil } }

    /// Begins to count the deliveries to this device token.
    func watch(_ deviceToken: String) { state.withLock { $0.watchedDeviceToken = deviceToken } }

    /// The number of notifications for the device token of ``watch(_:)``.
    var deliveriesToWatched: Int { state.withLock { $0.deliveriesToWatched } }

    /// Sums over all envelopes.
    struct Sums {
        /// Deliveries beyond the first of an envelope.
        var repeats = 0
        /// Repeats of a delivery whose answer had reached the node.
        var unexplained = 0
        /// Repeats with another apns-id than the first delivery.
        var otherIDs = 0
        /// Repeats with another collapse id than the first delivery.
        var otherCollapseIDs = 0
    }

    /// The times of the first and the last delivery of some envelopes that were repeated without need.
    func unexplained(atMost count: Int) -> [ClosedRange<MonotonicTime>] {
        state.withLock { $0.seen.values.lazy.filter { $0.unexplained > 0 }.prefix(count).map { $0.first...$0.last } }
    }

    /// The current sums.
    var sums: Sums {
        state.withLock { state in
            var sums = Sums(otherIDs: state.secondIDs, otherCollapseIDs: state.otherCollapseIDs)
            for seen in state.seen.values {
                sums.repeats += Int(seen.times) - 1
                sums.unexplained += seen.unexplained
            }
            return sums
        }
    }
}
