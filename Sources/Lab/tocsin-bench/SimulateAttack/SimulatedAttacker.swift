// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import StandIns
import TNP
import Time
import World

/// Performs the actions of an attacker's program.
final class SimulatedAttacker: @unchecked Sendable {
    // Unchecked: a simulation has one thread.

    /// What an attacker knows of honest users.
    struct Knowledge {
        /// Phones that are bound to a sender key.
        var phones: [SimulatedPhone]
        var handle: Handle?
        var register: HandleRequest?
        /// Makes the honest site send an envelope.
        var askSite: (Envelope) -> Void
    }

    private let world: SimulatedWorld
    private let knowledge: Knowledge
    private let loop: EventLoop
    private var random: SimulatedRandomNumbers
    private var connections: [Int: AttackerConnection] = [:]
    private var own: [String: SimulatedPhone] = [:]
    private var handle: Handle?
    /// The platform behind the handle that is used.
    private var handleMagic = Magic.iOS
    private let key = Ed25519.PrivateKey(seed: [UInt8](repeating: 0xA7, count: 32))!
    private var lastNumber = 0
    private var lastRequest: UInt32 = 0
    /// What the actions have cost so far.
    private(set) var cost = 0

    /// The names of the attacker's envelopes begin with this.
    static let namePrefix = "a"
    /// The first of the attacker's circuits.
    private static let firstCircuit: UInt32 = 0xA000
    /// The circuits that are used at present: the first half by two connections each, and all over HTTP.
    private var circuits = (0..<UInt32(AttackAction.connections)).map { firstCircuit + $0 }
    private var lastCircuit = firstCircuit + UInt32(AttackAction.connections - 1)

    init(_ world: SimulatedWorld, knowing knowledge: Knowledge) {
        self.world = world
        self.knowledge = knowledge
        loop = world.sendersLoop
        random = world.simulation.random("attacker")
        for magic in [Magic.iOS, .android, .web] {
            for number in 0..<AttackAction.ownPhones {
                let phone = SimulatedPhone(number: number, magic: magic, using: &random)
                own["\(magic.rawValue) \(number)"] = phone
                world.setPhone(.registered, of: phone)
            }
        }
    }

