// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Cluster
import Cryptography
import Delivery
import KeyHolder
import Logging
import NodeConfiguration
import Providers
import Settings
import TNP
import Time
import Tor

/// Logs the events of the node; frequent ones at most once per kind and minute. Device tokens appear as pseudonyms
/// only.
final class EventLog {
    var logger: Logger {
        didSet { level = logger.logLevel }
    }
    /// The level of ``logger``, kept because asking the logger takes longer, and each attempt needs it.
    private var level: Logger.Level
    /// The certificates in use, to name an expired one as the cause of failures.
    var certificates: [ProviderWorkshop.Certificate] = []
    /// The routes that upstream nodes serve.
    var relayed: Set<Route> = []
    private var throttle = LogThrottle()
    private var pseudonyms = Pseudonyms()
    /// Whether the canary rang last time; `nil` before the first time.
    private var canaryWorks: Bool?
    private var hasSupervisor = true

    init(_ logger: Logger) {
        self.logger = logger
        level = logger.logLevel
    }

    // MARK: Keys

    /// Logs, once, that the node's processes have no supervisor.
    /// - Returns: whether it was not logged before.
    func supervisorEnded() -> Bool {
        guard hasSupervisor else { return false }
        hasSupervisor = false
        logger.error(
            "the supervisor of the node's processes has ended: restart the node. Without it, no other key holder starts, no file of keys is read again, and refused system calls are not reported"
        )
        return true
    }

    /// Logs what has happened to the key holder.
    func record(_ event: KeyHolder.Event) {
        switch event {
        case .ended(let how, let pause):
            logger.error(
                "the key holder is lost; the node uses the tokens that it has until another one starts",
                metadata: ["reason": "\(how)", "pause": "\(pause)"])
        case .restarted: logger.notice("another key holder has started")
        case .startFailed(let reason, let pause):
            logger.error(
                "no key holder can be started", metadata: ["reason": "\(reason)", "pause": "\(pause)"])
        }
    }

    // MARK: Delivery

    /// Logs what delivery reports.
    func record(_ event: DispatchEvent) {
        switch event {
        case .serving, .recovered, .unprovenTokenRefused: break
        case .breaker(let route, let state, let answer): breaker(route, state, answer)
        case .tokenRefusalSurge(let route, true):
            logger.error(
                "the push service rejects most device tokens: check the topic or the Firebase project; pairings are kept",
                metadata: ["route": "\(route)"])
        case .tokenRefusalSurge(let route, false):
            logger.notice("surge of token refusals ended", metadata: ["route": "\(route)"])
        case .spoolRefused(let reason):
            guard throttle.allows("spool", at: .now) else { return }
            logger.error("the spool failed; senders that need it get RETRY 202", metadata: ["reason": "\(reason)"])
        case .spoolShortage(let shortage?):
            logger.error(
                "the spool takes no more envelopes; senders get RETRY 202 until it has room",
                metadata: ["reason": "\(shortage.text)"])
        case .spoolShortage(nil): logger.notice("the spool takes envelopes again")
        case .spoolUnreadable(let count):
            logger.error(
                "dropped unreadable rows of the spool: was its key replaced, or is the disk damaged?",
                metadata: ["rows": .number(count)])
        }
    }

    private func breaker(_ route: Route, _ state: Breaker.State, _ answer: String) {
        // Senders choose the push servers, of which there are many: one that fails is no error of this node.
        if route.magic.service.hasLanePerServer {
            return logger.info("circuit breaker of a push server: \(state.rawValue)")
        }
        guard throttle.allows("breaker \(route) \(state)", at: .now) else { return }
        let metadata: Logger.Metadata = ["route": "\(route)", "breaker": "\(state.rawValue)", "answer": "\(answer)"]
        switch state {
        case .closed: logger.notice("circuit breaker closed: requests on this route succeed again", metadata: metadata)
        case .halfOpen: logger.info("circuit breaker half-open: probing", metadata: metadata)
        case .open:
            logger.error(
                """
                circuit breaker opened: no requests on this route until a probe succeeds; see the answer, and \
                run tocsin check --online
                """, metadata: metadata)
        }
    }

