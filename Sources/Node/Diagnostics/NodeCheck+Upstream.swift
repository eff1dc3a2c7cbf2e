// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Glibc
import NodeConfiguration
import Providers
import Settings
import TNP
import Tor

extension NodeCheck {
    /// The timeout for a connection through tor, which fetches a descriptor and builds two circuits.
    private static let upstreamTimeout = Duration.seconds(60)

    /// Connects to the upstream nodes of all apps. Submits nothing.
    /// - Parameter tor: the SOCKS port of a tor, for a node whose own tor is not running.
    package func upstreams(through tor: Endpoint) async -> [Finding] {
        var findings: [Finding] = []
        for app in configuration.apps {
            guard let upstream = app.delivery(UpstreamDelivery.self) else { continue }
            for node in upstream.nodes {
                show("connecting to the upstream node \(node) …")
                findings.append(await checkUpstream(at: node, of: upstream, app, tor))
            }
        }
        return findings
    }

    private func checkUpstream(
        at node: Endpoint, of upstream: UpstreamDelivery, _ app: Configuration.App, _ tor: Endpoint
    ) async -> Finding {
        let proxy = upstream.isDirect ? nil : torProxy(else: tor)
        let subject = "\(app.name) \(node)"
        do {
            let welcome = try await NodeHandshake.exchange(
                with: node, through: proxy, on: loop, timeout: Self.upstreamTimeout)
            let magics = Magic.allCases.filter { app.isDeliveredUpstream($0) }
            return UpstreamCheck(
                node: node, app: app.name, nameThere: upstream.app, magics: magics, welcome: welcome
            ).finding
        } catch StreamError.proxyUnreachable(let endpoint, let reason) {
            return Finding(
                .upstream, subject, .warning,
                "not tested: no tor at \(endpoint) (\(reason)). Start the node, or give the SOCKS port of a tor with"
                    + " --tor HOST:PORT")
        } catch {
            return Finding(
                .upstream, subject, .failed,
                "\(error): check node in [app.upstream]; if it is right, ask its operator whether the upstream node is running"
            )
        }
    }

    /// The node's own tor if it is running and this user may use it, the configured proxy, or the given tor.
    private func torProxy(else tor: Endpoint) -> Proxy {
        // Random credentials make tor build new circuits instead of using its caches.
        let label = SOCKS5.Credentials(user: "tocsin-check", password: "\(UInt64.random(in: 0...UInt64.max))")
        let own = configuration.tor.settings(state: configuration.state).socksSocket
        if configuration.tor.managed == true, case .unix(let path) = own, access(path, R_OK | W_OK) == 0 {
            return .socks5(own, label)
        }
        if configuration.tor.managed != true, case .socks5(let endpoint, _)? = configuration.outboundProxy {
            return .socks5(endpoint, label)
        }
        return .socks5(tor, label)
    }
}
