// SPDX-License-Identifier: Apache-2.0

import Logging
import StandIns
import Synchronization
import TNP
import TestSupport
import Testing

@testable import AdminPort
@testable import TocsinNode

@Suite(.tags(.computing)) struct BucketRingTests {
    @Test func `what is written is read again, and nothing else`() {
        var ring = BucketRing(width: 60, count: 3)
        for time in [0, 61, 119, 120] as [Int64] {
            ring.add(NodeSnapshot.Bucket(start: 0, delivered: 1, rejected: 2, retry: 3, gone: 4), at: time)
        }
        #expect(ring.rows(at: 130) == [[0, 1, 2, 3, 4], [60, 2, 4, 6, 8], [120, 1, 2, 3, 4]])
        // What is older than the last interval is not written.
        #expect(ring.rows(at: 180) == [[60, 2, 4, 6, 8], [120, 1, 2, 3, 4]] && ring.rows(at: 1000).isEmpty)
        var read = BucketRing(width: 60, count: 3)
        read.restore(ring.rows(at: 130))
        #expect(read.rows(at: 130) == ring.rows(at: 130) && read.buckets(at: 130) == ring.buckets(at: 130))
        // It goes on where it was.
        read.add(NodeSnapshot.Bucket(start: 0, delivered: 1), at: 130)
        #expect(read.buckets(at: 130).last?.delivered == 2)

        var damaged = BucketRing(width: 60, count: 3)
        damaged.restore([[], [0], [0, -1, 0, 0, 0], [.max, 1, 1, 1, 1], [.min, 1, 1, 1, 1], [0, .max, 1, 1, 1]])
        #expect(damaged.rows(at: 0).isEmpty)
        damaged.restore(Array(repeating: [0, 1 << 40, 1 << 40, 1 << 40, 1 << 40], count: 1000))
        #expect(damaged.rows(at: 0).count == 1)
    }
}

@Suite(.tags(.computing)) struct HistoryTests {
    /// 14:03 UTC.
    private let now: Int64 = 1_790_000_000 / 86_400 * 86_400 + 14 * 3600 + 3 * 60

    private func total(_ bucket: NodeSnapshot.Bucket) -> Int {
        bucket.delivered + bucket.rejected + bucket.retry + bucket.gone
    }

    @Test func `each outcome counts once in its minute and in its ten minutes`() throws {
        var history = History()
        for (kind, count) in [(Outcome.Kind.delivered, 4), (.rejected, 3), (.retry, 2), (.gone, 1), (.queued, 9)] {
            for _ in 0..<count { history.count(kind, at: now + 59) }
        }
        let minute = NodeSnapshot.Bucket(start: now, delivered: 4, rejected: 3, retry: 2, gone: 1)
        #expect(history.hour(at: now + 59).last == minute)
        #expect(history.hour(at: now + 60).dropLast().last == minute)
        var interval = minute
        interval.start = now - 180
        #expect(history.day(at: now + 59).last == interval)
    }

    @Test func `an hour has 60 intervals and a day 144, oldest first`() {
        var history = History()
        for time in [now - 100_000, now - 4000, now] { history.count(.delivered, at: time) }
        for (buckets, width) in [(history.hour(at: now), Int64(60)), (history.day(at: now), 600)] {
            #expect(buckets.count == (width == 60 ? 60 : 144))
            #expect(zip(buckets, buckets.dropFirst()).allSatisfy { $1.start - $0.start == width })
            #expect(buckets.last.map { $0.start <= now && now < $0.start + width } == true)
        }
        #expect(history.hour(at: now).reduce(0) { $0 + total($1) } == 1)
        #expect(history.day(at: now).reduce(0) { $0 + total($1) } == 2)
    }

    @Test func `a count expires after an hour or a day, even without new events`() {
        var history = History()
        history.count(.delivered, at: now)
        #expect(total(history.hour(at: now + 59 * 60)[0]) == 1)
        #expect(history.hour(at: now + 60 * 60).allSatisfy { total($0) == 0 })
        #expect(history.day(at: now + 86_400).allSatisfy { total($0) == 0 })
    }

    @Test func `a clock that goes back or starts before 1970 gives correct intervals`() {
        var history = History()
        history.count(.delivered, at: now)
        history.count(.gone, at: now - 3600)
        #expect(history.hour(at: now - 3600).last == NodeSnapshot.Bucket(start: now - 3600, gone: 1))
        history.count(.rejected, at: -1)
        #expect(history.hour(at: -1).last == NodeSnapshot.Bucket(start: -60, rejected: 1))
        #expect(history.day(at: -600).last?.start == -600)
    }

    @Test func `the counts equal those of a full list of events`() {
        var random = SplitMix64(seed: 6)
        var history = History()
        var times: [Int64] = []
        var time = now
        for _ in 0..<3000 {
            time += Int64.random(in: 0...90, using: &random)
            times.append(time)
            history.count(.delivered, at: time)
        }
        for bucket in history.hour(at: time) {
            #expect(bucket.delivered == times.count { bucket.start <= $0 && $0 < bucket.start + 60 })
        }
        for bucket in history.day(at: time) {
            #expect(bucket.delivered == times.count { bucket.start <= $0 && $0 < bucket.start + 600 })
        }
    }
}

