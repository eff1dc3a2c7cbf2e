// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Delivery
import NodeConfiguration
import Providers
import TNP
import Time

/// Probes the push services of routes without traffic, with requests that ring no phone: so the operator hears of a
/// wrong key before the first user does.
final class RouteProbes: NodeComponent, AttemptReceiver {
    private let providers: ProviderSet
    private var configuration: Configuration
    private let metrics: NodeMetrics
    private let log: EventLog
    private let started = MonotonicTime.now
    private var inFlight: [UInt64: (route: Route, provider: ObjectIdentifier)] = [:]
    private var lastNumber: UInt64 = 0

    init(_ providers: ProviderSet, _ configuration: Configuration, metrics: NodeMetrics, log: EventLog) {
        self.providers = providers
        self.configuration = configuration
        self.metrics = metrics
        self.log = log
    }

    func configurationChanged(to configuration: Configuration) { self.configuration = configuration }

    func secondPassed() {
        let now = UnixTime.now
        guard MonotonicTime.now - started >= ProbeSchedule.grace else { return }
        let probed = Set(inFlight.values.map(\.route))
        // At most one each second: a node has up to 252 routes.
        for (route, provider) in providers.providers
        where provider.upstreamKeys == nil && !probed.contains(route)
            && ProbeSchedule.isDue(metrics.record(of: route), at: now)
        {
            let format = configuration.apps.first { $0.name == route.app }?.format
            guard let format, let envelope = try? ProbeEnvelope.make(route.magic, format: format) else { continue }
            lastNumber += 1
            inFlight[lastNumber] = (route, ObjectIdentifier(provider))
            return provider.attempt(envelope, expiry: .nowOrNever, number: lastNumber, for: self)
        }
    }

    func attempted(_ number: UInt64, _ result: AttemptResult) {
        guard let (route, provider) = inFlight.removeValue(forKey: number),
            // Ignores the answer if a reload has replaced or removed the provider meanwhile.
            providers.providers[route].map(ObjectIdentifier.init) == provider
        else { return }
        let now = UnixTime.now
        let before = metrics.record(of: route)
        let verdict = ProbeSchedule.verdict(on: result, after: before, at: now)
        metrics.probed(route, RouteRecord.Probe(time: now, verdict: verdict, answer: result.answer))
        let isNews = before.probe?.verdict != verdict || before.probe?.answer != result.answer
        log.probed(route, result, verdict, isNews: isNews)
    }
}

/// Decides when a route is probed.
enum ProbeSchedule {
    /// The time from the start to the first probe, which the first notifications may make needless.
    static let grace = Duration.seconds(10)
    /// For how many seconds after an answer, or a good probe, a route is not probed.
    private static let interval: Int64 = 3600

    /// What the answer to a probe says.
    /// - Parameter before: what the route has done before it.
    static func verdict(
        on result: AttemptResult, after before: RouteRecord, at now: Int64
    ) -> RouteRecord.Probe.Verdict {
        switch result.disposition.failureSource {
        case .none, .deviceToken: .good
        case .nodeOperator, .developer: .bad
        // One failure may be a lost connection; a second one in a row counts.
        case .provider:
            if let probe = before.probe, probe.verdict != .good, probe.time > before.lastAnswer ?? .min,
                now - probe.time <= 2 * pause(after: probe)
            {
                .bad
            } else {
                .unclear
            }
        }
    }

    /// After how many seconds a probe is repeated.
    private static func pause(after probe: RouteRecord.Probe) -> Int64 {
        switch probe.verdict {
        case .good: interval
        case .unclear: 60
        case .bad: 300
        }
    }

    /// - Parameter now: Unix time in seconds.
    static func isDue(_ record: RouteRecord, at now: Int64) -> Bool {
        func isRecent(_ time: Int64?, _ interval: Int64) -> Bool {
            // A time in the future was taken while the clock was wrong.
            time.map { (now - $0).magnitude < interval } ?? false
        }
        // An open circuit breaker probes its route itself.
        guard record.shut == nil, !isRecent(record.lastAnswer, interval) else { return false }
        return record.probe.map { !isRecent($0.time, pause(after: $0)) } ?? true
    }
}
