// SPDX-License-Identifier: Apache-2.0

/// The most recent alarms. A repeated alarm is counted and keeps its latest details.
struct RecentAlarms: Sendable {
    /// Maximum number of alarms. A further one replaces the alarm that has not occurred for the longest time, and
    /// advice about settings only if there is nothing else.
    static let maximumAlarms = 50
    /// Maximum length of a text in characters; the rest is cut off.
    static let maximumTextLength = 600

    private struct Entry {
        var key: String
        var alarm: NodeSnapshot.Alarm
    }

    /// Latest first.
    private var entries: [Entry] = []

    /// The alarms, latest first.
    var alarms: [NodeSnapshot.Alarm] { entries.map(\.alarm) }

    /// Records an alarm.
    /// - Parameters:
    ///   - details: the metadata. Alarms that differ only in numeric values count as the same alarm.
    ///   - isSetUp: whether it is advice about settings.
    ///   - now: Unix time in seconds.
    mutating func record(
        _ level: String, _ text: String, details: [(name: String, value: String)] = [], isSetUp: Bool = false,
        at now: Int64
    ) {
        let constant = details.filter { Double($0.value) == nil }
        let key = Self.text(text, constant)
        let old = entries.firstIndex { $0.key == key }
        let count = old.map { entries.remove(at: $0).alarm.count } ?? 0
        let alarm = NodeSnapshot.Alarm(
            time: now, level: level, text: Self.text(text, details), count: count + 1, isSetUp: isSetUp)
        entries.insert(Entry(key: key, alarm: alarm), at: 0)
        guard entries.count > Self.maximumAlarms else { return }
        // The new alarm must show, also if all others are advice.
        let others = entries.dropFirst()
        entries.remove(at: others.lastIndex { !$0.alarm.isSetUp } ?? others.endIndex - 1)
    }

    mutating func forgetAdvice() { entries.removeAll(where: \.alarm.isSetUp) }

    private static func text(_ text: String, _ details: [(name: String, value: String)]) -> String {
        let list = details.map { "\($0.name): \($0.value)" }.joined(separator: ", ")
        let whole = list.isEmpty ? text : "\(text) (\(list))"
        return whole.count > maximumTextLength ? whole.prefix(maximumTextLength) + "…" : whole
    }
}
