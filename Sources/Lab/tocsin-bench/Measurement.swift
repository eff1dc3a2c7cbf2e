// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials

/// The result of one run of a load. Processes pass it on as one line of JSON.
struct Measurement: Codable {
    var requests: Int
    var seconds: Double
    /// Latencies in microseconds, here and in ``p99``.
    var p50: Double
    var p99: Double
    var failures = 0
    /// The usage of the process that generated the load.
    var load = ProcessUsage()
    /// The usage of the other measured processes, in the order in which the caller named them.
    var others: [ProcessUsage] = []

    var json: String {
        (try? JSONEncoder().encode(self)).map { String(decoding: $0, as: UTF8.self) } ?? "{}"
    }
}