@Suite(.tags(.computing)) struct RecentAlarmsTests {
    @Test func `a repeated alarm is counted and moves to the front`() {
        var list = RecentAlarms()
        list.record("warning", "one", at: 1)
        list.record("error", "two", at: 2)
        list.record("warning", "one", at: 3)
        #expect(
            list.alarms == [
                NodeSnapshot.Alarm(time: 3, level: "warning", text: "one", count: 2),
                NodeSnapshot.Alarm(time: 2, level: "error", text: "two", count: 1),
            ])
    }

    @Test func `alarms with different numbers are one, with different names two`() {
        var list = RecentAlarms()
        list.record("error", "ends", details: [("days", "3"), ("file", "a.p12")], at: 1)
        list.record("error", "ends", details: [("days", "2"), ("file", "a.p12")], at: 2)
        list.record("error", "ends", details: [("days", "2"), ("file", "b.p12")], at: 3)
        #expect(list.alarms.map(\.text) == ["ends (days: 2, file: b.p12)", "ends (days: 2, file: a.p12)"])
        #expect(list.alarms.map(\.count) == [1, 2])
    }

    @Test func `the number and length of alarms are limited`() {
        var list = RecentAlarms()
        for number in 0..<200 { list.record("warning", "alarm \(number)" + String(repeating: "é", count: 5000), at: 1) }
        #expect(list.alarms.count == RecentAlarms.maximumAlarms)
        #expect(list.alarms.first?.text.hasPrefix("alarm 199é") == true)
        #expect(
            list.alarms.allSatisfy { $0.text.count == RecentAlarms.maximumTextLength + 1 && $0.text.hasSuffix("…") })
    }

    @Test func `advice stays before alarms, but hides no new one`() {
        var list = RecentAlarms()
        list.record("warning", "old alarm", at: 1)
        for number in 0..<200 { list.record("warning", "advice \(number)", isSetUp: true, at: 2) }
        #expect(list.alarms.count == RecentAlarms.maximumAlarms)
        #expect(!list.alarms.contains { !$0.isSetUp })
        list.record("error", "new alarm", at: 3)
        #expect(list.alarms.first?.text == "new alarm" && list.alarms.count == RecentAlarms.maximumAlarms)
        list.record("error", "newer alarm", at: 4)
        #expect(list.alarms.map(\.text).filter { $0.hasSuffix("alarm") } == ["newer alarm"])
        list.forgetAdvice()
        #expect(list.alarms.map(\.text) == ["newer alarm"])
    }
}

@Suite(.tags(.computing)) struct AlarmLogHandlerTests {
    /// The lines passed on by the handler.
    private final class Lines: Sendable {
        let messages = Mutex<[String]>([])
    }

    private struct Recorder: LogHandler {
        let lines: Lines
        var logLevel: Logger.Level
        var metadata: Logger.Metadata = [:]

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) { lines.messages.withLock { $0.append("\(event.message)") } }
    }

    private func make(_ level: Logger.Level) -> (Logger, AlarmLog, Lines) {
        let (log, lines) = (AlarmLog(), Lines())
        let logger = Logger(label: "test") { _ in
            AlarmLogHandler(Recorder(lines: lines, logLevel: level), recordingTo: log)
        }
        return (logger, log, lines)
    }

    private func logSamples(_ logger: Logger) {
        logger.debug("debug")
        logger.notice("notice")
        logger.warning("warning", metadata: ["route": "bisq/iOS", "phone": "pseudonym", "count": "3"])
        logger.critical("critical")
    }

    @Test func `warnings and errors are recorded, and every line is passed on`() {
        var (logger, log, lines) = make(.debug)
        logger[metadataKey: "node"] = "a"
        logSamples(logger)
        #expect(lines.messages.withLock(\.self) == ["debug", "notice", "warning", "critical"])
        #expect(log.alarms.map(\.level) == ["critical", "warning"])
        #expect(log.alarms.map(\.text) == ["critical (node: a)", "warning (count: 3, node: a, route: bisq/iOS)"])
    }

    @Test func `an alarm omits the phone`() {
        let (logger, log, _) = make(.info)
        logSamples(logger)
        #expect(log.alarms.count == 2 && !log.alarms.contains { $0.text.contains("pseudonym") })
    }

    @Test func `warnings are recorded even if the log level hides them`() {
        var (logger, log, lines) = make(.info)
        logger.logLevel = .critical
        logSamples(logger)
        #expect(lines.messages.withLock(\.self) == ["critical"])
        #expect(log.alarms.map(\.level) == ["critical", "warning"])
    }
}
