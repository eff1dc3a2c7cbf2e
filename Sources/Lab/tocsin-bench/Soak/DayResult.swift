// SPDX-License-Identifier: Apache-2.0

import Console
import Time

/// What happens to the node and its surroundings in a run of `tocsin-bench day`.
enum DayEvent: String, CaseIterable {
    case reload = "reloads of the node"
    case torKill = "kills of its tor"
    case restartOfPushService = "restarts of a push service"
    case restart = "restarts of the node"
    case kill = "kills of the node"

    private static let pause = Duration.seconds(300)
    private static let counts = 8...40

    /// The events for a run of this duration, at even intervals. The node restarts after an eighth of the run, and is
    /// killed after a quarter.
    static func plan(for duration: Duration) -> [DayEvent] {
        let count = min(max(Int(duration / pause), counts.lowerBound), counts.upperBound)
        return (1..<count).map { number in
            switch number {
            case count / 8: .restart
            case count / 4: .kill
            default: [.reload, .torKill, .restartOfPushService][number % 3]
            }
        }
    }
}

/// The result of a run.
struct DayResult {
    var duration = Duration.zero
    var submitted = 0
    var resubmitted = 0
    var wrongOutcomes = 0
    var notSeen = 0
    var sums = Tally.Sums()
    var events: [DayEvent: Int] = [:]
    /// The node's anonymous memory in kilobytes. The unit of time of this and the other trends is an hour.
    var memory = Trend()
    var descriptors = Trend()
    /// The median latency in milliseconds of envelopes that bypass tor, whose circuits differ by 40 ms in a network of
    /// five relays.
    var latency = Trend()
    var latencyThroughTor = Trend()
    var memoryOfTor = Trend()

    /// A little longer than the default `limits.replay_window`, for which the node's memory grows.
    static let settlingTime = Duration.seconds(720)
    /// The shortest run that has enough samples for slopes.
    static let shortest = Duration.seconds(1200)

    /// When the trends begin to count, in hours: the node was killed and started again after a quarter of the run.
    private var settled: Double {
        max(duration * 3 / 8, duration / 4 + Self.settlingTime).milliseconds / 3_600_000
    }

    private static let maximumMemory = (kilobytes: 512.0, share: 0.05)
    private static let maximumDescriptors = 2.0
    private static let maximumLatency = 0.1

    /// The requirements that the node did not meet, as text.
    var violations: [String] {
        var broken: [String] = []
        if notSeen > 0 { broken.append("\(notSeen) envelopes were lost") }
        if wrongOutcomes > 0 { broken.append("\(wrongOutcomes) envelopes were rejected") }
        if sums.otherIDs + sums.otherCollapseIDs > 0 { broken.append("repeats had another apns-id or collapse id") }
        if sums.unexplained > 0 { broken.append("\(sums.unexplained) notifications were repeated without need") }
        let (memory, descriptors, latency) = (
            memory.suffix(from: settled), descriptors.suffix(from: settled), latency.suffix(from: settled)
        )
        if memory.growth > max(Self.maximumMemory.kilobytes, memory.median * Self.maximumMemory.share) {
            broken.append("the node's memory grows")
        }
        if descriptors.growth > Self.maximumDescriptors { broken.append("the number of descriptors grows") }
        if latency.growth > latency.median * Self.maximumLatency { broken.append("the latency grows") }
        return broken
    }

    var table: String {
        let happened = DayEvent.allCases.map { "\(events[$0] ?? 0) \($0.rawValue)" }.joined(separator: ", ")
        func row(_ name: String, _ trend: Trend, _ unit: String, digits: Int = 0) -> String {
            let trend = trend.suffix(from: settled)
            let figures = [trend.median, trend.slope, trend.growth].map { Terminal.number($0, digits: digits) }
            return Terminal.padded(name, 38)
                + "median \(figures[0]) \(unit), slope \(figures[1]) an hour, last third - first third \(figures[2])"
        }
        return """
            envelopes                             \(submitted) in \(duration.components.seconds) s
            on the way                            \(happened)
            lost                                  \(notSeen)
            rejected                              \(wrongOutcomes)
            resubmitted by the sender             \(resubmitted)
            repeated, no answer received          \(sums.repeats - sums.unexplained)
            repeated without need                 \(sums.unexplained)
            \(row("node's anonymous memory", memory, "kB"))
            \(row("its tor's", memoryOfTor, "kB"))
            \(row("node's descriptors", descriptors, ""))
            \(row("latency of the node", latency, "ms", digits: 2))
            \(row("latency through tor", latencyThroughTor, "ms", digits: 1))
            """
    }
}
