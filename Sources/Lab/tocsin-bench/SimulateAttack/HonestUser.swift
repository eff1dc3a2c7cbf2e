// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import StandIns
import TNP
import Time
import TocsinClient
import World

/// A user whose desktop rings the user's phone, and who reports each notification that does not ring it.
final class HonestUser: @unchecked Sendable {
    // Unchecked: a simulation has one thread.

    /// How the desktop reaches the phone.
    enum Way {
        /// Over TNP, signed under a key to which the phone gets bound.
        case signed
        case unsigned
        /// Over HTTP, as Bisq 1 does, which also notifies the user's former phones.
        case http
        /// By a handle that the phone has registered, and that only the desktop's key may use.
        case handle
        /// Through a site's back end.
        case site
    }

    let phone: SimulatedPhone
    private(set) var way: Way
    /// Whether the attacker knows the device token, and no sender key protects it. The attacker may then ring the phone, bind
    /// it and use up its allowance; only GONE counts as harm.
    var isExposed = false
    private let world: SimulatedWorld
    private let client: TocsinClient
    private let key: Ed25519.PrivateKey
    private let number: Int
    private(set) var handle: Handle?
    /// The user's last REGISTER. The attacker may have seen its bytes.
    private(set) var register: HandleRequest?
    private var lastNumber = 0
    private let harmed: (String) -> Void
    private let hasRung: (String) -> Bool
    private var sent: Set<String> = []

    /// The names of honest users' notifications begin with this.
    static let namePrefix = "h"
    /// A notification that takes longer counts as harm.
    static let patience = Duration.seconds(30)
    private static let timeout = Duration.seconds(60)
    private static let gonePhones = 3

    /// - Parameters:
    ///   - client: the desktop's; the users of a site share one.
    ///   - hasRung: whether a phone has rung for the notification of this name.
    ///   - harmed: receives what has gone wrong.
    init(
        _ number: Int, _ phone: SimulatedPhone, _ way: Way, in world: SimulatedWorld, client: TocsinClient? = nil,
        hasRung: @escaping (String) -> Bool, harmed: @escaping (String) -> Void
    ) {
        self.number = number
        self.phone = phone
        self.way = way
        self.world = world
        self.client =
            client
            ?? TocsinClient(
                TocsinClient.Options(nodes: world.onions(for: 0), connectTimeout: .seconds(20)), on: world.sendersLoop
            )
        self.hasRung = hasRung
        self.harmed = harmed
        key = Ed25519.PrivateKey(seed: (0..<32).map { UInt8(truncatingIfNeeded: number &* 31 &+ $0) })!
    }

    /// Whether this device token is that of the user's phone.
    func isPhone(_ deviceToken: String) -> Bool {
        let own = String(decoding: phone.deviceToken, as: UTF8.self)
        return phone.magic.isApple ? deviceToken.lowercased() == own : deviceToken == own
    }

    /// Whether the user has sent the notification of this name.
    func hasSent(_ name: String) -> Bool { sent.contains(name) }

    var description: String { "user \(number) (\(way), \(phone.magic.rawValue))" }

    /// Registers a handle for the phone, by which the desktop rings it from now on.
    func registerHandle() async {
        way = .handle
        let registration = HandleRequest.Registration(
            magic: phone.magic, deviceToken: phone.deviceToken, senderKeys: [key.publicKey])
        register = HandleRequest(
            request: 7, .register(app: [], owner: key.publicKey, registration), sequence: 1,
            at: world.signedOnion, by: key)
        do {
            handle = try await client.register(registration, owner: key, sequence: 1, timeout: Self.timeout)
        } catch {
            harmed("\(description) gets no handle: \(error)")
        }
    }

    /// Sends one notification, and reports harm to the user.
    func ring() async {
        if way == .handle, handle == nil { await registerHandle() }
        lastNumber += 1
        let name = "\(Self.namePrefix)\(String(1_000_000 + number * 10_000 + lastNumber).dropFirst())000000000"
        let envelope = envelope(named: Array(name.utf8))
        world.judge.made(envelope, named: name)
        sent.insert(name)
        let began = world.simulation.now
        let problem = way == .http ? await ringByHTTP(envelope, name) : await ringByTNP(envelope, name)
        let took = world.simulation.now - began
        if isExposed { return }
        if let problem {
            harmed("\(description): \(problem)")
        } else if took > Self.patience {
            harmed("\(description) is rung after \(took.components.seconds) s")
        }
    }

    private func envelope(named name: [UInt8]) -> Envelope {
        let content = [UInt8](repeating: UInt8(truncatingIfNeeded: lastNumber), count: 48)
        guard let handle, way == .handle else { return phone.envelope(numbered: name, content) }
        return phone.envelope(numbered: name, content, by: handle)
    }

    private func ringByTNP(_ envelope: Envelope, _ name: String) async -> String? {
        do {
            let outcome = try await client.submit(
                envelope, timeout: Self.timeout, acceptQueued: number.isMultiple(of: 2),
                signedBy: way == .signed || way == .handle ? key : nil)
            world.judge.told(outcome, of: name)
            if isExposed, outcome.kind == .gone || outcome.reason == .badDeviceToken {
                harmed("\(description): \(outcome.kind) \(outcome.reason)")
            }
            return outcome.kind == .delivered ? nil : "\(outcome.kind) \(outcome.reason)"
        } catch {
            world.judge.abandoned(name)
            return "no outcome: \(error)"
        }
    }

    private func ringByHTTP(_ envelope: Envelope, _ name: String) async -> String? {
        var random = world.simulation.random("gone phones of \(number)")
        for _ in 0..<Self.gonePhones {
            let gone = SimulatedPhone(number: number, magic: phone.magic, using: &random)
            lastNumber += 1
            let other = "g\(String(1_000_000 + number * 10_000 + lastNumber).dropFirst())000000000"
            let dead = gone.envelope(numbered: Array(other.utf8), [UInt8](repeating: 0x67, count: 48))
            world.judge.made(dead, named: other)
            _ = await answer(to: dead)
            world.judge.abandoned(other)
        }
        let text = await answer(to: envelope)
        world.judge.abandoned(name)
        guard BisqRelayRequest.isSuccess(text) else {
            return "HTTP: \(String(decoding: text.prefix { $0 != 13 }, as: UTF8.self))"
        }
        // The node may have stored it.
        let deadline = world.simulation.now + Self.patience
        while !hasRung(name), world.simulation.now < deadline { await world.sendersLoop.sleep(for: .seconds(1)) }
        return hasRung(name) ? nil : "HTTP: success, and the phone did not ring"
    }

    /// All requests of one desktop use the same circuit.
    private func answer(to envelope: Envelope) async -> [UInt8] {
        let loop = world.sendersLoop
        guard let stream = try? await loop.dial(world.nodes[0].httpEndpoint, timeout: .seconds(20)) else { return [] }
        stream.write(TorCircuit(number: 0x1000 + UInt32(number)).proxyLine)
        let text = await BisqRelayRequest(envelope).answer(on: stream, host: "node.test", within: .seconds(60), loop)
        stream.close()
        return text
    }
}
