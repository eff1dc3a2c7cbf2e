// SPDX-License-Identifier: Apache-2.0

import Cluster
import EventLoop

/// What the node shares with the other nodes of its cluster, and the engine that holds it.
final class SharedState {
    let engine: Engine
    private let tokens: ClusterTokens

    /// - Parameter tokens: Apple's provider tokens in use.
    init(
        _ settings: EngineSettings, on loop: EventLoop, log: EventLog, tokens: @escaping () -> ProviderAssembly.Tokens
    ) {
        engine = Engine(settings, version: Version.current, on: loop)
        self.tokens = ClusterTokens(engine, on: loop, tokens: tokens)
        engine.report = { [log, unowned self] event in
            log.record(event)
            if event == .available { self.tokens.engineReturned() }
        }
    }

    /// Connects to the engine, and takes over what the other nodes have. A node starts without the engine, too.
    func start(isolation: isolated (any Actor)? = #isolation) async {
        await engine.start()
        await tokens.start()
    }

    /// Call this once a second.
    func secondPassed() { tokens.secondPassed() }

    /// Ends the connection to the engine.
    func stop(isolation: isolated (any Actor)? = #isolation) async { await engine.stop() }
}
