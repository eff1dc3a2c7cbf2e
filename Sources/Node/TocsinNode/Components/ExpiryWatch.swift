// SPDX-License-Identifier: Apache-2.0

import NodeConfiguration
import Providers
import Time

/// Shows when APNs certificates expire, and warns before that.
final class ExpiryWatch: NodeComponent {
    private let providers: ProviderSet
    private let metrics: NodeMetrics
    private let log: EventLog

    init(_ providers: ProviderSet, metrics: NodeMetrics, log: EventLog) {
        self.providers = providers
        self.metrics = metrics
        self.log = log
    }

    func secondPassed() {
        for certificate in providers.certificates {
            metrics.show(expiry: certificate.notAfter, of: certificate.app, kind: "APNs certificate")
        }
        for (certificate, nearness) in providers.expiryWarnings(at: UnixTime.now) {
            log.expiry(of: certificate, nearness)
        }
    }

    func configurationChanged(to configuration: Configuration) { secondPassed() }
}
