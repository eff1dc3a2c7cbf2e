// SPDX-License-Identifier: Apache-2.0

@testable import Prometheus

extension MetricFamily {
    /// The family with this name in the registry's catalogue, or one that it does not contain.
    static func named(_ name: String, in registry: PrometheusRegistry) -> MetricFamily {
        registry.table(name)?.family ?? MetricFamily(name, .gauge, help: "Unknown.")
    }
}
