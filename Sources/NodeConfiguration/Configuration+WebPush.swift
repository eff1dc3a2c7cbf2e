// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Providers
import TNP

extension Configuration {
    /// `[app.web]`
    package struct Web: Sendable, Equatable {
        /// The push servers that the node delivers to.
        package var policy: PushServerPolicy
        /// Whom the push servers may contact: a `mailto:` or `https:` URI.
        package var contact: String
        /// The text before the first `|` of notifications for Android phones, for an app without `[app.fcm]`.
        package var messageMagic: String
        /// What phones show for notifications that are not encrypted for Web Push.
        package var notice: String
        /// The file of the node's key for VAPID; `nil` for one in the state directory.
        package var keyFile: String?
        /// Additional certificate authorities.
        package var trustFile: String?
        /// Whether all push servers are reached through tor.
        package var usesTor: Bool

        /// The file of the node's key for VAPID.
        /// - Parameter state: the state directory.
        package func keyFile(in state: String) -> String { keyFile ?? "\(state)/vapid.pem" }

        /// Whether the node needs tor's SOCKS port.
        package var needsTor: Bool { usesTor || policy.servers.contains { $0.includesOnions } }
    }

    /// Whether Apple takes it for the `sub` of VAPID: it answers BadJwtToken for other forms, such as an address in < >, or
    /// at localhost.
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

    /// Of these, those whose endpoints have a query: Windows' (WNS).
    private static let usualQueryServers = ["*.notify.windows.com"]

    /// The push servers of the usual browsers, and that of ntfy.
    private static let usualPushServers = [
        "fcm.googleapis.com", "updates.push.services.mozilla.com", "web.push.apple.com", "*.notify.windows.com",
        "ntfy.sh",
    ]

    static func web(_ app: TableReader, paths: PathResolver) throws -> Web? {
        let table = try app.table(
            "web",
            "The app on phones without Google's services (UnifiedPush) and in browsers: Web Push; see web-push.md. The node sends requests to servers that its senders name: keep `servers` as short as you can."
        )
        guard table.exists else { return nil }
        let contact = try table.requiredString(
            "contact", expected: "a mailto: or https: address",
            "Whom push servers may contact about this node, like `mailto:operator@example.org`: each of them sees it")
        guard contact.hasPrefix("mailto:") || contact.hasPrefix("https://"),
            contact.allSatisfy({ $0 > " " && $0.isASCII })
        else { throw table.problem("contact", "must begin with mailto: or https://") }
        guard isContact(contact) else {
            throw table.problem(
                "contact",
                "must have a public domain, as in mailto:operator@example.org, without < and >: Apple refuses others")
        }
        let names = try table.strings(
            "servers", expected: "a name", isRequired: false,
            "Push servers: a name, a name with `*.` in front for all servers under it, `*.onion`, or `any`. Names must lead to public addresses. If not set: \(usualPushServers.joined(separator: ", "))"
        )
        func patterns(_ key: String, _ names: [String]) throws -> [PushServerPolicy.Pattern] {
            try names.map { name in
                guard let pattern = PushServerPolicy.Pattern(name) else {
                    throw table.problem(key, "\(name) is neither a lower-case name, nor *.NAME, nor any")
                }
                return pattern
            }
        }
        let servers = try patterns("servers", names ?? usualPushServers)
        let withQuery = try table.strings(
            "query_servers", expected: "a name", isRequired: false,
            "Those of the push servers whose endpoints need a query, written as in `servers`. Elsewhere the node takes no query but `up=1`, because with others some servers send mail in the node's name. If not set: \(usualQueryServers.joined(separator: ", "))"
        )
        let queryServers = try patterns("query_servers", withQuery ?? usualQueryServers)
        let ports = try table.ports("ports", default: [443], "Ports of these servers")
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
        let notice = try table.string(
            "notice", default: "Open the desktop app",
            "What phones show that were paired as `android|…` with a push endpoint: their notifications have no content. The push server can read it. 1 to 200 bytes"
        )
        guard (1...200).contains(notice.utf8.count) else { throw table.problem("notice", "must have 1 to 200 bytes") }
        return Web(
            policy: policy, contact: contact,
            messageMagic: try messageMagic(
                table, default: "BisqMessageAndroid",
                "For an app without `[app.fcm]`: the text before the first `|` of what desktops send to Android phones by HTTP"
            ), notice: notice,
            keyFile: try table.string(
                "key_file", expected: "a file",
                "Key by which push servers recognise the node (VAPID, RFC 8292): P-256 in PEM form, mode 600, made if the file does not exist. If not set: `vapid.pem` in `node.state`. All nodes of a cluster need the same"
            ).map(paths.absolute),
            trustFile: try table.string(
                "trust_file", expected: "a file",
                "Additional certificate authorities, in PEM form, for servers of your own"
            ).map(paths.absolute),
            usesTor: try table.boolean(
                "tor", default: false,
                "Reach all push servers through tor; onion services are always reached through it"))
    }
}
