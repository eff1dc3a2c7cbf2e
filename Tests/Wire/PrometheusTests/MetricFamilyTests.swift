// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Prometheus

@Suite(.tags(.computing)) struct MetricFamilyTests {
    @Test(arguments: [
        MetricFamily("", .gauge, help: ""), MetricFamily("1a", .gauge, help: ""), MetricFamily("a-b", .gauge, help: ""),
        MetricFamily("a b", .gauge, help: ""), MetricFamily("é", .gauge, help: ""),
        MetricFamily("a\n", .gauge, help: ""), MetricFamily("a", .counter, help: ""),
        MetricFamily("a_total", .gauge, help: ""), MetricFamily("a", .gauge, help: "", maximumSeries: 0),
        MetricFamily("a", .gauge, help: "", labels: [""]), MetricFamily("a", .gauge, help: "", labels: ["x:y"]),
        MetricFamily("a", .gauge, help: "", labels: ["__x"]), MetricFamily("a", .gauge, help: "", labels: ["x", "x"]),
        MetricFamily("a", .histogram(buckets: []), help: ""),
        MetricFamily("a", .histogram(buckets: [-1, 1]), help: ""),
        MetricFamily("a", .histogram(buckets: [1, 1]), help: ""),
        MetricFamily("a", .histogram(buckets: [2, 1]), help: ""),
        MetricFamily("a", .histogram(buckets: [1, .infinity]), help: ""),
        MetricFamily("a", .histogram(buckets: [.nan]), help: ""),
        MetricFamily("a", .histogram(buckets: [1]), help: "", labels: ["le"]),
    ])
    func `an invalid metric family has a flaw`(family: MetricFamily) {
        #expect(family.flaw != nil)
    }

    @Test(arguments: [
        MetricFamily("job:a_total", .counter, help: "", labels: ["le", "_x9"], maximumSeries: 2),
        MetricFamily("_A9_info", .gauge, help: ""),
        MetricFamily("a_seconds", .histogram(buckets: [0, 0.1, 7]), help: ""),
    ])
    func `a valid metric family has no flaw`(family: MetricFamily) {
        #expect(family.flaw == nil)
    }

    @Test func `two families must not write the same name`() {
        let histogram = MetricFamily("a", .histogram(buckets: [1]), help: "")
        for name in ["a", "a_bucket", "a_sum", "a_count"] {
            #expect(MetricFamily.flaw(in: [histogram, MetricFamily(name, .gauge, help: "")]) != nil)
            #expect(MetricFamily.flaw(in: [MetricFamily(name, .gauge, help: ""), histogram]) != nil)
        }
        #expect(MetricFamily.flaw(in: [histogram, MetricFamily("a_max", .gauge, help: "")]) == nil)
        #expect(MetricFamily.flaw(in: [histogram, MetricFamily("", .gauge, help: "")]) != nil)
    }

    @Test func `a registry traps on a duplicate name`() async {
        await #expect(processExitsWith: .failure) {
            _ = PrometheusRegistry([MetricFamily("tocsin_metrics_dropped_total", .counter, help: "Taken.")])
        }
    }
}
