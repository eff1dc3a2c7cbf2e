// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Prometheus

@Suite(.tags(.computing)) struct PrometheusRegistryTests {
    private let registry = PrometheusRegistry([
        MetricFamily("sent_total", .counter, help: "Sent.", labels: ["app"], maximumSeries: 3),
        MetricFamily("open", .gauge, help: "Open."),
        MetricFamily("wait_seconds", .histogram(buckets: [1, 2]), help: "Waiting."),
    ])

    private func dropped() -> [String: Double] {
        registry.sums("tocsin_metrics_dropped_total", by: "reason").filter { $0.value > 0 }
    }

    // MARK: Recording

    @Test func `the same label and dimensions give the same series`() {
        for _ in 0..<2 { registry.counter(.named("sent_total", in: registry), ["a"]).increment(by: 2) }
        #expect(registry.value("sent_total", labels: ["app": "a"]) == 4)
        #expect(dropped().isEmpty)
    }

    @Test func `a gauge has its latest value`() {
        registry.gauge(.named("open", in: registry)).set(8.5)
        #expect(registry.value("open") == 8.5)
        registry.gauge(.named("open", in: registry)).set(3)
        #expect(registry.value("open") == 3)
        #expect(dropped().isEmpty)
    }

    @Test func `a histogram has the durations in seconds`() throws {
        let timer = registry.histogram(.named("wait_seconds", in: registry))
        timer.record(.milliseconds(1500))
        registry.histogram(.named("wait_seconds", in: registry)).record(.seconds(3))
        let histogram = try #require(registry.snapshot("wait_seconds"))
        #expect(histogram.counts == [0, 1, 1])
        #expect(histogram.sum == 4.5)
        #expect(histogram.count == 2)
        #expect(timer.snapshot == histogram)
    }

    @Test func `a removed series frees its slot`() {
        for number in 0..<100 {
            let counter = registry.counter(.named("sent_total", in: registry), ["\(number)"])
            counter.increment()
            #expect(registry.sum("sent_total") == 1)
            registry.remove(counter)
            // A handle of the old series may still count without effect, and cannot remove the new series.
            counter.increment()
            let again = registry.counter(.named("sent_total", in: registry), ["\(number)"])
            registry.remove(counter)
            #expect(registry.sums("sent_total", by: "app") == ["\(number)": 0])
            registry.remove(again)
        }
        registry.remove(registry.gauge(.named("open", in: registry)))
        registry.remove(registry.histogram(.named("wait_seconds", in: registry)))
        #expect(registry.value("open") == nil)
        #expect(registry.snapshot("wait_seconds") == nil)
        #expect(dropped().isEmpty)
    }

    // MARK: Dropped samples

    @Test func `a metric outside the catalogue is dropped and counted`() {
        registry.counter(.named("lost_total", in: registry)).increment()
        registry.gauge(.named("lost", in: registry)).set(1)
        registry.registerCallback(.named("lost", in: registry)) { 1 }
        #expect(dropped() == ["name": 3])
        #expect(registry.value("lost_total") == nil)
    }

    @Test func `a metric of another kind is dropped and counted`() {
        registry.gauge(.named("sent_total", in: registry), ["a"]).set(1)
        registry.counter(.named("open", in: registry)).increment()
        registry.histogram(.named("open", in: registry)).record(.seconds(1))
        registry.gauge(.named("wait_seconds", in: registry)).set(1)
        registry.registerCallback(.named("wait_seconds", in: registry)) { 1 }
        #expect(dropped() == ["kind": 5])
        #expect(registry.sum("sent_total") == 0)
        #expect(registry.value("open") == nil)
        #expect(registry.snapshot("wait_seconds") == nil)
    }

    @Test(arguments: [[], ["a", "b"], [String(repeating: "é", count: 129)]])
    func `a metric with too few or many values, or an overlong one, is dropped and counted`(values: [String]) {
        registry.counter(.named("sent_total", in: registry), values).increment()
        #expect(dropped() == ["labels": 1])
        #expect(registry.sum("sent_total") == 0)
    }

    @Test func `the number of series never exceeds the catalogue's maximum`() {
        for number in 0..<1000 {
            registry.counter(.named("sent_total", in: registry), ["\(number)"]).increment()
        }
        registry.registerCallback(.named("sent_total", in: registry), ["late"]) { 1 }
        #expect(registry.sums("sent_total", by: "app") == ["0": 1, "1": 1, "2": 1])
        #expect(dropped() == ["series": 998])
        // Existing series still count.
        registry.counter(.named("sent_total", in: registry), ["2"]).increment()
        #expect(registry.value("sent_total", labels: ["app": "2"]) == 2)
    }

    @Test func `a negative amount counts as 0, and a negative duration is dropped and counted`() throws {
        registry.counter(.named("sent_total", in: registry), ["a"]).increment(by: -1)
        for duration in [Duration.seconds(-1), .nanoseconds(-1), .zero] {
            registry.histogram(.named("wait_seconds", in: registry)).record(duration)
        }
        #expect(registry.value("sent_total", labels: ["app": "a"]) == 0)
        #expect(try #require(registry.snapshot("wait_seconds")).counts == [1, 0, 0])
        #expect(dropped() == ["value": 2])
    }

    @Test func `a duration that equals a bound counts in its bucket, also beyond 64 bits of attoseconds`() {
        let bounds = [0.00001, 0.005, 0.25, 1, 18, 19, 20, 60, 86_400]
        let histogram = Histogram(bounds: bounds, invalid: Counter())
        for bound in bounds { histogram.record(.nanoseconds(Int64(bound * 1e9))) }
        #expect(histogram.snapshot.counts == Array(repeating: 1, count: bounds.count) + [0])
        histogram.record(.nanoseconds(18_000_000_001))
        #expect(histogram.snapshot.counts[5] == 2)
    }

    // MARK: Callbacks

    @Test func `a callback is evaluated when its figure is read`() {
        let gauge = registry.gauge(.named("open", in: registry))
        gauge.set(5)
        registry.registerCallback(.named("sent_total", in: registry), ["a"]) { [unowned registry] in
            registry.value("open").map { $0 * 2 }
        }
        #expect(registry.value("sent_total", labels: ["app": "a"]) == 10)
        gauge.set(6)
        #expect(registry.sum("sent_total") == 12)
        #expect(String(decoding: registry.expose(), as: UTF8.self).contains("\nsent_total{app=\"a\"} 12\n"))
    }

    @Test func `a callback that returns nil is not written`() {
        registry.registerCallback(.named("open", in: registry)) { nil }
        #expect(registry.value("open") == nil)
        #expect(!String(decoding: registry.expose(), as: UTF8.self).contains("open"))
        // A sample for a series with a callback is dropped.
        registry.gauge(.named("open", in: registry)).set(5)
        #expect(registry.value("open") == nil)
        #expect(dropped() == ["kind": 1])
    }
}
