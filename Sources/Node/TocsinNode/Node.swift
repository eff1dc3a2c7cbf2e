// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Cryptography
import EventLoop
import Ingress
import KeyHolder
import Logging
import NodeConfiguration
import Settings
import Store
import Tor

/// The node: listens for senders, delivers what they submit, and stops without losing what it has accepted. It keeps
/// itself alive from its start until it has stopped.
package actor Node {
    /// The life cycle. A node runs once.
    private enum State {
        case initial
        /// Starting or serving; `NodeParts.isServing` tells which.
        case running(NodeParts)
        /// Answering what it has accepted.
        case stopping(NodeParts)
        case stopped
    }

    private nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let configuration: Configuration
    private let logger: Logger
    private let isolation: ProcessIsolation?
    private let keyHolder: KeyHolder?
    private let disk: any Disk
    private let whenReachable: (@Sendable (OnionAddress) -> Void)?
    private var state = State.initial
    private var secondTimer: Timer?

    /// Creates a node that does not run yet.
    /// - Parameters:
    ///   - isolation: what protects this process, if it serves this node alone.
    ///   - keyHolder: has the keys; `nil` if the node reads them itself.
    ///   - disk: where the stores are.
    ///   - loop: the loop that everything runs on.
    ///   - whenReachable: called each time the node's own tor has published the onion.
    package init(
        _ configuration: Configuration, isolation: ProcessIsolation? = nil, keyHolder: KeyHolder? = nil,
        disk: any Disk = SystemDisk(), logger: Logger, on loop: EventLoop,
        whenReachable: (@Sendable (OnionAddress) -> Void)? = nil
    ) {
        self.configuration = configuration
        self.isolation = isolation
        self.keyHolder = keyHolder
        self.disk = disk
        self.logger = logger
        self.loop = loop
        self.whenReachable = whenReachable
    }

    private var parts: NodeParts? {
        switch state {
        case .running(let parts), .stopping(let parts): parts
        case .initial, .stopped: nil
        }
    }

    /// Whether the node accepts connections.
    package var isServing: Bool {
        if case .running(let parts) = state { parts.isServing } else { false }
    }

    /// The address of the HTTP endpoint, while the node runs and has one.
    package var httpEndpoint: Endpoint? { parts?.endpoints.http }

    /// The number of senders' connections, including those about to close.
    package var connectionCount: Int { parts?.connections.count ?? 0 }

    /// The number of senders' connections that have received HELLO or a whole request.
    var identifiedConnectionCount: Int { parts?.connections.registry.identifiedCount ?? 0 }

    /// What the tables hold, and the bounds from which their memory follows (Docs/admission.md, Memory).
    package var tables: [(name: String, entries: Int, bound: Int)] { parts?.tables ?? [] }

    /// The effort of the proof of work that senders must pay at the moment, for all device tokens and for unproven
    /// ones, in expected hashes; `nil` while the node does not run.
    package var efforts: (all: UInt32, unproven: UInt32)? { parts?.efforts }

    /// The state that the admin port shows; `nil` while the node does not run.
    var snapshot: NodeSnapshot? { parts?.snapshot() }

    /// The metrics in the Prometheus text format; `nil` while the node does not run.
    var metricsText: [UInt8]? { parts?.metricsText() }

    /// The state of the node's own tor; `nil` if there is none.
    var torStatus: TorStatus? { parts?.onions.status }

    // MARK: Life cycle

    /// Reads the credentials, opens the stores and starts to listen. Leaves nothing behind if it throws. Call it once:
    /// a node that failed to start, or has stopped, cannot start again.
    /// - Returns: the address of the TNP endpoint.
    /// - Throws: `ConfigurationError`, ``PortError``, `StoreError`, or `PrivateFileError` if the key of the cluster
    ///   cannot be read or written in the state directory.
    package func start() async throws -> Endpoint {
        guard case .initial = state else { preconditionFailure("a node starts once") }
        loop.keep(self)
        do {
            let directory = try await StateDirectory(configuration, logger: logger, on: loop)
            let parts = try NodeParts(
                configuration, isolation: isolation, keyHolder: keyHolder, in: directory, disk: disk, logger: logger,
                on: loop,
                whenReachable: whenReachable)
            state = .running(parts)
            let endpoint = try await parts.start { [weak self] status in
                self?.assumeIsolated { $0.parts?.torChanged(to: status) }
            }
            scheduleSecond()
            return endpoint
        } catch {
            await parts?.close()
            state = .stopped
            loop.letGo(of: self)
            throw error
        }
    }

    /// Tests whether ``start()`` would succeed, without listening: reads the credentials, opens the stores, tests the
    /// addresses, and closes everything. Call it in place of ``start()``.
    /// - Throws: as ``start()``.
    package func rehearse() async throws {
        let directory = try await StateDirectory(configuration, logger: logger, on: loop)
        let parts = try NodeParts(
            configuration, isolation: isolation, keyHolder: keyHolder, in: directory, disk: disk, logger: logger,
            on: loop, whenReachable: nil
        )
        do {
            try parts.rehearse()
        } catch {
            await parts.close()
            throw error
        }
        await parts.close()
    }

    /// Reads the configuration and the credentials again, without losing an envelope. If they are invalid, the node
    /// logs the error and keeps the old ones.
    package func reload() {
        guard case .running(let parts) = state, parts.isServing else { return }
        parts.reload()
    }

    /// Stops: refuses new work and answers everything it has accepted, for at most `limits.shutdown_timeout`, then
    /// closes the remaining connections. Envelopes in the spool stay there.
    /// - Returns: whether everything was answered.
    package func stop() async -> Bool {
        guard case .running(let parts) = state else { return true }
        state = .stopping(parts)
        secondTimer = nil
        let isComplete = await parts.stop()
        state = .stopped
        loop.letGo(of: self)
        return isComplete
    }

    // MARK: Once a second

    private func scheduleSecond() {
        secondTimer = Timer(on: loop, after: .seconds(1)) { [unowned self] in assumeIsolated { $0.secondPassed() } }
    }

    private func secondPassed() {
        guard case .running(let parts) = state else { return }
        parts.secondPassed()
        Task { await saveStanding() }
        scheduleSecond()
    }

    private func saveStanding() async {
        guard let parts else { return }
        await parts.standing.saveChanges(of: parts.intakeState)
    }
}
