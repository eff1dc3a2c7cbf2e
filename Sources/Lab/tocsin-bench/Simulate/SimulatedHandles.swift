// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP
import Time
import TocsinClient
import TocsinPhone
import World

/// The apps of the phones that are rung by handle: each registers a handle, rotates it when the device token has
/// changed, and registers again if the node does not know it. Checks that a handle never goes back to an older device
/// token, and that the node loses no handle that has rung.
final class SimulatedHandles: @unchecked Sendable {
    // Unchecked: a simulation has one thread.

    private struct Owner {
        let seed: [UInt8]
        let key: Ed25519.PrivateKey
        /// The only key that may ring the phone besides the owner's.
        let senderKey: Ed25519.PrivateKey
        var handle: Handle?
        /// The device token that the node has confirmed last.
        var token: [UInt8] = []
        /// The device tokens that ROTATE has replaced.
        var olderTokens: Set<[UInt8]> = []
        var isAsking = false
        /// When a desktop learnt of the first DELIVERED by this handle.
        var rang: MonotonicTime?
        /// Whether the node has had the time to store that it rang.
        var isSafe = false
    }

    private let world: SimulatedWorld
    /// A client for each node, which prefers that node.
    private let clients: [TocsinClient]
    private var owners: [Int: Owner] = [:]
    /// For each envelope, the owner of the handle, the device tokens that the node must not use, and when it was made.
    private var envelopes: [String: (owner: Int, forbidden: Set<[UInt8]>, made: MonotonicTime)] = [:]
    private(set) var rotations = 0
    /// Requests over HTTP that a node has accepted.
    private(set) var acceptedOverHTTP = 0

    /// How often ``watch()`` looks, and half the time after which a node with a working disk has stored that a handle
    /// rang.
    private static let storeTime = Duration.seconds(60)

    /// Which phones are rung by handle.
    static func isForHandle(_ phone: Int) -> Bool { phone % 5 == 2 }

    /// Whether the phone's app asks over HTTP in place of TNP.
    private static func usesHTTP(_ phone: SimulatedPhone) -> Bool {
        !phone.magic.isSubscription && phone.number % 3 == 2
    }

    init(_ world: SimulatedWorld) {
        self.world = world
        clients = world.nodes.indices.map { node in
            TocsinClient(
                TocsinClient.Options(nodes: world.onions(for: node), connectTimeout: .seconds(30)),
                on: world.sendersLoop)
        }
        var random = world.simulation.random("handles")
        for phone in world.phones where Self.isForHandle(phone.number) {
            let seeds = (0..<2).map { _ in (0..<32).map { _ in UInt8(truncatingIfNeeded: random.next()) } }
            owners[phone.number] = Owner(
                seed: seeds[0], key: Ed25519.PrivateKey(seed: seeds[0])!, senderKey: Ed25519.PrivateKey(seed: seeds[1])!
            )
        }
    }

    /// Starts the apps.
    func start() {
        for phone in owners.keys.sorted() { ask(phone) }
        watch()
    }

    /// The handle and the key with which a desktop rings the phone; `nil` while it has no handle.
    func access(to phone: Int) -> (handle: Handle, key: Ed25519.PrivateKey)? {
        owners[phone].flatMap { owner in owner.handle.map { ($0, owner.senderKey) } }
    }

    /// The device tokens that the node may use for a phone that is rung at this moment: the phone's own, and the last
    /// one that the node has confirmed.
    func tokens(of phone: Int) -> Set<[UInt8]> {
        Set([world.phones[phone].deviceToken, owners[phone]?.token ?? []]).subtracting([[]])
    }

    /// A desktop has made an envelope for a phone.
    func made(_ name: String, for phone: Int) {
        if let owner = owners[phone] { envelopes[name] = (phone, owner.olderTokens, world.simulation.now) }
    }

    /// A phone has received an envelope.
    func received(_ name: String, at deviceToken: String) {
        guard let (_, forbidden, made) = envelopes[name], forbidden.contains(Array(deviceToken.utf8)) else { return }
        // A node that decides alone uses what it knows (Docs/cluster.md), and tells the others some seconds afterwards.
        if world.cluster?.decidedAlone(in: made + .seconds(-10)...world.simulation.now) != true {
            world.judge.violated("\(name) went to a device token that the owner had replaced before")
        }
    }

    /// A desktop has learnt an outcome.
    func told(_ outcome: Outcome, of name: String) {
        guard let phone = envelopes[name]?.owner else { return }
        if outcome.kind == .delivered, owners[phone]?.rang == nil { owners[phone]?.rang = world.simulation.now }
        if outcome.reason == .unknownHandle { lost(phone, "a submission") }
    }

    /// The phone has got another device token.
    func tokenChanged(of phone: Int) { if owners[phone] != nil { ask(phone) } }