    func perform(_ action: AttackAction) async {
        cost += action.cost
        switch action {
        case .connect(let slot): _ = await connection(slot)
        case .disconnect(let slot): connections.removeValue(forKey: slot)?.stream.close()
        case .submit(let slot, let target, let isSigned, let queued, let count):
            guard let connection = await connection(slot) else { return }
            for _ in 0..<count {
                guard let envelope = envelope(to: target) else { return }
                connection.send(
                    Submission(
                        request: nextRequest(), envelope: envelope, acceptQueued: queued,
                        signature: isSigned ? SenderSignature(of: envelope.digest, by: key) : nil))
                await loop.sleep(for: .milliseconds(50))
            }
        case .resend(let slot): connections[slot]?.resend()
        case .register(let slot, let target, let owner, let count):
            guard let connection = await connection(slot) else { return }
            for number in 0..<count {
                guard let registration = registration(of: target) else { return }
                handleMagic = registration.magic
                let key = Ed25519.PrivateKey(seed: [UInt8](repeating: UInt8(owner + number), count: 32))!
                connection.send(
                    HandleRequest(
                        request: nextRequest(), .register(app: [], owner: key.publicKey, registration),
                        sequence: nextSequence(), at: world.signedOnion, by: key))
                await loop.sleep(for: .milliseconds(100))
            }
        case .replayRegister(let slot, let count):
            guard var request = knowledge.register else { return }
            for number in 0..<count {
                if number % AttackAction.replaysOfCircuit == 0 { leaveCircuit(slot / 2) }
                request.request = nextRequest()
                await connection(slot)?.send(request)
                await loop.sleep(for: .milliseconds(10))
            }
        case .rotate(let slot, let target):
            guard let connection = await connection(slot), let handle = handle ?? knowledge.handle,
                let registration = registration(of: target)
            else { return }
            connection.send(
                HandleRequest(
                    request: nextRequest(), .rotate(handle, registration), sequence: nextSequence(),
                    at: world.signedOnion, by: key)
            )
        case .forget(let slot):
            guard let connection = await connection(slot), let handle = handle ?? knowledge.handle else { return }
            connection.send(
                HandleRequest(
                    request: nextRequest(), .forget(handle), sequence: nextSequence(), at: world.signedOnion,
                    by: key))
        case .claimSite(let slot):
            await connection(slot)?.send(
                SiteAuthentication(seed: [UInt8](repeating: 0, count: 16), onion: world.signedOnion, by: key))
        case .garbage(let slot, let bits):
            let bytes = (0..<Int(bits % 64)).map { UInt8(truncatingIfNeeded: bits >> UInt64($0 % 8 * 8)) &+ UInt8($0) }
            await connection(slot)?.stream.write(bytes)
        case .http(let circuit, let target, let count):
            for _ in 0..<count {
                guard let envelope = envelope(to: target) else { return }
                await http(BisqRelayRequest(envelope).bytes(host: "node.test"), on: circuit)
            }
        case .nonsense(let circuit, let nonsense):
            let text =
                switch nonsense {
                case .emptyLine: "\r\n"
                case .halfRequest: "GET /relay?isAndroid=true HTTP/1.1\r\nHost: n"
                case .unknownPath: "GET /nowhere HTTP/1.1\r\nHost: n\r\n\r\n"
                case .garbage: "\u{1}\u{2}\u{3} / HTTP/9\r\n\r\n"
                }
            await http(Array(text.utf8), on: circuit)
        case .askSite(let target, let count):
            for _ in 0..<count {
                guard let envelope = envelope(to: target) else { return }
                knowledge.askSite(envelope)
                await loop.sleep(for: .milliseconds(100))
            }
        case .answer(let magic, let number, let answer):
            guard let phone = own["\(magic.rawValue) \(number)"] else { return }
            if let (code, reason) = answer.status(of: magic) {
                world.setPhone(.answers(status: code, reason: reason, retryAfter: nil), of: phone)
            } else {
                let isGone = answer == .unregistered
                world.setPhone(
                    isGone ? .unregistered(since: UInt64(max(0, UnixTime.milliseconds))) : .registered, of: phone)
            }
        case .wait(let seconds): await loop.sleep(for: .seconds(seconds))
        }
        await loop.sleep(for: random.duration(in: .milliseconds(20)...(.seconds(2))))
    }

    /// Closes all connections.
    func stop() {
        for connection in connections.values { connection.stream.close() }
        connections = [:]
    }

    // MARK: What is sent

    private func nextRequest() -> UInt32 {
        lastRequest += 1
        return lastRequest
    }

    private func nextSequence() -> UInt64 { UInt64(max(0, UnixTime.milliseconds)) + UInt64(lastRequest) }

    /// The phone that a target names by its device token; `nil` if the target is a handle.
    private func phone(_ target: AttackAction.Target) -> SimulatedPhone? {
        switch target {
        case .known(let number): knowledge.phones[number]
        case .respelled(let number, let spelling): knowledge.phones[number].respelled(spelling)
        case .invented(let magic): SimulatedPhone(number: 0, magic: magic, using: &random)
        case .own(let magic, let number): own["\(magic.rawValue) \(number)"]
        case .knownHandle, .ownHandle: nil
        }
    }

    private func registration(of target: AttackAction.Target) -> HandleRequest.Registration? {
        phone(target).map { HandleRequest.Registration(magic: $0.magic, deviceToken: $0.deviceToken) }
    }

    /// An envelope for a target; `nil` if the attacker has no handle yet.
    private func envelope(to target: AttackAction.Target) -> Envelope? {
        lastNumber += 1
        let name = "\(Self.namePrefix)\(String(10_000_000 + lastNumber).dropFirst())00000000"
        let used: Handle? =
            switch target {
            case .knownHandle: knowledge.handle
            case .ownHandle: handle
            default: nil
            }
        guard let phone = phone(target) ?? used.map({ _ in SimulatedPhone(magic: handleMagic, deviceToken: []) })
        else { return nil }
        let envelope = phone.envelope(numbered: Array(name.utf8), [UInt8](repeating: 7, count: 48), by: used)
        world.judge.made(envelope, named: name)
        world.judge.abandoned(name)
        return envelope
    }

