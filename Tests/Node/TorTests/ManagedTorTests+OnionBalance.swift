// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import StandIns
import Synchronization
import TestSupport
import Testing

@testable import Tor

/// Debian's onionbalance, in a private network on loopback.
extension ManagedTorTests {
    private static let onionBalance = "/usr/sbin/onionbalance"
    private static let patience = Duration.seconds(300)

    /// Waits for a connection to the onion by new circuits, with a newly fetched descriptor.
    /// - Returns: the greeting of the target.
    private func greeting(
        by onion: OnionAddress, _ network: PrivateTorNetwork, _ access: PrivateTorNetwork.Access, on loop: EventLoop
    ) async throws -> String? {
        try await tell(network.clientControl, "SIGNAL NEWNYM", on: loop)
        return try? await send(to: onion, through: access.socks, on: loop).first
    }

    @Test(.tags(.foreign), .timeLimit(.minutes(12)))
    func `one address of an OnionBalance leads to all onions, and to the others when one is gone`() async throws {
        guard Self.hasTor, FileManager.default.isExecutableFile(atPath: Self.onionBalance) else {
            print("SKIPPED: tor or onionbalance is not installed; no onion was reached through an OnionBalance")
            return
        }
        let loop = EventLoop(name: "test")
        try await withDirectory { directory in
            // onionbalance expects its test networks to vote every 20 seconds. It never returns from its search for
            // directories if there are just as many as one replica of a descriptor needs: four.
            let network = try PrivateTorNetwork(relays: 7, votingInterval: 20, on: loop)
            let access = try await network.start(target: .unix(path: "\(directory)/none"), virtualPort: 80)
            do {
                try await balance(directory, network, access, on: loop)
            } catch {
                await network.stop()
                throw error
            }
            await network.stop()
        }
    }

    private func balance(
        _ directory: String, _ network: PrivateTorNetwork, _ access: PrivateTorNetwork.Access, on loop: EventLoop
    ) async throws {
        // The address that desktops know already, with its key from tor.
        let front = try await makeKeys(in: "\(directory)/front")
        let address = try OnionKeys(directory: front).address
        let names = ["one", "two"]
        let echoes = try await LoopDomain(loop).run { domain in
            LoopBound(
                try names.map { name in
                    try Echo(at: .unix(path: "\(directory)/\(name).target"), greeting: "\(name)\n", on: domain.loop)
                })
        }
        let lines = await network.memberTorrcLines
        var tors: [ManagedTor] = []
        var instances: [OnionAddress] = []
        for name in names {
            var settings = TorSettings(isManaged: true, directory: "\(directory)/\(name)/tor")
            settings.onionBalance = address
            let watch = Watch()
            let services = settings.services(tnp: .unix(path: "\(directory)/\(name).target"), http: nil)
            let tor = ManagedTor(settings, services: services, extra: lines, on: loop, observe: watch.note)
            tors.append(tor)
            await tor.start()
            let status = try await watch.wait(for: "the onion \(name)") { $0.isReachable }
            instances.append(try #require(status.address))
            #expect(status.problem == nil)
        }
        let list = instances.map { "  - address: \($0)\n" }.joined()
        let configuration = "services:\n- key: \(front)/hs_ed25519_secret_key\n  instances:\n\(list)"
        try Data(configuration.utf8).write(to: URL(filePath: "\(directory)/config.yaml"))
        // Not the clients' tor, which forgets its circuits again and again.
        guard case .unix(let control) = network.serviceControl else { return }
        let log = Mutex<[String]>([])
        let balancer = ChildProcess(
            Self.onionBalance, ["--is-testnet", "-v", "info", "-s", control, "-c", "\(directory)/config.yaml"]
        ) { event in
            if case .line(let line) = event { log.withLock { $0 = $0.suffix(40) + [line] } }
        }

        // onionbalance publishes 45 seconds after its start at the earliest, and only if its ten-second timer fires within
        // 20 seconds of the arrival of a descriptor.
        var seen: Set<String> = []
        var deadline = ContinuousClock.now + Self.patience
        while seen.count < names.count, .now < deadline {
            if let name = try await greeting(by: address, network, access, on: loop) { seen.insert(name) }
            try await Task.sleep(for: .seconds(1))
        }
        #expect(seen == Set(names), "\(log.withLock { $0.joined(separator: "\n") })")

        // Without the first tor, the address leads to the second as soon as onionbalance has noticed.
        await tors[0].stop()
        var successes = 0
        deadline = .now + Self.patience
        while successes < 5, .now < deadline {
            let name = try await greeting(by: address, network, access, on: loop)
            successes = name == "two" ? successes + 1 : 0
            try await Task.sleep(for: .seconds(1))
        }
        #expect(successes == 5, "\(log.withLock { $0.joined(separator: "\n") })")
        await balancer.terminate()
        await tors[1].stop()
        await LoopDomain(loop).run { _ in echoes.drop() }
    }
}
