// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Glibc
import NodeConfiguration
import Providers
import Settings
import Time

extension NodeCheck {
    /// Checks the push services: name resolution, TLS and the credentials. Rings no phone.
    package func online() async -> [Finding] {
        let isNodeUser = state.kind == .directory && state.owner == geteuid()
        let desk = ProbeDesk(
            configuration.surroundings, keepsTokens: isNodeUser, on: loop, progress: { [self] in show($0) })
        var findings: [Finding] = []
        for server in servers {
            show("connecting to \(server.url.authority) …")
            let found = await look(at: server, from: desk)
            findings.append(found)
            if found.grade == .ok { desk.reachable.insert(server.url.authority) }
        }
        for app in configuration.apps {
            for delivery in app.deliveries { findings += await delivery.probe(app.identity, desk) }
        }
        var hosts: Set<String> = []
        for (host, ahead) in desk.skews where hosts.insert(host).inserted {
            findings.append(ClockCheck.comparison(with: host, ahead: ahead))
        }
        return findings
    }

    /// The servers of all deliveries, without duplicates.
    private var servers: [CheckedServer] {
        // Compares authorities and trust files: the path of the token endpoint does not matter here.
        var seen: Set<String> = []
        return configuration.apps.flatMap(\.deliveries).flatMap { $0.servers() }
            .filter { seen.insert("\($0.url.authority) \($0.trustFile ?? "")").inserted }
    }

    /// Checks a connection to a server: name resolution, TLS and HTTP/2.
    private func look(at server: CheckedServer, from desk: ProbeDesk) async -> Finding {
        let url = server.url
        func finding(_ grade: Finding.Grade, _ text: String) -> Finding {
            Finding(.network, url.authority, grade, text)
        }
        do {
            let stream = try await loop.dial(
                url.endpoint, through: configuration.outboundProxy, tls: try desk.context(trustFile: server.trustFile),
                timeout: desk.dialTimeout)
            defer { stream.close() }
            let expiry = stream.peerCertificateExpiry.map { Format.expiry($0, at: UnixTime.now) }
            let end = expiry.map { ", its certificate \($0)" } ?? ""
            return finding(.ok, "TLS and HTTP/2 work\(end)")
        } catch StreamError.unknownHost(let reason) {
            return finding(.failed, "\(reason): check the network connection and /etc/resolv.conf")
        } catch StreamError.tls(let reason) {
            return finding(
                .failed,
                "TLS: \(reason). Check that CA certificates are installed (apt install ca-certificates), that the clock is"
                    + " right, and that nothing in between intercepts TLS")
        } catch let error as StreamError {
            let proxy = configuration.outboundProxy.map { ", and that the proxy at \($0.endpoint) works" } ?? ""
            return finding(
                .failed,
                "\(error): check that the firewall allows outgoing connections to port \(url.port)\(proxy)")
        } catch {
            return finding(.failed, "\(error)")
        }
    }
}
