// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials
import Glibc
import Histogram
import Time

/// The result of one run of a load. Processes pass it on as one line of JSON.
struct Measurement: Codable {
    var requests: Int
    var seconds: Double
    /// CPU seconds of the process under test.
    var cpuSeconds: Double
    /// Peak resident memory of the process under test in kilobytes.
    var peakKilobytes: Int
    /// In microseconds, as `p99`; `nil` if not measured.
    var p50: Double?
    var p99: Double?
    var failures = 0

    var rate: Double { Double(requests) / seconds }
    var cpuPer100000: Double { cpuSeconds * 100_000 / Double(requests) }

    var json: String {
        (try? JSONEncoder().encode(self)).map { String(decoding: $0, as: UTF8.self) } ?? "{}"
    }

    /// CPU seconds and peak memory of this process so far.
    static func ofThisProcess() -> (cpuSeconds: Double, peakKilobytes: Int) {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        return (usage.cpuSeconds, usage.ru_maxrss)
    }
}

extension rusage {
    var cpuSeconds: Double { ru_utime.seconds + ru_stime.seconds }
}

extension timeval {
    fileprivate var seconds: Double { Double(tv_sec) + Double(tv_usec) / 1_000_000 }
}

/// A histogram of latencies in microseconds, with three significant digits.
struct Latencies {
    private var histogram = Histogram<UInt64>(
        highestTrackableValue: 120_000_000, numberOfSignificantValueDigits: .three)

    mutating func record(_ duration: Duration) { histogram.record(UInt64(max(duration.milliseconds * 1000, 1))) }
    mutating func record(microseconds: UInt64) { histogram.record(max(microseconds, 1)) }
    var p50: Double { Double(histogram.valueAtPercentile(50)) }
    var p99: Double { Double(histogram.valueAtPercentile(99)) }
}
