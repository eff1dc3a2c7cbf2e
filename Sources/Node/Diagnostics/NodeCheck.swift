// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Glibc
import NodeConfiguration
import Providers
import Settings
import Time

/// The checks of `tocsin check`. The only file they change is the provider token for Apple in the state directory, which
/// the node uses, too.
package actor NodeCheck {
    nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    let configuration: Configuration
    private let searchPath: String?
    private let progress: @Sendable (String) -> Void
    let state: StateCheck

    /// Prepares the checks of a configuration.
    /// - Parameters:
    ///   - configuration: after a call of ``Configuration/decideTor(path:)``.
    ///   - searchPath: the environment's `PATH`.
    ///   - loop: runs all network operations.
    ///   - progress: receives a description of each check that may take some time.
    package init(
        _ configuration: Configuration, searchPath: String?, on loop: EventLoop,
        progress: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        self.configuration = configuration
        self.searchPath = searchPath
        self.loop = loop
        self.progress = progress
        state = StateCheck(lookingAt: configuration.state)
    }

    func show(_ text: String) { progress(text) }

    // MARK: Without the network

    /// Runs the checks that need no network.
    package func offline() async -> [Finding] {
        var findings = settings()
        findings += state.findings + state.databases(spool: configuration.spool?.file)
        findings += credentials()
        findings.append(ClockCheck.local(now: UnixTime.now, isSynchronised: KernelClock.isSynchronised))
        if let disk = DiskCheck(lookingAt: configuration.state, spool: configuration.spool) {
            findings.append(disk.finding)
        }
        findings += limits()
        progress("asking tor for its version …")
        findings += await TorCheck.run(configuration, path: searchPath).findings
        findings += ports()
        return findings
    }

    private func settings() -> [Finding] {
        let names = configuration.apps.map(\.name).joined(separator: ", ")
        var findings = [Finding(.configuration, configuration.file, .ok, "valid; apps: \(names)")]
        func warn(_ key: String, _ text: String) { findings.append(Finding(.configuration, key, .warning, text)) }
        for (key, text) in HTTPEndpointAdvice.texts(for: configuration) { warn(key, text) }
        if !configuration.listen.circuitIDs {
            warn(
                "listen.circuit_ids",
                "is off, so limits apply to connections instead of circuits: turn it on together with"
                    + " HiddenServiceExportCircuitID haproxy in torrc")
        }
        return findings
    }

    private func credentials() -> [Finding] {
        let machine = CheckedMachine(state: configuration.state, nodeUser: state.nodeUser, now: UnixTime.now)
        var findings: [Finding] = []
        var earlier: [(app: AppIdentity, delivery: any AppDelivery)] = []
        for app in configuration.apps {
            for delivery in app.deliveries { findings += delivery.findings(for: app.identity, after: earlier, machine) }
            earlier += app.deliveries.map { (app.identity, $0) }
        }
        return findings
    }

    private func limits() -> [Finding] {
        var node: Int32?
        if case .held(let pid) = state.lock { node = pid }
        return LimitCheck.read(node: node)?.findings(
            connections: configuration.limits.connections, others: configuration.reservedDescriptors) ?? []
    }

    private func ports() -> [Finding] {
        var findings: [Finding] = []
        for (key, endpoint) in configuration.listen.endpoints {
            let obstacle = configuration.listen.obstacle(to: endpoint)
            findings.append(PortCheck(key: key, endpoint: endpoint, obstacle: obstacle, lock: state.lock).finding)
        }
        return findings
    }
}
