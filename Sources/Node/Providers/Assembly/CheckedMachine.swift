// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Glibc
import HTTP2
import Settings

/// The machine that `tocsin check` looks at.
package struct CheckedMachine: Sendable {
    /// The state directory.
    package let state: String
    /// The user that runs the node.
    package let nodeUser: uid_t
    /// Unix time in seconds.
    package let now: Int64

    package init(state: String, nodeUser: uid_t, now: Int64) {
        self.state = state
        self.nodeUser = nodeUser
        self.now = now
    }

    /// Checks that a private file, which only its owner can read, belongs to the node's user.
    func ownerFindings(_ file: String) -> [Finding] {
        var status = stat()
        guard stat(file, &status) == 0 else { return [] }
        let finding = CredentialCheck.owner(
            file, owner: status.st_uid, mode: status.st_mode, nodeUser: nodeUser)
        return [finding].compactMap(\.self)
    }
}

/// A server to which the node connects.
package struct CheckedServer: Sendable {
    package let url: ServiceURL
    /// Additional certificate authorities.
    package let trustFile: String?
}

/// What probes of push services share: settings, provider tokens, and what they find out about the servers and the
/// clock. Used on one loop.
package final class ProbeDesk {
    /// The timeout for an answer.
    private static let timeout = Duration.seconds(10)

    let surroundings: ProviderWorkshop.Surroundings
    let loop: EventLoop
    private let keepsTokens: Bool
    private let progress: (String) -> Void
    /// The authorities of the servers that can be reached.
    package var reachable: Set<String> = []
    /// By how many seconds this machine's clock is ahead of a server's.
    package private(set) var skews: [(host: String, ahead: Int64)] = []
    private var tokens: [String: APNsProviderToken] = [:]

    /// - Parameters:
    ///   - keepsTokens: whether provider tokens are kept in the state directory, where the node reads them.
    ///   - progress: receives a description of each probe.
    package init(
        _ surroundings: ProviderWorkshop.Surroundings, keepsTokens: Bool, on loop: EventLoop,
        progress: @escaping (String) -> Void
    ) {
        self.surroundings = surroundings
        self.keepsTokens = keepsTokens
        self.loop = loop
        self.progress = progress
    }

    /// The timeout for a connection.
    package var dialTimeout: Duration { surroundings.dialTimeout }
    /// The timeout for an answer, including the connection.
    var answerTimeout: Duration { dialTimeout + Self.timeout }

    func show(_ text: String) { progress(text) }

    func note(_ answer: ProbeAnswer, of url: ServiceURL) {
        if let ahead = answer.clockAhead { skews.append((url.host, ahead)) }
    }

    /// A credential; `nil` if it cannot be used, which other checks report.
    func credential(_ use: CredentialUse) -> (any Credential)? { try? CredentialFiles().load(use.reference).credential }

    /// The TLS settings for a server.
    package func context(trustFile: String?, identity: CertifiedKey? = nil) throws -> TLSContext {
        let authorities = try trustFile.map {
            try ConfiguredFile.read($0, for: "trust_file", in: surroundings.file, copies: surroundings.copies)
        }
        return try TLSContext.client(
            authorities: TrustedAuthorities(and: authorities), identity: identity, applicationProtocol: "h2")
    }

    func pool(_ url: ServiceURL, _ context: TLSContext) -> ConnectionPool {
        ConnectionPool(surroundings.destination(url, context), on: loop)
    }

    /// The provider token of a key, shared by all apps of that key. Starts from the token that the node has saved, because
    /// Apple allows only one new token in 20 minutes.
    func token(_ issuer: any ProviderTokenIssuer) -> APNsProviderToken {
        let file = ProviderTokenFile.path(issuer.publicKey, in: surroundings.state)
        if let token = tokens[file] { return token }
        let token = APNsProviderToken(
            issuer, keeping: SharedProviderToken(file: ProviderTokenFile(path: file), isKept: keepsTokens))
        tokens[file] = token
        return token
    }
}

/// The provider token in the state directory. A new token is saved only if the node can read the file.
private struct SharedProviderToken: ProviderTokenStore {
    let file: ProviderTokenFile
    let isKept: Bool

    func load() -> [UInt8]? { file.load() }

    func save(_ token: [UInt8]) { if isKept { file.save(token) } }
}
