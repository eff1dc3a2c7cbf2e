// SPDX-License-Identifier: Apache-2.0

import EventLoop
import FoundationEssentials
import Glibc
import Time
import Tor

/// The installed tor on the public Tor network, in a separate process and directory: one onion service that lives as
/// long as this process, and a client to reach it. Requires internet access and can take minutes to start.
package actor PublicTor {
    private nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private static let timeout = Duration.seconds(300)
    private let ports = PortReservations()
    private var node: TorNode?

    /// Creates a tor that is not started yet.
    package init(on loop: EventLoop) { self.loop = loop }

    /// Starts tor in `directory`, which must not exist, and waits until the onion service is published.
    /// - Parameters: as for ``PrivateTorNetwork/start(target:virtualPort:serviceOptions:progress:)``.
    /// - Throws: ``TorError``.
    package func start(
        in directory: String, target: Endpoint, virtualPort: UInt16, serviceOptions: [String] = [],
        progress: @Sendable (String) -> Void = { _ in }
    ) async throws -> PrivateTorNetwork.Access {
        let port = try ports.reserve()
        let node = try TorNode(
            name: "tor", directory: directory, network: .everyones,
            lines: [
                "SocksPort 127.0.0.1:\(port) ExtendedErrors", "HiddenServiceDir \(directory)/onion",
                "HiddenServicePort \(virtualPort) \(target)",
            ] + serviceOptions)
        self.node = node
        do {
            try node.start()
            progress("connecting to the Tor network and publishing the onion service (this can take minutes)")
            let onion = try await node.waitUntilPublished(until: .now + Self.timeout, on: loop)
            return PrivateTorNetwork.Access(
                onion: .tcp(host: onion, port: virtualPort), socks: .tcp(host: "127.0.0.1", port: port))
        } catch {
            await stop()
            throw error
        }
    }

    /// Stops tor; its directory remains.
    package func stop() async {
        guard let node else { return }
        self.node = nil
        let ending = PrivateTorNetwork.Ending(node: node)
        await ending.node.stop()
        ending.node.close()
    }
}
