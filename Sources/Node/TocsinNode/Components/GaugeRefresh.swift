// SPDX-License-Identifier: Apache-2.0

import Cluster
import Delivery
import Providers
import Time

/// Sets, each second, the gauges that no event sets.
final class GaugeRefresh: NodeComponent {
    private let metrics: NodeMetrics
    private let dispatch: Dispatch
    private let connections: SenderConnections
    private let providers: ProviderSet
    private let cluster: SharedState?

    init(
        _ metrics: NodeMetrics, of dispatch: Dispatch, _ connections: SenderConnections, _ providers: ProviderSet,
        _ cluster: SharedState?
    ) {
        self.metrics = metrics
        self.dispatch = dispatch
        self.connections = connections
        self.providers = providers
        self.cluster = cluster
    }

    func secondPassed() {
        metrics.show(
            dispatch.statistics, connections: connections.countByProtocol,
            tokenAges: providers.tokensByApp.compactMapValues { $0.age(at: .now) })
        metrics.show(providers.upstreams)
        if let cluster { metrics.show(cluster.engine.status) }
    }
}