    /// Logs the answer to a probe.
    /// - Parameter isNews: whether answer or verdict differ from those of the last probe.
    func probed(_ route: Route, _ result: AttemptResult, _ verdict: RouteRecord.Probe.Verdict, isNews: Bool) {
        // Many nodes never need the development environment, and many credentials are not for it.
        let isWarning = verdict == .bad && route.magic.service.environment == .production
        var metadata: Logger.Metadata = ["route": "\(route)", "answer": "\(result.answer)"]
        metadata["detail"] = result.detail.map { "\($0)" }
        logger.log(
            level: !isNews ? .debug : isWarning ? .warning : .info,
            verdict != .bad
                ? "the push service answers a probe, which rings no phone"
                : "the push service answers a probe, which rings no phone, with an error: run tocsin check --online",
            metadata: metadata)
    }

    /// Logs an attempt that has ended.
    func record(_ attempt: EndedAttempt, _ result: AttemptResult) {
        let route = attempt.route
        let source = result.disposition.failureSource
        let (level, message) = relayed.contains(route) ? Self.upstreamLine(for: result) : Self.line(for: source)
        guard level >= self.level else { return }
        guard level <= .debug || throttle.allows("\(route) \(result.answer)", at: .now) else { return }
        var metadata: Logger.Metadata = [
            "route": "\(route)", "answer": "\(result.answer)", "outcome": "\(result.outcome.kind)",
            "phone": "\(pseudonyms.name(of: attempt.phone.bytes, at: UnixTime.now))",
        ]
        metadata["detail"] = result.detail.map { "\($0)" }
        // Apple answers no request if the certificate has expired; the TLS handshake may fail, as in an outage.
        let expired = certificates.first { $0.app == route.app && $0.notAfter <= UnixTime.now }
        if route.magic.service.mayUseCertificate, source == .provider, let expired {
            metadata["cause"] = "the certificate \(expired.file) expired on \(Format.date(expired.notAfter))"
        }
        logger.log(level: level, message, metadata: metadata)
    }

    private static func line(for source: FailureSource) -> (level: Logger.Level, message: Logger.Message) {
        switch source {
        case .none: (.debug, "accepted")
        case .deviceToken: (.info, "the push service rejects this device token")
        case .provider: (.warning, "the push service fails or is unreachable")
        case .nodeOperator: (.error, "the push service rejects this node: check its credentials, topic and clock")
        case .developer: (.error, "the push service rejects a request as malformed: please report this")
        }
    }

    private static func upstreamLine(for result: AttemptResult) -> (level: Logger.Level, message: Logger.Message) {
        switch result.disposition.failureSource {
        case .none where result.outcome.kind == .rejected: (.info, "the upstream node rejects this notification")
        case .none, .deviceToken: line(for: result.disposition.failureSource)
        case .provider:
            (
                .warning,
                """
                the upstream node did not accept the notification now; the node tries again. If this persists, run tocsin \
                check --online
                """
            )
        case .nodeOperator, .developer:
            (
                .error,
                """
                the upstream node rejects this node's notifications: check node and app in [app.upstream], and that the \
                upstream nodes form no loop (313); else ask the upstream node's operator
                """
            )
        }
    }

    // MARK: Admission

    /// Logs that a circuit has been blocked.
    func circuitBlocked() {
        guard throttle.allows("abuse", at: .now) else { return }
        logger.info("circuit blocked for abuse")
    }

    /// Logs that proof of work became required or ceased to be.
    func proofOfWork(effort: UInt32) {
        logger.notice(
            effort == 0 ? "proof of work no longer required" : "proof of work required",
            metadata: ["effort": .number(effort)])
    }

