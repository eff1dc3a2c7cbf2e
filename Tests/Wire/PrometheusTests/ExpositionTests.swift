// SPDX-License-Identifier: Apache-2.0

import StandIns
import TestSupport
import Testing

@testable import Prometheus

@Suite(.tags(.computing)) struct ExpositionTests {
    /// The exposition without the family that every registry has.
    private func text(_ registry: PrometheusRegistry) -> String {
        let text = String(decoding: registry.expose(), as: UTF8.self)
        return text.text(before: "# HELP tocsin_metrics_dropped_total ")
    }

    @Test func `families keep the catalogue's order, and series sort by label values`() {
        let registry = PrometheusRegistry([
            MetricFamily("b_total", .counter, help: "Second letter.", labels: ["app", "kind"], maximumSeries: 9),
            MetricFamily("a", .gauge, help: "First letter."),
            MetricFamily("c", .gauge, help: "Has no series."),
        ])
        registry.gauge(.named("a", in: registry)).set(-1.5)
        for (app, kind, amount) in [("x", "2", 3), ("x", "10", 2), ("a", "9", 1)] {
            registry.counter(.named("b_total", in: registry), [app, kind])
                .increment(by: amount)
        }
        #expect(
            text(registry) == """
                # HELP b_total Second letter.
                # TYPE b_total counter
                b_total{app="a",kind="9"} 1
                b_total{app="x",kind="10"} 2
                b_total{app="x",kind="2"} 3
                # HELP a First letter.
                # TYPE a gauge
                a -1.5

                """)
    }

    @Test func `a metric and a label are also written under the names of an earlier release`() {
        let registry = PrometheusRegistry([
            MetricFamily(
                "new_total", .counter, help: "Renamed.", labels: ["protocol", "app"], maximumSeries: 9,
                formerName: "old_total", formerLabels: ["protocol": "door"])
        ])
        registry.counter(.named("new_total", in: registry), ["tnp", "a"]).increment(by: 2)
        #expect(
            text(registry) == """
                # HELP new_total Renamed.
                # TYPE new_total counter
                new_total{protocol="tnp",door="tnp",app="a"} 2
                # HELP old_total Renamed.
                # TYPE old_total counter
                old_total{protocol="tnp",door="tnp",app="a"} 2

                """)
    }

    @Test func `a histogram is cumulative and ends with +Inf, sum and count`() {
        let registry = PrometheusRegistry([
            MetricFamily("wait_seconds", .histogram(buckets: [0.005, 0.5, 1]), help: "Waiting.", labels: ["stage"])
        ])
        let timer = registry.histogram(.named("wait_seconds", in: registry), ["queue"])
        // The second value equals a bound and belongs to the bucket below it.
        for milliseconds in [1, 5, 250, 750, 2000, 4000] { timer.record(.milliseconds(milliseconds)) }
        #expect(
            text(registry) == """
                # HELP wait_seconds Waiting.
                # TYPE wait_seconds histogram
                wait_seconds_bucket{stage="queue",le="0.005"} 2
                wait_seconds_bucket{stage="queue",le="0.5"} 3
                wait_seconds_bucket{stage="queue",le="1"} 4
                wait_seconds_bucket{stage="queue",le="+Inf"} 6
                wait_seconds_sum{stage="queue"} 7.006
                wait_seconds_count{stage="queue"} 6

                """)
    }

    @Test func `backslashes, quotes and line breaks are escaped`() {
        let registry = PrometheusRegistry([
            MetricFamily("a", .gauge, help: "One \\ two \"three\"\nfour.", labels: ["path"])
        ])
        registry.gauge(.named("a", in: registry), ["C:\\new \"é\"\r\n{x=1,y}"]).set(1)
        #expect(
            text(registry) == #"""
                # HELP a One \\ two "three"\nfour.
                # TYPE a gauge
                a{path="C:\\new \"é\"\#r\n{x=1,y}"} 1

                """#)
    }

    @Test func `the registry exposes its dropped samples from the start`() {
        let text = String(decoding: PrometheusRegistry([]).expose(), as: UTF8.self)
        #expect(
            text == """
                # HELP tocsin_metrics_dropped_total \(PrometheusRegistry.dropped.help)
                # TYPE tocsin_metrics_dropped_total counter
                tocsin_metrics_dropped_total{reason="kind"} 0
                tocsin_metrics_dropped_total{reason="labels"} 0
                tocsin_metrics_dropped_total{reason="name"} 0
                tocsin_metrics_dropped_total{reason="series"} 0
                tocsin_metrics_dropped_total{reason="value"} 0

                """)
    }

    @Test func `numbers are written in Go's format`() {
        let numbers: [(Double, String)] = [
            (0, "0"), (-0.0, "0"), (1, "1"), (-17, "-17"), (0.1, "0.1"), (1e-05, "1e-05"),
            (0.30000000000000004, "0.30000000000000004"),
            (9_007_199_254_740_991, "9007199254740991"), (1e300, "1e+300"), (.infinity, "+Inf"), (-.infinity, "-Inf"),
            (.nan, "NaN"), (-.nan, "NaN"), (.leastNonzeroMagnitude, "5e-324"),
        ]
        for (number, text) in numbers { #expect(ExpositionText.number(number) == text) }
    }

    @Test func `each written number parses back to the same value`() {
        var generator = SplitMix64(seed: 6)
        for _ in 0..<20_000 {
            let bits = Double(bitPattern: generator.next())
            let whole = Double(Int64(bitPattern: generator.next() >> UInt64(generator.below(64))))
            for number in [bits, whole, generator.unit()] where number.isFinite {
                #expect(Double(ExpositionText.number(number)) == number)
            }
        }
    }

    @Test func `counters with arbitrary label values parse back`() throws {
        var generator = SplitMix64(seed: 4)
        let characters = ["a", "\\", "\"", "\n", "\r\n", "{", "}", ",", "=", " ", "é", "\u{301}", "🔔", "\0", "n"]
        for round in 0..<200 {
            let registry = PrometheusRegistry([
                MetricFamily("a_total", .counter, help: "A.", labels: ["x", "y"], maximumSeries: 1000)
            ])
            var expected: [[String]: Double] = [:]
            for _ in 0..<generator.below(40) {
                let values = (0..<2).map { _ in
                    (0..<generator.below(4)).map { _ in characters[generator.below(characters.count)] }.joined()
                }
                let amount = generator.below(1000)
                registry.counter(.named("a_total", in: registry), values)
                    .increment(by: amount)
                expected[values, default: 0] += Double(amount)
            }
            let lines = text(registry).utf8.split(separator: UInt8(ascii: "\n")).map { String(Substring($0)) }
            var found: [[String]: Double] = [:]
            for line in lines where !line.utf8.starts(with: "#".utf8) {
                let sample = try #require(Sample(line), "round \(round)")
                #expect(sample.name == "a_total")
                #expect(sample.labels.map(\.name) == ["x", "y"])
                #expect(found.updateValue(sample.value, forKey: sample.labels.map(\.value)) == nil)
            }
            #expect(found == expected, "round \(round)")
        }
    }
}

extension String {
    /// The text before `mark`, or all of it if `mark` does not occur.
    fileprivate func text(before mark: String) -> String {
        firstRange(of: mark).map { String(self[..<$0.lowerBound]) } ?? self
    }
}

/// A line of the format, parsed by its grammar and independently of the writer.
private struct Sample {
    var name = ""
    var labels: [(name: String, value: String)] = []
    var value = 0.0

    init?(_ line: String) {
        var rest = line.unicodeScalars[...]
        func take(until ends: Set<Unicode.Scalar>) -> String {
            var taken = String.UnicodeScalarView()
            while let next = rest.first, !ends.contains(next) { taken.append(rest.removeFirst()) }
            return String(taken)
        }
        name = take(until: ["{", " "])
        if rest.popFirst() == "{" {
            repeat {
                let label = take(until: ["="])
                guard rest.popFirst() == "=", rest.popFirst() == "\"" else { return nil }
                var value = String.UnicodeScalarView()
                while let next = rest.popFirst(), next != "\"" {
                    guard next == "\\" else {
                        value.append(next)
                        continue
                    }
                    switch rest.popFirst() {
                    case "\\": value.append("\\")
                    case "\"": value.append("\"")
                    case "n": value.append("\n")
                    default: return nil
                    }
                }
                labels.append((label, String(value)))
            } while rest.popFirst() == ","
            guard rest.popFirst() == " " else { return nil }
        }
        guard let value = Double(String(rest)) else { return nil }
        self.value = value
    }
}
