// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import NodeConfiguration
import Settings
import Tor

/// The state of the node's onion service, according to its files.
enum OnionState: Equatable {
    /// The service exists. It is open if it requires no client authorisation.
    case present(OnionAddress, isOpen: Bool)
    /// tor has not created the service yet.
    case missing
    /// The files cannot be read, for this reason.
    case unreadable(String)

    /// Reads the files of the onion service.
    init(_ settings: TorSettings) {
        do throws(OnionFileError) {
            guard let address = try OnionKeys.address(in: settings.serviceDirectory) else {
                self = .missing
                return
            }
            let clients = try AuthorizedClients(serviceDirectory: settings.serviceDirectory).list()
            self = .present(address, isOpen: !clients.contains { $0.isValid })
        } catch {
            self = .unreadable("\(error)")
        }
    }
}

extension NodeCheck {
    /// The timeout for a connection through tor, which fetches a descriptor and builds two circuits.
    private static let onionTimeout = Duration.seconds(60)

    /// The TNP address at which a sender on this machine reaches the node, with the proxy to use. That is `listen.tnp`, or
    /// the onion through tor if the node expects circuit ids; `nil` if the onion address is unknown.
    package nonisolated func senderEndpoint(through tor: Endpoint) -> (node: Endpoint, proxy: Endpoint?)? {
        guard configuration.listen.circuitIDs else { return (configuration.listen.tnp, nil) }
        let settings = configuration.tor.settings(state: configuration.state)
        guard case .present(let address, _) = OnionState(settings), let port = settings.tnpPorts.first else {
            return nil
        }
        return (.tcp(host: "\(address)", port: port), tor)
    }

    /// Connects to the node through tor and its onion, as senders do.
    /// - Parameters:
    ///   - tor: the SOCKS port of a tor.
    ///   - isWanted: whether the operator named that port. If not, it is a guess, and a missing tor is only a warning.
    package func onion(through tor: Endpoint, isWanted: Bool) async -> [Finding] {
        var settings = configuration.tor.settings(state: configuration.state)
        var findings = await onion(settings, through: tor, isWanted: isWanted)
        for onion in settings.onions where settings.isManaged {
            settings.selected = onion.name
            findings += await self.onion(settings, through: tor, isWanted: isWanted)
        }
        settings.selected = nil
        return findings + (await onionBalance(settings, through: tor, isWanted: isWanted))
    }

    /// Connects to the node, or another of its cluster, by the address of their OnionBalance.
    private func onionBalance(_ settings: TorSettings, through tor: Endpoint, isWanted: Bool) async -> [Finding] {
        guard let address = settings.onionBalance, let port = settings.tnpPorts.first else { return [] }
        if case .present(_, isOpen: false) = OnionState(settings) {
            return [
                Finding(
                    .onion, "\(address)", .failed,
                    "OnionBalance cannot lead to an onion that only authorised clients can use: revoke all clients, or"
                        + " remove tor.onionbalance and give clients the list of all nodes")
            ]
        }
        return [
            await reach(
                .tcp(host: "\(address)", port: port), through: tor, isOpen: true, isWanted: isWanted,
                remedy: "check that onionbalance runs, and lists the addresses of all nodes")
        ]
    }

    private func onion(_ settings: TorSettings, through tor: Endpoint, isWanted: Bool) async -> [Finding] {
        guard settings.isManaged || settings.externalServiceDirectory != nil else {
            return isWanted
                ? [
                    Finding(
                        .onion, "onion", .failed,
                        "address unknown: set tor.onion_directory to the directory of the onion service")
                ] : []
        }
        switch OnionState(settings) {
        case .missing:
            return [
                Finding(
                    .onion, "onion", .warning, "does not exist yet: tor creates it when it first starts with the node")
            ]
        case .unreadable(let reason): return [Finding(.onion, "onion", .warning, "not tested: \(reason)")]
        case .present(let address, let isOpen):
            guard state.lock != .free else {
                return [Finding(.onion, "\(address)", .warning, "not tested: the node is not running")]
            }
            let ports = settings.onions.first { $0.name == settings.selected }?.ports
            guard let port = settings.tnpPorts.first(where: { ports?.contains($0) ?? true }) else { return [] }
            show("connecting to the node through tor; this may take a minute …")
            return [
                await reach(
                    .tcp(host: "\(address)", port: port), through: tor, isOpen: isOpen, isWanted: isWanted,
                    remedy:
                        "check that the descriptor is published (tocsin onion show), and the messages about tor in the"
                        + " node's log")
            ]
        }
    }

    private func reach(
        _ onion: Endpoint, through tor: Endpoint, isOpen: Bool, isWanted: Bool, remedy: String
    ) async -> Finding {
        // Random credentials make tor build new circuits and fetch the descriptor again instead of using its caches.
        let label = SOCKS5.Credentials(user: "tocsin-check", password: "\(UInt64.random(in: 0...UInt64.max))")
        do {
            _ = try await NodeHandshake.exchange(
                with: onion, through: .socks5(tor, label), on: loop, timeout: Self.onionTimeout)
            return Finding(.onion, "\(onion)", .ok, "the node answers through tor")
        } catch StreamError.proxyUnreachable(_, let reason) {
            return Finding(
                .onion, "\(onion)", isWanted ? .failed : .warning,
                "not tested: no tor at \(tor) (\(reason)). Give the SOCKS port of a tor with --tor HOST:PORT (apt install"
                    + " tor provides one at 127.0.0.1:9050)")
        } catch {
            guard isOpen else {
                return Finding(
                    .onion, "\(onion)", .warning,
                    "no answer, as expected: only authorised clients can connect. Test it from one with tocsin send"
                        + " --onion-key")
            }
            return Finding(
                .onion, "\(onion)", .failed,
                "cannot be reached through tor (\(error)): \(remedy)")
        }
    }
}
