// SPDX-License-Identifier: Apache-2.0

import CoreMetrics
import Simulator
import TestSupport
import Testing

@testable import Prometheus

@Suite struct PrometheusRegistryTests {
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
        for _ in 0..<2 { Counter(label: "sent_total", dimensions: [("app", "a")], factory: registry).increment(by: 2) }
        #expect(registry.value("sent_total", labels: ["app": "a"]) == 4)
        #expect(dropped().isEmpty)
    }

    @Test func `a counter accepts integer and fractional amounts and resets to zero`() {
        let whole = Counter(label: "sent_total", dimensions: [("app", "a")], factory: registry)
        let other = FloatingPointCounter(label: "sent_total", dimensions: [("app", "a")], factory: registry)
        whole.increment(by: 3)
        other.increment(by: 0.25)
        other.increment(by: 0.5)
        #expect(registry.value("sent_total", labels: ["app": "a"]) == 3.75)
        whole.reset()
        #expect(registry.value("sent_total", labels: ["app": "a"]) == 0)
    }

    @Test func `a meter and a gauge of one name share a series`() {
        let meter = Meter(label: "open", factory: registry)
        meter.set(7)
        meter.increment(by: 2)
        meter.decrement(by: 0.5)
        #expect(registry.value("open") == 8.5)
        Gauge(label: "open", factory: registry).record(3)
        #expect(registry.value("open") == 3)
        #expect(dropped().isEmpty)
    }

    @Test func `a timer's nanoseconds become seconds in its histogram`() throws {
        let timer = Timer(label: "wait_seconds", preferredDisplayUnit: .milliseconds, factory: registry)
        timer.recordNanoseconds(1_500_000_000)
        Recorder(label: "wait_seconds", aggregate: true, factory: registry).record(3)
        let histogram = try #require(registry.histogram("wait_seconds"))
        #expect(histogram.counts == [0, 1, 1])
        #expect(histogram.sum == 4.5)
        #expect(histogram.count == 2)
    }

    @Test func `a destroyed series is removed and frees its slot`() {
        for number in 0..<100 {
            let counter = Counter(label: "sent_total", dimensions: [("app", "\(number)")], factory: registry)
            counter.increment()
            #expect(registry.sum("sent_total") == 1)
            counter.destroy()
            // A handle of the old series may still count without effect, and cannot destroy the new series.
            counter.increment()
            let again = Counter(label: "sent_total", dimensions: [("app", "\(number)")], factory: registry)
            counter.destroy()
            #expect(registry.sums("sent_total", by: "app") == ["\(number)": 0])
            again.destroy()
        }
        Meter(label: "open", factory: registry).destroy()
        FloatingPointCounter(label: "sent_total", dimensions: [("app", "f")], factory: registry).destroy()
        Gauge(label: "open", factory: registry).destroy()
        Timer(label: "wait_seconds", factory: registry).destroy()
        #expect(registry.value("open") == nil)
        #expect(registry.histogram("wait_seconds") == nil)
        #expect(dropped().isEmpty)
    }

    // MARK: Dropped samples

    @Test func `a metric outside the catalogue is dropped and counted`() {
        Counter(label: "lost_total", factory: registry).increment()
        Meter(label: "lost", factory: registry).set(1)
        registry.registerCallback("lost") { 1 }
        #expect(dropped() == ["name": 3])
        #expect(registry.value("lost_total") == nil)
    }

    @Test func `a metric of another kind is dropped and counted`() {
        Gauge(label: "sent_total", dimensions: [("app", "a")], factory: registry).record(1)
        Counter(label: "open", factory: registry).increment()
        Timer(label: "open", factory: registry).recordNanoseconds(1)
        Meter(label: "wait_seconds", factory: registry).set(1)
        Recorder(label: "wait_seconds", aggregate: false, factory: registry).record(1)
        registry.registerCallback("wait_seconds") { 1 }
        #expect(dropped() == ["kind": 6])
        #expect(registry.sum("sent_total") == 0)
        #expect(registry.value("open") == nil)
        #expect(registry.histogram("wait_seconds") == nil)
    }

    @Test(arguments: [
        [], [("magic", "a")], [("app", "a"), ("magic", "b")], [("app", "a"), ("app", "b")],
        [("app", String(repeating: "é", count: 129))],
    ])
    func `a metric with wrong labels or an overlong value is dropped and counted`(labels: [(String, String)]) {
        Counter(label: "sent_total", dimensions: labels, factory: registry).increment()
        #expect(dropped() == ["labels": 1])
        #expect(registry.sum("sent_total") == 0)
    }

    @Test func `the number of series never exceeds the catalogue's maximum`() {
        for number in 0..<1000 {
            Counter(label: "sent_total", dimensions: [("app", "\(number)")], factory: registry).increment()
        }
        registry.registerCallback("sent_total", labels: ["app": "late"]) { 1 }
        #expect(registry.sums("sent_total", by: "app") == ["0": 1, "1": 1, "2": 1])
        #expect(dropped() == ["series": 998])
        // Existing series still count.
        Counter(label: "sent_total", dimensions: [("app", "2")], factory: registry).increment()
        #expect(registry.value("sent_total", labels: ["app": "2"]) == 2)
    }

    @Test func `negative and non-finite amounts are dropped and counted`() throws {
        Counter(label: "sent_total", dimensions: [("app", "a")], factory: registry).increment(by: -1)
        let counter = registry.makeFloatingPointCounter(label: "sent_total", dimensions: [("app", "a")])
        for amount in [-0.5, .nan, .infinity] { counter.increment(by: amount) }
        Timer(label: "wait_seconds", factory: registry).recordNanoseconds(-1)
        let recorder = Recorder(label: "wait_seconds", factory: registry)
        for value in [-1, .nan, .infinity, 0] { recorder.record(value) }
        #expect(registry.value("sent_total", labels: ["app": "a"]) == 0)
        #expect(try #require(registry.histogram("wait_seconds")).counts == [1, 0, 0])
        #expect(dropped() == ["value": 8])
    }

    // MARK: Callbacks

    @Test func `a callback is evaluated when its figure is read`() {
        let meter = Meter(label: "open", factory: registry)
        meter.set(5)
        registry.registerCallback("sent_total", labels: ["app": "a"]) { [registry] in
            registry.value("open").map { $0 * 2 }
        }
        #expect(registry.value("sent_total", labels: ["app": "a"]) == 10)
        meter.set(6)
        #expect(registry.sum("sent_total") == 12)
        #expect(String(decoding: registry.expose(), as: UTF8.self).contains("\nsent_total{app=\"a\"} 12\n"))
    }

    @Test func `a callback that returns nil is not written and replaces the stored series`() {
        Meter(label: "open", factory: registry).set(5)
        registry.registerCallback("open") { nil }
        #expect(registry.value("open") == nil)
        #expect(!String(decoding: registry.expose(), as: UTF8.self).contains("open"))
        // A sample for a series with a callback is dropped.
        Meter(label: "open", factory: registry).set(5)
        #expect(registry.value("open") == nil)
        #expect(dropped() == ["kind": 1])
    }

    // MARK: Concurrency

    @Test func `concurrent updates, creation, reads and destruction lose nothing`() async throws {
        let tasks = 16
        let rounds = 2000
        await withTaskGroup(of: Void.self) { [registry] group in
            for task in 0..<tasks {
                group.addTask {
                    var generator = SplitMix64(seed: UInt64(task))
                    let app = "\(task % 2)"
                    let held = Counter(label: "sent_total", dimensions: [("app", app)], factory: registry)
                    let timer = Timer(label: "wait_seconds", factory: registry)
                    let meter = Meter(label: "open", factory: registry)
                    for round in 0..<rounds {
                        held.increment()
                        Counter(label: "sent_total", dimensions: [("app", app)], factory: registry).increment(by: 2)
                        FloatingPointCounter(label: "sent_total", dimensions: [("app", app)], factory: registry)
                            .increment(by: 0.25)
                        timer.recordNanoseconds([500_000_000, 1_500_000_000, 2_500_000_000][round % 3])
                        meter.increment(by: 3)
                        meter.decrement(by: 1)
                        // Meanwhile a third series is created and destroyed.
                        let passing = Counter(label: "sent_total", dimensions: [("app", "passing")], factory: registry)
                        if generator.below(4) == 0 { passing.destroy() }
                        if generator.below(100) == 0 { _ = registry.expose() }
                    }
                }
            }
        }
        let each = Double(tasks / 2 * rounds) * 3.25
        #expect(registry.value("sent_total", labels: ["app": "0"]) == each)
        #expect(registry.value("sent_total", labels: ["app": "1"]) == each)
        #expect(registry.value("open") == Double(tasks * rounds * 2))
        let histogram = try #require(registry.histogram("wait_seconds"))
        let perTask = (0..<3).map { bucket in UInt64((0..<rounds).count { $0 % 3 == bucket }) }
        #expect(histogram.counts == perTask.map { $0 * UInt64(tasks) })
        #expect(histogram.sum == zip(perTask, [0.5, 1.5, 2.5]).reduce(0) { $0 + Double($1.0) * $1.1 } * Double(tasks))
        #expect(dropped().isEmpty)
    }

    @Test func `concurrent creation does not exceed the maximum number of series`() async {
        await withTaskGroup(of: Void.self) { [registry] group in
            for task in 0..<64 {
                group.addTask {
                    Counter(label: "sent_total", dimensions: [("app", "\(task)")], factory: registry).increment()
                }
            }
        }
        #expect(registry.sum("sent_total") == 3)
        #expect(dropped() == ["series": 61])
    }
}
