// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

@testable import Prometheus

/// Checks the exposition with `promtool check metrics`, which parses it and looks for bad names.
@Suite(.tags(.computing)) struct PromtoolTests {
    private static let promtool = "/usr/bin/promtool"

    /// The output of promtool and whether it succeeded; `nil`, with a printed notice, if promtool is not installed.
    private func check(_ text: [UInt8]) throws -> (isAccepted: Bool, output: String)? {
        guard FileManager.default.isExecutableFile(atPath: Self.promtool) else {
            print(
                "SKIPPED: promtool is not installed; no metrics were checked by it (Debian's package prometheus has it)"
            )
            return nil
        }
        let file = FileManager.default.temporaryDirectory.appending(path: "tocsin-metrics-\(UUID().uuidString)")
        try Data(text).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let process = Process()
        let pipe = Pipe()
        process.executableURL = URL(filePath: Self.promtool)
        process.arguments = ["check", "metrics"]
        process.standardInput = try FileHandle(forReadingFrom: file)
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        let output = try pipe.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return (process.terminationStatus == 0, String(decoding: output, as: UTF8.self))
    }

    @Test(.timeLimit(.minutes(1)))
    func `promtool accepts the exposition without remarks`() throws {
        let registry = PrometheusRegistry(
            ProcessCollector.families + [
                BuildInfo.family,
                MetricFamily(
                    "tocsin_sent_total", .counter, help: "A \\ \"and\"\nB.", labels: ["app"], maximumSeries: 9),
                MetricFamily(
                    "tocsin_temperature_celsius", .gauge, help: "Any number.", labels: ["at"], maximumSeries: 9),
                MetricFamily(
                    "tocsin_wait_seconds", .histogram(buckets: [1e-05, 0.005, 0.1, 1, 30]), help: "Waiting.",
                    labels: ["stage", "app"], maximumSeries: 9),
                MetricFamily("tocsin_never_total", .counter, help: "Has no series."),
            ])
        ProcessCollector.register(in: registry)
        BuildInfo.register("1.0.0-beta+4 \"x\"", in: registry)
        for app in ["", "a", "\\", "\"", "\n", "{}", "🔔", "é"] {
            registry.counter(.named("tocsin_sent_total", in: registry), [app]).increment()
            let timer = registry.histogram(.named("tocsin_wait_seconds", in: registry), [app, "queue"])
            for exponent in 0..<18 {
                timer.record(.nanoseconds(Int64(repeatElement(10, count: exponent).reduce(1, *))))
            }
        }
        for number: Double in [0, -1, 0.1, 1e300, .leastNonzeroMagnitude, .infinity, -.infinity, .nan] {
            registry.gauge(.named("tocsin_temperature_celsius", in: registry), ["\(number)"]).set(number)
        }
        let text = registry.expose()
        guard let result = try check(text) else { return }
        #expect(result.isAccepted, "\(result.output)")
        #expect(result.output.isEmpty)
        // promtool does detect errors.
        let twice = try #require(try check(text + text))
        #expect(!twice.isAccepted)
    }
}
