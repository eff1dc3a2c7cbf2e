// SPDX-License-Identifier: Apache-2.0

/// The handles of a phone, over the app's own HTTP client (PROTOCOL §11): through Orbot, the app's tor, or whatever reaches
/// the nodes.
public struct HandleService: Sendable {
    /// A request that the app's HTTP client sends to the node.
    public struct Request: Sendable, CustomStringConvertible {
        /// `GET`, `POST`, `PUT` or `DELETE`.
        public let method: String
        /// The path, which begins with a slash.
        public let path: String
        /// The body; empty for GET. Its type is `application/octet-stream`.
        public let body: [UInt8]

        /// A text with no part of the content.
        public var description: String { "<Request redacted>" }
    }

    /// Sends a request to a node, and returns status and body of the answer. It throws if the node cannot be reached.
    public typealias Transport = @Sendable (NodeHost, Request) async throws -> (status: Int, body: [UInt8])

    /// A handle, the node that keeps it, and who may ring by it: what the app stores of each handle.
    public struct Entry: Codable, Hashable, Sendable {
        /// The node that keeps the handle.
        public let node: NodeHost
        /// The handle.
        public let handle: PhoneHandle
        /// The public keys that may ring, besides the owner's; if empty, whoever has the handle may.
        public var senderKeys: [[UInt8]]

        /// A handle, the node that keeps it, and who may ring by it.
        public init(_ handle: PhoneHandle, at node: NodeHost, senderKeys: [[UInt8]] = []) {
            self.node = node
            self.handle = handle
            self.senderKeys = senderKeys
        }
    }

    private let owner: HandleOwner
    private let transport: Transport
    private let sequence: @Sendable () -> UInt64
    private let wait: @Sendable (Duration) async throws -> Void

    /// The most times that a request is sent, and the shortest wait between two of them.
    private static let (maximumTries, minimumWait) = (6, Duration.milliseconds(250))
    /// The longest wait, in milliseconds. A node that asks for more counts as refusing, so that it does not hold up the
    /// requests to other nodes.
    private static let maximumWaitMillis = 10_000
    private static let triesPerStep: UInt64 = 1024

    /// Makes the requests of a phone.
    /// - Parameters:
    ///   - owner: the owner of the handles. A phone has one owner: a node binds a device token that is rung by handle
    ///     to the handle's owner.
    ///   - sequence: a number greater than all before, also of earlier runs of the app: Unix time in milliseconds, unless a
    ///     clock was ahead.
    ///   - wait: waits before a request is sent again.
    ///   - transport: the app's HTTP client.
    public init(
        owner: HandleOwner, sequence: @escaping @Sendable () -> UInt64,
        wait: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) },
        transport: @escaping Transport
    ) {
        self.owner = owner
        self.sequence = sequence
        self.wait = wait
        self.transport = transport
    }

    /// Registers the phone, once for each node: the same device token, app and owner have the same handle.
    /// - Parameters:
    ///   - pairing: the phone's pairing, with its platform and device token.
    ///   - node: the host name of the node; the signature names it.
    ///   - app: the name of an app of the node; empty for its first one.
    ///   - senderKeys: the public keys that may ring, besides the owner's; if empty, whoever has the handle may.
    /// - Throws: ``PhoneError``, and what the transport throws.
    public func register(
        _ pairing: PhonePairing, at node: NodeHost, app: String = "", senderKeys: [[UInt8]] = []
    ) async throws -> PhoneHandle {
        try await perform(.register(pairing, app: app), senderKeys, at: node)
    }

    /// Puts a new device token behind all of the phone's handles, at all nodes, so that every desktop rings it as
    /// before. With the same device token, it changes only who may ring, e.g. to switch off one desktop of several. It
    /// costs nothing, so call it daily with the token that the system gives.
    /// - Parameters:
    ///   - entries: the handles, each with its sender keys, which ROTATE replaces.
    ///   - pairing: the phone's pairing, with its platform and new device token.
    /// - Returns: why a handle could not be rotated, for each such one; the others are rotated. For a handle that the node
    ///   does not know (``HandleAnswer/Outcome/gone``), the app registers the phone again and shows its new pairing token.
    public func rotate(_ entries: [Entry], to pairing: PhonePairing) async -> [Entry: any Error] {
        var failures: [Entry: any Error] = [:]
        for entry in entries {
            do {
                _ = try await perform(.rotate(entry.handle, pairing), entry.senderKeys, at: entry.node)
            } catch {
                failures[entry] = error
            }
        }
        return failures
    }

    /// Ends one handle: nobody rings by it any more. The phone's other handles stay.
    /// - Throws: ``PhoneError``, and what the transport throws.
    public func forget(_ entry: Entry) async throws {
        do {
            _ = try await perform(.forget(entry.handle), [], at: entry.node)
        } catch let error as PhoneError {
            // A handle that the node does not know was forgotten before.
            guard case .refused(let answer) = error, answer.outcome == .gone else { throw error }
        }
    }

    private func perform(
        _ action: HandleCall.Action, _ senderKeys: [[UInt8]], at node: NodeHost
    ) async throws -> PhoneHandle {
        let call = try HandleCall(action, senderKeys: senderKeys, sequence: sequence(), at: node, by: owner)
        var proof: [UInt8]?
        var tries = 0
        while true {
            tries += 1
            let (status, body) = try await transport(
                node, Request(method: call.method, path: call.path, body: call.body(proof: proof)))
            switch try HandleAnswer.reply(status: status, body: body) {
            case .accepted(let handle): return handle
            case .refused(let answer):
                guard answer.outcome == .retry, tries < Self.maximumTries,
                    answer.retryAfterMillis <= Self.maximumWaitMillis
                else { throw PhoneError.refused(answer) }
                if answer.needsProof {
                    proof = try await self.proof(for: call, at: node)
                } else {
                    try await wait(max(Self.minimumWait, .milliseconds(answer.retryAfterMillis)))
                }
            }
        }
    }

    private func proof(for call: HandleCall, at node: NodeHost) async throws -> [UInt8] {
        let (status, body) = try await transport(node, Request(method: "GET", path: HandleChallenge.path, body: []))
        guard status == 200 else { throw PhoneError.badAnswer("the challenge has status \(status)") }
        let challenge = try HandleChallenge(body)
        guard challenge.onionKey == node.onionKey else {
            throw PhoneError.badAnswer("the node does not know itself by the name \(node.name)")
        }
        var nonce = UInt64.random(in: 0...UInt64.max)
        while true {
            if let proof = try challenge.solve(for: call, from: nonce, tries: Self.triesPerStep) { return proof }
            nonce &+= Self.triesPerStep
            try Task.checkCancellation()
            await Task.yield()
        }
    }
}
