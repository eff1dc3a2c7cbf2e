// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Sender
import Settings
import TNP
import Tor

/// `[app.upstream]`: the nodes that deliver on the platforms for which this node has no credential.
package struct UpstreamDelivery: AppDelivery {
    /// The addresses of the upstream nodes; the preferred one first.
    package let nodes: [Endpoint]
    /// The app's name at the upstream nodes; `nil` for the name that the senders use.
    package let app: String?
    /// Whether the nodes are reached without tor.
    package let isDirect: Bool
    /// The file with the private key by which this node is a site of the upstream nodes; `nil` if it is none.
    package let siteKeyFile: String?
    /// The message magics of the app, by which the HTTP API recognises its notifications.
    private let appleMagic, googleMagic: String

    package static let table = "upstream"
    package static let requiredKeys = "node = \"127.0.0.1:7077\"\ndirect = true"

    /// The largest number of upstream nodes: each device token has a link to each of them.
    private static let maximumNodes = 8
    /// The number of concurrent proof-of-work searches per app, so that upstream nodes cannot take all processors or delay
    /// other apps.
    private static let searchesAtATime = 1

    package static func reader(
        _ root: TableReader
    ) -> (_ app: AppIdentity, _ table: TableReader) throws -> UpstreamDelivery? {
        { _, parent in
            let table = parent.table(
                Self.table,
                "The node that delivers on the platforms for which this node has no credential; see self-hosting-an-app.md."
            )
            return table.exists ? try UpstreamDelivery(table) : nil
        }
    }

    private init(_ table: TableReader) throws {
        let expected = "an address like \"ADDRESS.onion:7077\""
        let texts = try table.strings(
            "node", expected: expected, isRequired: true,
            "Onion address and port of the upstream node; of a list (at most \(Self.maximumNodes)), the node uses one it is connected to, else the first it can reach"
        )
        guard let texts else { throw table.missing("node", "is missing: it must be \(expected)") }
        guard texts.count <= Self.maximumNodes else {
            throw table.problem("node", "lists more than \(Self.maximumNodes) nodes")
        }
        let isDirect = table.boolean(
            "direct", default: false, "Connect without tor: for a node on this machine or on a private link")
        self.isDirect = isDirect
        nodes = try texts.map { try Self.upstreamNode($0, isDirect: isDirect, table) }
        app = try table.string(
            "app", expected: "the app's name there",
            "Name of the app at the upstream node. If not set: the name that a TNP sender gives, or this `[[app]]`'s `name` for HTTP senders. If the name differs, this node replaces the sender's signature by its own"
        ).map { try table.appName($0, "app") }
        siteKeyFile = table.file(
            "site_key",
            "File with a key by which the upstream nodes know this node as a site; see `tocsin site key`. Mode 600")
        appleMagic = table.messageMagic("message_magic_ios", default: "BisqMessageiOS")
        googleMagic = table.messageMagic("message_magic_android", default: "BisqMessageAndroid")
    }

    private static func upstreamNode(
        _ text: String, isDirect: Bool, _ table: TableReader
    ) throws -> Endpoint {
        if isDirect, case .unix(let path)? = Endpoint(text) { return .unix(path: table.paths.absolute(path)) }
        guard case .tcp(let host, let port)? = Endpoint(text), port > 0 else {
            throw table.problem("node", "must be an address like \"ADDRESS.onion:7077\", not \(text.debugDescription)")
        }
        guard host.lowercased().hasSuffix(".onion") else {
            guard isDirect else {
                throw table.problem(
                    "node",
                    "\(host) is no onion address. If it is this machine or on a private link, set direct = true")
            }
            return .tcp(host: host, port: port)
        }
        guard !isDirect else {
            throw table.problem("direct", "an onion address is reached through tor only: remove direct")
        }
        guard OnionAddress(host) != nil else {
            throw table.problem("node", "\(host) is not a valid onion address: check it for typing errors")
        }
        return .tcp(host: host.lowercased(), port: port)
    }

    package var platforms: [Magic] { Magic.allCases }
    package var isFallback: Bool { true }
    /// A phone has a connection to one node, and to another while that one is slow or leaves.
    package var maximumConnections: Int { platforms.count * min(2, nodes.count) * PhoneCircuits<NodeCircuit>.maximum }
    package var needsTor: Bool { !isDirect }
    package var otherFiles: [String] { [siteKeyFile].compactMap(\.self) }

    package func messageMagic(on platform: Magic) -> String? { platform.isApple ? appleMagic : googleMagic }

    /// Each platform has a provider of its own, because a reload may replace one of them.
    package func providers(
        for app: AppIdentity, on platforms: [Magic], in workshop: inout ProviderWorkshop
    ) throws -> [(Magic, ProviderWorkshop.Part)] {
        let target = UpstreamTarget(
            nodes: nodes, socks: isDirect ? nil : try workshop.socksPort(for: "\(app.path).upstream", "node"),
            app: self.app, format: app.format)
        let secret: SecretBytes
        do {
            secret = try KeyFile.readOrCreate("\(workshop.surroundings.state)/upstream.key")
        } catch {
            throw workshop.problem("node.state", error.description)
        }
        let siteKey: Ed25519.PrivateKey?
        do {
            siteKey = try siteKeyFile.map {
                workshop.note($0)
                return try Ed25519.PrivateKey(keyFile: $0, copies: workshop.surroundings.copies)
            }
        } catch {
            throw workshop.problem("\(app.path).upstream.site_key", "\(error)")
        }
        var ingredients = Ingredients()
        ingredients.add("\(target)")
        if let siteKey { ingredients.add(Hex.encode(siteKey.publicKey)) }
        let searches = SearchSlots(Self.searchesAtATime)
        return platforms.map { platform in
            let provider = UpstreamProvider(
                target, keys: UpstreamKeys(secret: secret), siteKey: siteKey, slots: searches, on: workshop.loop)
            return (platform, ProviderWorkshop.Part(provider: provider, fingerprint: ingredients.fingerprint))
        }
    }
}
