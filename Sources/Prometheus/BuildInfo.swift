// SPDX-License-Identifier: Apache-2.0

/// Which build is running: a gauge that is always 1, with the version as its label.
package enum BuildInfo {
    /// For the catalogue.
    package static let family = MetricFamily(
        "tocsin_build_info", .gauge, help: "The version that is running; always 1.", labels: ["version"])

    /// - Parameters:
    ///   - version: as `tocsin --version` prints it.
    ///   - registry: its catalogue has ``family``.
    package static func show(_ version: String, in registry: PrometheusRegistry) {
        registry.collect(family.name, labels: ["version": version]) { 1 }
    }
}
