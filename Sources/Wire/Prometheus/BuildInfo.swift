// SPDX-License-Identifier: Apache-2.0

/// A gauge that is always 1, with the running version as its label.
package enum BuildInfo {
    /// The gauge's entry in the catalogue.
    package static let family = MetricFamily(
        "tocsin_build_info", .gauge, help: "The running version; always 1.", labels: ["version"])

    /// Registers the gauge.
    /// - Parameters:
    ///   - version: the version as `tocsin --version` prints it.
    ///   - registry: a registry whose catalogue contains ``family``.
    package static func register(_ version: String, in registry: PrometheusRegistry) {
        registry.registerCallback(family, [version]) { 1 }
    }
}
