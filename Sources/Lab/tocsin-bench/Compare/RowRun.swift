// SPDX-License-Identifier: Apache-2.0

/// One run of a row.
struct RowRun {
    /// A process that took part in the run, or several that do the same work.
    struct Part {
        let name: String
        let usage: ProcessUsage
    }

    let requests: Int
    let seconds: Double
    /// Latencies in microseconds, here and in ``p99``.
    let p50: Double
    let p99: Double
    /// All parts whose usage is known; the load generator is the first.
    let parts: [Part]
    /// The usage of the part under test.
    let tested: ProcessUsage

    /// - Parameters:
    ///   - load: the name of the load generator.
    ///   - others: the names of the other processes, in the order of `measurement.others`.
    ///   - tested: the name of the part under test.
    init(_ measurement: Measurement, load: String, others: [String], tested: String) {
        requests = measurement.requests
        seconds = measurement.seconds
        (p50, p99) = (measurement.p50, measurement.p99)
        let parts =
            [Part(name: load, usage: measurement.load)]
            + zip(others, measurement.others).map { Part(name: $0, usage: $1) }
        self.parts = parts
        self.tested = parts.first { $0.name == tested }?.usage ?? ProcessUsage()
    }

    /// Requests per second.
    var rate: Double { Double(requests) / seconds }
    /// CPU seconds of the part under test per 100,000 requests.
    var cpuPer100000: Double { cpuPer100000(of: tested) }
    /// Peak memory of the part under test.
    var peakMegabytes: Double { Double(tested.peakKilobytes) / 1024 }

    /// CPU seconds of a part per 100,000 requests.
    func cpuPer100000(of usage: ProcessUsage) -> Double { usage.cpuSeconds * 100_000 / Double(requests) }

    /// CPU seconds of a part per second.
    func load(of part: Part) -> Double { part.usage.cpuSeconds / seconds }
}
