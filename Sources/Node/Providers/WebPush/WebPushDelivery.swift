// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Settings
import TNP

/// `[app.web]`: the app on phones and in browsers with Web Push.
package struct WebPushDelivery: AppDelivery {
    /// The push servers that the node delivers to.
    package let policy: PushServerPolicy
    /// Whom the push servers may contact: a `mailto:` or `https:` URI.
    package let contact: String
    /// The text before the first `|` of notifications for Android phones, for an app without `[app.fcm]`.
    package let messageMagic: String
    /// What phones show for notifications that are not encrypted for Web Push.
    package let notice: String
    /// The file of the node's key for VAPID; `nil` for one in the state directory.
    package let keyFile: String?
    /// Additional certificate authorities.
    package let trustFile: String?
    /// Whether all push servers are reached through tor.
    package let usesTor: Bool

    package static let table = "web"
    package static let requiredKeys = "contact = \"mailto:x@example.org\""

    package static func reader(
        _ root: TableReader
    ) -> (_ app: AppIdentity, _ table: TableReader) throws -> WebPushDelivery? {
        { _, parent in
            let table = parent.table(
                Self.table,
                "The app on phones without Google's services (UnifiedPush) and in browsers: Web Push; see web-push.md. The node sends requests to servers that its senders name: keep `servers` as short as you can."
            )
            return table.exists ? try WebPushDelivery(table) : nil
        }
    }

    package var platforms: [Magic] { [.web] }
    package var maximumConnections: Int { WebPushProvider.maximumConnections }
    package var needsTor: Bool { usesTor || policy.servers.contains { $0.includesOnions } }
    package var ownKeyFiles: [String] { [keyFile].compactMap(\.self) }
    package func makeOwnKeyFiles() {
        for file in ownKeyFiles { _ = try? VAPIDKey(readingOrCreating: file, subject: contact) }
    }
    package var otherFiles: [String] { [trustFile].compactMap(\.self) }

    /// Desktops without Web Push pair such phones as Android phones (PROTOCOL §15).
    package func messageMagic(on platform: Magic) -> String? { platform == .android ? messageMagic : nil }

    /// The file of the node's key for VAPID.
    /// - Parameter state: the state directory.
    package func keyFile(in state: String) -> String { keyFile ?? "\(state)/vapid.pem" }

    // MARK: Reading

    private init(_ table: TableReader) throws {
        let contact = try table.requiredString(
            "contact", expected: "a mailto: or https: address",
            "Whom push servers may contact about this node, like `mailto:operator@example.org`: each of them sees it")
        guard contact.hasPrefix("mailto:") || contact.hasPrefix("https://"),
            contact.allSatisfy({ $0 > " " && $0.isASCII })
        else { throw table.problem("contact", "must begin with mailto: or https://") }
        guard Self.isContact(contact) else {
            throw table.problem(
                "contact",
                "must have a public domain, as in mailto:operator@example.org, without < and >: Apple refuses others")
        }
        let names = try table.strings(
            "servers", expected: "a name", isRequired: false,
            "Push servers: a name, a name with `*.` in front for all servers under it, `*.onion`, or `any`. Names must lead to public addresses. If not set: \(Self.usualPushServers.joined(separator: ", "))"
        )
        func patterns(_ key: String, _ names: [String]) throws -> [PushServerPolicy.Pattern] {
            try names.map { name in
                guard let pattern = PushServerPolicy.Pattern(name) else {
                    throw table.problem(key, "\(name) is neither a lower-case name, nor *.NAME, nor any")
                }
                return pattern
            }
        }
        let servers = try patterns("servers", names ?? Self.usualPushServers)
        let withQuery = try table.strings(
            "query_servers", expected: "a name", isRequired: false,
            "Those of the push servers whose endpoints need a query, written as in `servers`. Elsewhere the node takes no query but `up=1`, because with others some servers send mail in the node's name. If not set: \(Self.usualQueryServers.joined(separator: ", "))"
        )
        let queryServers = try patterns("query_servers", withQuery ?? Self.usualQueryServers)
        let ports = table.ports("ports", default: [443], "Ports of these servers")
        let local =
            try table.strings(
                "local_servers", expected: "a name and port", isRequired: false,
                "Push servers of your own, like `ntfy.lan:443`, whose names may lead to private addresses") ?? []
        for server in local {
            guard case .tcp(let host, let port)? = Endpoint(server), server == "\(host):\(port)",
                PushEndpoint.isServerName(host)
            else { throw table.problem("local_servers", "\(server) is not a lower-case name with a port") }
        }
        let policy = PushServerPolicy(
            servers: servers, ports: Set(ports), localServers: Set(local), queryServers: queryServers)
        guard policy.namedOrigins.count <= PushServerPolicy.maximumNamedOrigins else {
            throw table.problem(
                "servers",
                "names \(policy.namedOrigins.count) servers with their ports, at most "
                    + "\(PushServerPolicy.maximumNamedOrigins): write *.NAME for several of one domain")
        }
        let notice = table.string(
            "notice", default: "Open the desktop app",
            "What phones show that were paired as `android|…` with a push endpoint: their notifications have no content. The push server can read it. 1 to 200 bytes"
        )
        guard (1...200).contains(notice.utf8.count) else { throw table.problem("notice", "must have 1 to 200 bytes") }
        self.policy = policy
        self.contact = contact
        self.notice = notice
        messageMagic = table.messageMagic(
            default: "BisqMessageAndroid",
            "For an app without `[app.fcm]`: the text before the first `|` of what desktops send to Android phones by HTTP"
        )
        keyFile = table.file(
            "key_file",
            "Key by which push servers recognise the node (VAPID, RFC 8292): P-256 in PEM form, mode 600, made if the file does not exist. If not set: `vapid.pem` in `node.state`. All nodes of a cluster need the same"
        )
        trustFile = table.file(
            "trust_file", "Additional certificate authorities, in PEM form, for servers of your own")
        usesTor = table.boolean(
            "tor", default: false, "Reach all push servers through tor; onion services are always reached through it")
    }

    /// Whether Apple accepts a contact as the `sub` of VAPID: it answers BadJwtToken for other forms, such as an
    /// address in < > or at localhost.
    private static func isContact(_ text: String) -> Bool {
        let rest = text.hasPrefix("mailto:") ? text.dropFirst("mailto:".count) : text.dropFirst("https://".count)
        let domain: Substring
        if text.hasPrefix("mailto:") {
            let parts = rest.split(separator: "@", omittingEmptySubsequences: false)
            guard parts.count == 2, !parts[0].isEmpty else { return false }
            domain = parts[1]
        } else {
            domain = rest.prefix { $0 != "/" && $0 != ":" }
        }
        let labels = domain.split(separator: ".", omittingEmptySubsequences: false)
        return labels.count > 1
            && labels.allSatisfy { !$0.isEmpty && $0.allSatisfy { $0.isASCIILetterOrDigit || $0 == "-" } }
            && labels.last != "local" && labels.last != "localhost"
    }

    /// Those of ``usualPushServers`` whose endpoints have a query: Windows' (WNS).
    private static let usualQueryServers = ["*.notify.windows.com"]

    /// The push servers of the usual browsers, and that of ntfy.
    private static let usualPushServers = [
        "fcm.googleapis.com", "updates.push.services.mozilla.com", "web.push.apple.com", "*.notify.windows.com",
        "ntfy.sh",
    ]

    // MARK: Assembly

    package func providers(
        for app: AppIdentity, on platforms: [Magic], in workshop: inout ProviderWorkshop
    ) throws -> [(Magic, ProviderWorkshop.Part)] {
        let path = "\(app.path).web"
        let surroundings = workshop.surroundings
        var ingredients = Ingredients()
        // Sorted, because sets have no order.
        ingredients.add(
            "\(policy.servers) \(policy.ports.sorted()) \(policy.localServers.sorted()) \(policy.queryServers)")
        ingredients.add("\(contact) \(notice) \(usesTor) \(String(describing: surroundings.outboundProxy))")
        let keyFile = keyFile(in: surroundings.state)
        let key: VAPIDKey
        do {
            // Makes a missing file before its version is noted: afterwards it would count as changed.
            if FileVersion(of: keyFile) == nil { _ = try VAPIDKey(readingOrCreating: keyFile, subject: contact) }
            workshop.note(keyFile)
            key = try VAPIDKey(readingOrCreating: keyFile, subject: contact, copies: surroundings.copies)
        } catch {
            throw workshop.problem("\(path).key_file", "\(error)")
        }
        ingredients.add(key.publicKey)
        let authorities = try workshop.authorities(in: trustFile, key: "\(path).trust_file", &ingredients)
        let socks = needsTor ? try workshop.socksPort(for: path, usesTor ? "tor" : "servers") : nil
        ingredients.add("\(String(describing: socks))")
        let tls: WebPushProvider.TLS
        do {
            tls = try WebPushProvider.TLS(authorities: authorities)
        } catch let error as TLSContext.SetupError {
            throw workshop.problem("\(path).trust_file", error.description)
        }
        let proxy = usesTor ? socks.map { Proxy.socks5($0, nil) } : surroundings.outboundProxy
        let provider = WebPushProvider(
            key, policy: policy, notice: notice, tls: tls, proxies: PushServerRoute.Proxies(proxy: proxy, socks: socks),
            on: workshop.loop)
        return [(.web, ProviderWorkshop.Part(provider: provider, fingerprint: ingredients.fingerprint))]
    }
}

extension PushService {
    static let webPush = PushService("web", hasLanePerServer: true)
}
