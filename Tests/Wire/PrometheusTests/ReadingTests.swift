// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Prometheus

@Suite(.tags(.computing)) struct ReadingTests {
    private let registry = PrometheusRegistry([
        MetricFamily("sent_total", .counter, help: "Sent.", labels: ["app", "outcome"], maximumSeries: 9),
        MetricFamily("open", .gauge, help: "Open."),
        MetricFamily(
            "wait_seconds", .histogram(buckets: [1, 2]), help: "Waiting.", labels: ["stage"], maximumSeries: 2),
    ])

    init() {
        for (app, outcome, amount) in [("a", "ok", 1), ("a", "lost", 2), ("b", "ok", 4)] {
            registry.counter(.named("sent_total", in: registry), [app, outcome])
                .increment(by: amount)
        }
        for (stage, seconds) in [("one", 1), ("two", 2), ("two", 2), ("two", 9)] {
            registry.histogram(.named("wait_seconds", in: registry), [stage]).record(.seconds(seconds))
        }
    }

    @Test func `reading a value requires all labels of its series`() {
        #expect(registry.value("sent_total", labels: ["outcome": "lost", "app": "a"]) == 2)
        #expect(registry.value("sent_total", labels: ["app": "a"]) == nil)
        #expect(registry.value("sent_total", labels: ["app": "b", "outcome": "lost"]) == nil)
        #expect(registry.value("open") == nil)
        #expect(registry.value("wait_seconds", labels: ["stage": "one"]) == nil)
        #expect(registry.value("nothing") == nil)
    }

    @Test func `a sum adds the series that have the given labels`() {
        #expect(registry.sum("sent_total") == 7)
        #expect(registry.sum("sent_total", where: ["outcome": "ok"]) == 5)
        #expect(registry.sum("sent_total", where: ["app": "a", "outcome": "ok"]) == 1)
        #expect(registry.sum("sent_total", where: ["app": "c"]) == 0)
        #expect(registry.sum("sent_total", where: ["colour": "red"]) == 0)
        #expect(registry.sum("nothing") == 0)
    }

    @Test func `sums are grouped by a label`() {
        #expect(registry.sums("sent_total", by: "app") == ["a": 3, "b": 4])
        #expect(registry.sums("sent_total", by: "outcome", where: ["app": "a"]) == ["ok": 1, "lost": 2])
        #expect(registry.sums("sent_total", by: "colour").isEmpty)
        #expect(registry.sums("nothing", by: "app").isEmpty)
    }

    @Test func `a histogram merges the series that have the given labels`() throws {
        let all = try #require(registry.snapshot("wait_seconds"))
        #expect(all.counts == [1, 2, 1])
        #expect(all.sum == 14)
        let one = try #require(registry.snapshot("wait_seconds", where: ["stage": "two"]))
        #expect(one.counts == [0, 2, 1])
        #expect(registry.snapshot("wait_seconds", where: ["stage": "three"]) == nil)
        #expect(registry.snapshot("sent_total") == nil)
        #expect(registry.quantile(0.5, of: "wait_seconds") == 1.5)
        #expect(registry.quantile(0.5, of: "wait_seconds", where: ["stage": "one"]) == 0.5)
        #expect(registry.quantile(0.5, of: "nothing") == nil)
    }
}
