// SPDX-License-Identifier: Apache-2.0

import Cluster
import Cryptography
import EventLoop
import Providers
import Redis
import Time

/// Shares Apple's provider tokens with the other nodes, so that together they issue no more than one in 20 minutes for
/// each key (Apple, "Establishing a token-based connection to APNs"). While the engine cannot be used, each node renews
/// its own.
final class ClusterTokens: SharedTokenRenewal, @unchecked Sendable {
    // Unchecked: used on the loop's thread only; its tasks prefer the loop's executor.

    /// Age in seconds from which a token is renewed: two minutes before a node would renew it alone, so that there is
    /// time to ask the engine.
    static let renewalAge = APNsProviderToken.lifetime - 120
    /// How long the node waits for the tokens at its start.
    private static let startTimeout = Duration.seconds(3)

    /// What is known about one token.
    private struct Known {
        /// The hash of the token that the engine had last; `nil` if the engine must be asked.
        var shared: [UInt8]?
        /// The hash of a token that Apple has refused as expired.
        var refused: [UInt8]?
        /// Whether the node waits for the engine's answer.
        var isAsking = false
    }

    private let engine: Engine
    private let loop: EventLoop
    private let tokens: () -> [Digest256: APNsProviderToken]
    private var known: [Digest256: Known] = [:]

    /// - Parameter tokens: the tokens in use.
    init(_ engine: Engine, on loop: EventLoop, tokens: @escaping () -> [Digest256: APNsProviderToken]) {
        self.engine = engine
        self.loop = loop
        self.tokens = tokens
    }

    /// Takes over the tokens of the other nodes, before the first request to Apple.
    func start(isolation: isolated (any Actor)? = #isolation) async {
        let deadline = MonotonicTime.now + Self.startTimeout
        while engine.status.isAvailable, .now < deadline {
            secondPassed()
            if tokens().keys.allSatisfy({ known[$0]?.shared != nil }) { return }
            await loop.sleep(for: .milliseconds(10))
        }
    }

    /// Forgets which tokens the engine has, because it may have lost them.
    func engineReturned() { for identity in known.keys { known[identity]?.shared = nil } }

    /// Offers and renews tokens. Call this once a second.
    func secondPassed() {
        guard engine.status.isAvailable else { return }
        let tokens = tokens()
        known = known.filter { tokens[$0.key] != nil || $0.value.isAsking }
        for (identity, token) in tokens {
            token.sharing = self
            guard known[identity]?.isAsking != true, step(for: token, identity) != .none else { continue }
            known[identity, default: Known()].isAsking = true
            Task(executorPreference: loop) { await self.update(identity) }
        }
    }

    private enum Step { case none, offer, request }

    /// What to do about a token.
    private func step(for token: APNsProviderToken, _ identity: Digest256) -> Step {
        guard let present = token.present(at: UnixTime.now), let age = token.age(at: .now), age < Self.renewalAge else {
            return .request
        }
        let id = engine.names.hash(of: present, as: .providerToken)
        if known[identity]?.refused == id { return .request }
        return known[identity]?.shared == id ? .none : .offer
    }

    private func update(_ identity: Digest256) async {
        if let token = tokens()[identity] {
            switch step(for: token, identity) {
            case .none: break
            case .offer: await offer(token, identity)
            case .request: await request(token, identity)
            }
        }
        known[identity]?.isAsking = false
    }

    func renew(_ token: APNsProviderToken) -> Bool {
        guard engine.status.isAvailable, let identity = tokens().first(where: { $0.value === token })?.key,
            let present = token.present(at: UnixTime.now)
        else { return false }
        known[identity, default: Known()].refused = engine.names.hash(of: present, as: .providerToken)
        secondPassed()
        return true
    }

    // MARK: Calls

    private func keys(_ identity: Digest256) -> [[UInt8]] {
        [.providerToken, .providerTokenLock].map { engine.names.name($0, of: identity.bytes) }
    }

    /// Offers the node's token to the others.
    private func offer(_ token: APNsProviderToken, _ identity: Digest256) async {
        guard let present = token.present(at: UnixTime.now), let age = token.age(at: .now) else { return }
        let keys = keys(identity)
        var command = RedisCommand(.offer, keys: keys)
        command.append(engine.names.hash(of: present, as: .providerToken))
        command.append(engine.names.seal(present, of: keys[0]))
        command.append(age)
        command.append(APNsProviderToken.shortestInterval)
        command.append(APNsProviderToken.maximumLife)
        guard let reply = try? await engine.call(command) else { return }
        received(reply, for: token, identity)
    }

    /// Asks for a token in place of one that is old or refused.
    private func request(_ token: APNsProviderToken, _ identity: Digest256) async {
        var command = RedisCommand(.token, keys: keys(identity))
        command.append(known[identity]?.refused ?? [])
        command.append(Self.renewalAge)
        command.append(APNsProviderToken.shortestInterval)
        guard let reply = try? await engine.call(command) else { return }
        switch reply {
        case .status("make"):
            token.issue(at: UnixTime.now)
            await withCheckedContinuation { continuation in token.whenIssued { continuation.resume() } }
            await offer(token, identity)
        case .array: received(reply, for: token, identity)
        default: break
        }
    }

    /// Takes over the token that the engine's reply contains.
    private func received(_ reply: RedisReply, for token: APNsProviderToken, _ identity: Digest256) {
        guard let fields = reply.elements, fields.count == 2, let sealed = fields[0].bytes,
            let shared = engine.names.open(sealed, of: keys(identity)[0])
        else { return }
        let id = engine.names.hash(of: shared, as: .providerToken)
        known[identity, default: Known()].shared = id
        let now = UnixTime.now
        if shared != token.present(at: now) { _ = token.adopt(shared, at: now) }
    }
}