    /// The node has ended: it may not have stored what happened last.
    func nodeEnded() {
        for (phone, owner) in owners where !owner.isSafe { owners[phone]?.rang = nil }
    }

    /// Notes once a minute which handles the node must have stored as rung.
    private func watch() {
        world.simulation.schedule(after: Self.storeTime, in: world.simulation.background) { [self] in
            for (phone, owner) in owners {
                guard let rang = owner.rang, world.nodes.allSatisfy({ $0.running != nil && $0.disk.isInOrder }) else {
                    continue
                }
                if world.simulation.now - rang > Self.storeTime * 2 { owners[phone]?.isSafe = true }
            }
            watch()
        }
    }

    private func lost(_ phone: Int, _ what: String) {
        guard let owner = owners[phone], owner.handle != nil else { return }
        if owner.isSafe {
            world.judge.violated("the node does not know the handle of phone \(phone) any more: \(what)")
        }
        owners[phone]?.handle = nil
        owners[phone]?.rang = nil
        owners[phone]?.isSafe = false
        ask(phone)
    }

    /// Asks the node until it has the phone's present device token.
    private func ask(_ phone: Int) {
        guard owners[phone]?.isAsking == false else { return }
        owners[phone]?.isAsking = true
        world.simulation.run(as: world.sendersProcess) {
            _ = Task(executorPreference: world.sendersLoop) { [self] in
                while await !isCurrent(phone) { await world.sendersLoop.sleep(for: .seconds(20)) }
                owners[phone]?.isAsking = false
            }
        }
    }

    private func isCurrent(_ phone: Int) async -> Bool {
        guard let owner = owners[phone] else { return true }
        let present = world.phones[phone]
        guard owner.handle == nil || owner.token != present.deviceToken else { return true }
        do {
            let handle =
                Self.usesHTTP(present) ? try await askByHTTP(present, owner) : try await askByTNP(present, owner)
            if owner.handle != nil {
                rotations += 1
                owners[phone]?.olderTokens.insert(owner.token)
            }
            owners[phone]?.handle = handle
            owners[phone]?.token = present.deviceToken
            world.judge.note("handle of phone \(phone): the node has its device token")
        } catch let refused as TocsinClient.HandleRefused {
            world.judge.note("handle of phone \(phone): refused, \(refused.outcome.reason)")
            if refused.outcome.reason == .unknownHandle { lost(phone, "a rotation") }
        } catch PhoneError.refused(let answer) {
            world.judge.note("handle of phone \(phone): refused over HTTP, \(answer.reason)")
            if answer.outcome == .gone { lost(phone, "a rotation") }
        } catch let error as PhoneError {
            world.judge.violated("the node has answered phone \(phone) over HTTP as no phone understands: \(error)")
        } catch {
            world.judge.note("handle of phone \(phone): \(error)")
        }
        return owners[phone]?.handle != nil && owners[phone]?.token == world.phones[phone].deviceToken
    }

    /// Registers the phone, or puts its present device token behind its handle.
    /// - Returns: the handle.
    private func askByTNP(_ present: SimulatedPhone, _ owner: Owner) async throws -> Handle {
        let client = clients[world.layout.node(ofApp: present.number)]
        let registration = HandleRequest.Registration(
            magic: present.magic, deviceToken: present.deviceToken, senderKeys: [owner.senderKey.publicKey])
        guard let handle = owner.handle else {
            return try await client.register(registration, owner: owner.key, timeout: .seconds(120))
        }
        try await client.rotate(handle, to: registration, owner: owner.key, timeout: .seconds(120))
        return handle
    }

    /// As ``askByTNP(_:_:)``, with the library for phones.
    private func askByHTTP(_ present: SimulatedPhone, _ owner: Owner) async throws -> Handle? {
        let node = world.nodes[world.layout.node(ofApp: present.number)]
        guard let host = NodeHost(node.address.description), let key = HandleOwner(seed: owner.seed),
            let platform = PhonePairing.Platform(rawValue: present.magic.rawValue)
        else { preconditionFailure("the library for phones knows its platforms and onions") }
        let pairing = PhonePairing(
            platform, deviceToken: String(decoding: present.deviceToken, as: UTF8.self), descriptor: "phone")
        let phone = PhoneByHTTP(node: host, endpoint: node.httpOnion, loop: world.sendersLoop)
        let known = owner.handle.flatMap { PhoneHandle(Hex.encode($0.bytes)) }
        let handle = try await phone.perform(
            known.map { .rotate($0, pairing) } ?? .register(pairing, app: ""),
            senderKeys: [owner.senderKey.publicKey], by: key)
        acceptedOverHTTP += 1
        return Handle(handle.bytes)
    }
}
