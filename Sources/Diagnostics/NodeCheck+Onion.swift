// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP
import Tor

/// What is known of the node's onion.
enum OnionState: Equatable {
    /// Its address, and whether it is open to everybody who knows it.
    case there(OnionAddress, isOpen: Bool)
    /// tor has not made it yet.
    case none
    /// Its files cannot be read, for this reason.
    case hidden(String)

    init(_ settings: TorSettings) {
        do throws(OnionFileError) {
            guard let keys = try OnionKeys.present(in: settings.serviceDirectory) else {
                self = .none
                return
            }
            let clients = try AuthorizedClients(serviceDirectory: settings.serviceDirectory).list()
            self = .there(keys.address, isOpen: !clients.contains { $0.isValid })
        } catch {
            self = .hidden("\(error)")
        }
    }
}

extension NodeCheck {
    /// For a way through tor: two circuits and a descriptor.
    private static let onionPatience = Duration.seconds(60)

    /// Where a sender on this machine reaches the node: where it listens, or through tor where it wants to know the
    /// circuits; nil where the onion is not known.
    package nonisolated func httpEndpointForSenders(through tor: Endpoint) -> (node: Endpoint, proxy: Endpoint?)? {
        guard configuration.listen.circuitIDs else { return (configuration.listen.tnp, nil) }
        let settings = configuration.tor.settings(state: configuration.state)
        guard case .there(let address, _) = OnionState(settings), let port = settings.tnpPorts.first else { return nil }
        return (.tcp(host: "\(address)", port: port), tor)
    }

    /// Reaches the node from outside, through tor and its onion.
    /// - Parameters:
    ///   - tor: a SOCKS port.
    ///   - isWanted: whether that port was named; else it is a guess, and nothing is wrong where no tor is there.
    package func onion(through tor: Endpoint, isWanted: Bool) async -> [Finding] {
        let settings = configuration.tor.settings(state: configuration.state)
        guard settings.isManaged || settings.foreignServiceDirectory != nil else {
            return isWanted
                ? [Finding(.onion, "onion", .failed, "not known: name its directory in tor.onion_directory")] : []
        }
        switch OnionState(settings) {
        case .none:
            return [Finding(.onion, "onion", .warning, "not there yet: tocsin run makes it when it first starts tor")]
        case .hidden(let reason): return [Finding(.onion, "onion", .warning, "not tried: \(reason)")]
        case .there(let address, let isOpen):
            guard state.lock != .free else {
                return [Finding(.onion, "\(address)", .warning, "not tried: the node does not run (tocsin run)")]
            }
            guard let port = settings.tnpPorts.first else { return [] }
            show("reaching the node through tor; that may take a minute …")
            return [
                await reach(.tcp(host: "\(address)", port: port), through: tor, isOpen: isOpen, isWanted: isWanted)
            ]
        }
    }

    private func reach(_ onion: Endpoint, through tor: Endpoint, isOpen: Bool, isWanted: Bool) async -> Finding {
        // Circuits of its own: what another use of this tor has found out is no proof.
        let label = SOCKS5.Credentials(user: "tocsin-check", password: "\(UInt64.random(in: 0...UInt64.max))")
        do {
            _ = try await NodeWelcome.exchange(
                with: onion, through: .socks5(tor, label), on: loop, timeout: Self.onionPatience)
            return Finding(.onion, "\(onion)", .ok, "the node answers through tor")
        } catch StreamError.system(let reason) {
            return Finding(
                .onion, "\(onion)", isWanted ? .failed : .warning,
                "not tried: no tor at \(tor) (\(reason)). Name the SOCKS port of one: --tor HOST:PORT (apt install tor"
                    + " gives one at 127.0.0.1:9050)")
        } catch {
            guard isOpen else {
                return Finding(
                    .onion, "\(onion)", .warning,
                    "no answer, as is right: it is open to authorised clients only. Try it from one: tocsin send"
                        + " --onion-key")
            }
            return Finding(
                .onion, "\(onion)", .failed,
                "cannot be reached through tor (\(error)): is the descriptor published (tocsin onion show), and what does"
                    + " the node's log say of tor?")
        }
    }
}
