// SPDX-License-Identifier: Apache-2.0

import Admission
import Cluster
import Cryptography
import Delivery
import EventLoop
import Glibc
import NodeConfiguration
import Providers

/// What the node shares with the other nodes of its cluster, and the engine that holds it.
final class SharedState: NodeComponent {
    let engine: Engine
    /// Decides together with the other nodes.
    let ledger: ClusterLedger
    /// Tells the other nodes the outcomes of envelopes, and which bindings have ended.
    let outcomes: ClusterOutcomes
    /// Exchanges handles with the other nodes.
    let handles: ClusterHandles
    private let tokens: ClusterTokens

    /// - Parameter tokens: Apple's provider tokens in use.
    init(
        _ settings: EngineSettings, _ configuration: Configuration, _ shared: IntakeState, for dispatch: Dispatch,
        on loop: EventLoop, metrics: NodeMetrics, log: EventLog, tokens: @escaping () -> [Digest256: APNsProviderToken]
    ) {
        let file = "\(configuration.state)/\(Self.sessionFile)"
        engine = Engine(
            settings, version: Version.current, formerSession: Self.formerSession(in: file), on: loop)
        Self.remember(engine.session, in: file)
        let outbox = EngineOutbox(engine)
        outcomes = ClusterOutcomes(
            engine, outbox, shared, window: .seconds(configuration.limits.replayWindow))
        ledger = ClusterLedger(engine, outbox, for: dispatch, shared, outcomes, metrics: metrics, on: loop)
        handles = ClusterHandles(engine, outbox, state: configuration.state) { shared.settings }
        ledger.spool.report = { [log] in log.adopted($0) }
        self.tokens = ClusterTokens(engine, on: loop, tokens: tokens)
        engine.report = { [log, unowned self] event in
            log.record(event)
            switch event {
            case .available:
                ledger.engineChanged(isAvailable: true)
                self.tokens.engineReturned()
                handles.engineReturned()
            case .unavailable: ledger.engineChanged(isAvailable: false)
            case .slow, .fast, .lostState, .sameName: break
            }
        }
        engine.renewed = { [unowned dispatch] end, isNew in dispatch.renewClaims(until: end, isNew: isNew) }
    }

    // MARK: The session of the node's next process

    private static let sessionFile = "cluster.session"

    /// The session of an earlier process; `nil` if the file has none. That process has ended, because this one has the
    /// lock of the state directory.
    private static func formerSession(in file: String) -> String? {
        guard let bytes = try? RegularFile.read(file, atMost: 64, access: .owner) else { return nil }
        let text = String(decoding: bytes, as: UTF8.self)
        return text.allSatisfy(\.isHexDigit) && !text.isEmpty ? text : nil
    }

    /// Saves the session for the next process, which ends it. Without the file, other nodes wait until it expires.
    private static func remember(_ session: String, in file: String) {
        try? PrivateFile.replace(file, holding: Array(session.utf8), isDurable: true)
    }

    /// Connects to the engine, and takes over the provider tokens of the other nodes. Returns within seconds, also
    /// without the engine.
    func start(isolation: isolated (any Actor)? = #isolation) async {
        await engine.start()
        await tokens.start()
    }

    func secondPassed() {
        tokens.secondPassed()
        ledger.secondPassed()
    }

    /// Sends the engine the outcomes that it lacks, and ends the connection.
    func close(isolation: isolated (any Actor)?) async {
        ledger.engineChanged(isAvailable: engine.status.isAvailable)
        await engine.stop()
    }
}