    // MARK: Connections

    private func line(_ place: Int) -> [UInt8] { TorCircuit(number: circuits[place]).proxyLine }

    /// Closes the connections of a circuit; the next ones have another circuit.
    private func leaveCircuit(_ place: Int) {
        for slot in [2 * place, 2 * place + 1] { connections.removeValue(forKey: slot)?.stream.close() }
        lastCircuit += 1
        circuits[place] = lastCircuit
    }

    private func connection(_ slot: Int) async -> AttackerConnection? {
        if let open = connections[slot], !open.hasEnded { return open }
        guard let stream = try? await loop.dial(world.nodes[0].endpoint, timeout: .seconds(20)) else { return nil }
        let connection = AttackerConnection(stream) { [weak self] in self?.handle = $0 }
        stream.handler = connection
        stream.write(line(slot / 2))
        stream.resumeReading()
        connections[slot] = connection
        return connection
    }

    private func http(_ bytes: [UInt8], on circuit: Int) async {
        guard let stream = try? await loop.dial(world.nodes[0].httpEndpoint, timeout: .seconds(20)) else { return }
        stream.write(line(circuit) + bytes)
        let connection = AttackerConnection(nil, stream)
        stream.handler = connection
        stream.resumeReading()
        await loop.sleep(for: .seconds(2))
        stream.close()
    }
}

extension SimulatedPhone {
    /// A phone with a variant of this one's device token.
    func respelled(_ spelling: AttackAction.Spelling) -> SimulatedPhone {
        let text = String(decoding: deviceToken, as: UTF8.self)
        // Of a push endpoint, only the path has another case: the host has one spelling.
        let server = text.hasPrefix(SimulatedWorld.pushServer) ? SimulatedWorld.pushServer : ""
        switch spelling {
        case .otherCase:
            let path = text.dropFirst(server.count).uppercased()
            return SimulatedPhone(magic: magic, deviceToken: Array((server + path).utf8))
        case .withQuery:
            return SimulatedPhone(magic: magic, deviceToken: Array((text + (server.isEmpty ? "" : "?up=1")).utf8))
        case .otherMagic: return SimulatedPhone(magic: magic.isApple ? .iOSDev : .android, deviceToken: deviceToken)
        }
    }
}

/// A connection of the attacker. It reads the handles in the node's answers, and ignores everything else.
private final class AttackerConnection: ByteStreamHandler {
    let stream: ByteStream
    private(set) var hasEnded = false
    private var decoder = FrameDecoder(maximumLength: Frame.defaultMaximumLength)
    private let gotHandle: ((Handle) -> Void)?
    private var last: [UInt8] = []

    init(_ stream: ByteStream, gotHandle: @escaping (Handle) -> Void) {
        self.stream = stream
        self.gotHandle = gotHandle
        var bytes: [UInt8] = []
        bytes.append(Hello(agent: ""))
        hello = bytes
    }

    /// A connection whose answers are ignored.
    init(_ gotHandle: ((Handle) -> Void)?, _ stream: ByteStream) {
        self.stream = stream
        self.gotHandle = gotHandle
    }

    /// HELLO, sent with the first message; empty once it was sent.
    private var hello: [UInt8] = []

    private func write(_ frame: [UInt8]) {
        stream.write(hello + frame)
        hello = []
    }

    func send(_ submission: Submission) {
        last = []
        last.append(submission)
        write(last)
    }

    func send(_ request: HandleRequest) {
        var frame: [UInt8] = []
        frame.append(request)
        write(frame)
    }

    func send(_ authentication: SiteAuthentication) {
        var frame: [UInt8] = []
        frame.append(authentication)
        write(frame)
    }

    func resend() { write(last) }

    func stream(_ stream: ByteStream, received bytes: RawSpan) {
        guard let gotHandle else { return }
        decoder.append(bytes)
        while let frame = try? decoder.next(), let message = try? Message(frame) {
            if case .registered(let result) = message, let handle = result.handle { gotHandle(handle) }
        }
    }

    func stream(_ stream: ByteStream, ended reason: StreamError) { hasEnded = true }
}