    func standingNotSaved(_ error: any Error) {
        guard throttle.allows("standing", at: .now) else { return }
        logger.error("could not save what is known about device tokens; the node retries: \(error)")
    }

    func handlesFailed(_ error: any Error) {
        guard throttle.allows("handles", at: .now) else { return }
        logger.error("could not read or write the store of handles; senders are asked to retry: \(error)")
    }

    func clockMayBeAhead(idleDays: Int64) {
        logger.warning(
            """
            no device token was used for a long time: check the clock of this machine; the node counts only part of that \
            time towards expiry
            """,
            metadata: ["days": .number(idleDays)])
    }

    // MARK: Life cycle

    /// - Parameter variables: the environment variables that replace values of the configuration.
    func listening(
        tnp: String, http: String?, directHTTP: String?, admin: String?, routes: [String], spooled: Int?,
        variables: [String]
    ) {
        var metadata: Logger.Metadata = [
            "tnp": "\(tnp)", "routes": "\(routes.joined(separator: " "))", "spool": .number(spooled ?? 0),
        ]
        metadata["http"] = http.map { "\($0)" }
        metadata["direct_http"] = directHTTP.map { "\($0)" }
        metadata["admin"] = admin.map { "\($0)" }
        metadata["environment"] = variables.isEmpty ? nil : "\(variables.joined(separator: " "))"
        logger.notice("listening", metadata: metadata)
    }

    func problem(of tor: TorProblem) {
        guard throttle.allows("tor \(tor)", at: .now) else { return }
        logger.error("\(tor)")
    }

    /// Logs what happens to the engine of the cluster.
    func record(_ event: Engine.Event) {
        switch event {
        case .available: logger.notice("the engine of the cluster can be used")
        case .unavailable(let problem):
            logger.error(
                "the engine of the cluster cannot be used: this node works alone", metadata: ["reason": "\(problem)"])
        case .slow:
            logger.warning("the engine of the cluster is slow: this node decides alone for a moment")
        case .fast: logger.notice("the engine of the cluster answers in time again")
        case .lostState: logger.error("the engine of the cluster has lost its state: was it emptied or replaced?")
        case .sameName:
            logger.error("another node of the cluster has this node's name: set cluster.node to a name of its own")
        }
    }

    /// Logs that this node has taken over stored envelopes of a node that has ended.
    func adopted(_ envelopes: Int) {
        logger.notice(
            "took over stored envelopes of a node that has ended", metadata: ["envelopes": .number(envelopes)])
    }

    /// Logs each failure of the canary, and a success after the start or after a failure.
    func canary(_ result: NodeSnapshot.Attempt) {
        defer { canaryWorks = result.isDelivered }
        if !result.isDelivered {
            logger.error(
                "the canary could not ring the operator's phone; senders are probably affected: run tocsin check --online",
                metadata: ["reason": "\(result.text)"])
        } else if canaryWorks != true {
            logger.notice("the canary has rung the operator's phone")
        }
    }

    /// Logs that the node's health has changed.
    func changed(to health: Health) {
        logger.notice("\(health.notice)")
    }

    /// Logs what became of notifications in the last minutes.
    func report(_ totals: NodeTotals, minutes: Int) {
        let counts = totals.counts
        logger.notice(
            "\(counts.isEmpty ? "no notifications in" : "notifications of") the last \(Format.count(minutes, "minute"))",
            metadata: counts.mapValues { .dictionary($0.mapValues { .number($0) }) })
    }

    func expiry(of certificate: ProviderWorkshop.Certificate, _ nearness: ExpiryWarnings.Nearness) {
        logger.log(
            level: nearness >= .day ? .error : .warning,
            nearness == .ended
                ? "APNs certificate expired, and Apple rejects connections with it: replace it, see developer.apple.com"
                : "APNs certificate expires soon: replace it, see developer.apple.com",
            metadata: ["file": "\(certificate.file)", "expires": "\(Format.date(certificate.notAfter))"])
    }
}
