// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import StandIns
import Synchronization
import TNP
import TestSupport
import Testing
import TocsinClient

@testable import TocsinNode
@testable import Tor

/// Handles (PROTOCOL §11), with a real node and the stand-ins of Apple and Google.
@Suite(.tags(.node), .timeLimit(.minutes(2)))
struct HandleTests {
    static let enabled = "[handles]\nenabled = true"

    private func key(_ byte: UInt8) throws -> Ed25519.PrivateKey {
        try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: byte, count: 32)))
    }

    /// A node that keeps handles, a client, and a phone that has registered a handle.
    private func registered(_ magic: Magic) async throws
        -> (stage: Stage, client: TocsinClient, owner: Ed25519.PrivateKey, phone: Phone, handle: Handle)
    {
        let stage = Stage()
        try await stage.start(more: Self.enabled)
        let (client, owner) = (stage.client(), try key(1))
        let phone = await stage.phone(magic)
        return (stage, client, owner, phone, try await client.register(phone.handleRegistration(), owner: owner))
    }

    private func ring(
        _ pairing: PairingToken, _ client: TocsinClient, title: String = "Hi", signedBy key: Ed25519.PrivateKey? = nil
    ) async throws -> Outcome {
        let envelope = try Sealer(pairing).seal(
            BisqNotification(kind: .trade, title: title, message: "", sentDate: 1).json)
        return try await client.submit(envelope, signedBy: key)
    }

    @Test(arguments: [Magic.iOS, .iOSDev, .android])
    func `a phone with a new device token rings again after ROTATE, without a new pairing`(magic: Magic) async throws {
        let (stage, client, owner, phone, handle) = try await registered(magic)
        // The desktop's pairing, which stays as it is.
        let pairing = try PairingToken(phone.pairingToken(by: handle))
        let senderKey = Ed25519.PrivateKey(ofSenderFor: pairing)
        #expect(try await ring(pairing, client, signedBy: senderKey).kind == .delivered)

        let renewed = await stage.services.giveNewDeviceToken(to: phone)
        let gone = try await ring(pairing, client, signedBy: senderKey)
        #expect(gone.kind == .gone && gone.reason == .unregistered)
        try await client.rotate(handle, to: renewed.handleRegistration(), owner: owner)
        #expect(try await ring(pairing, client, title: "Again", signedBy: senderKey).kind == .delivered)
        let received = await stage.services.received.map(\.deviceToken)
        #expect(received == [phone.deviceToken, renewed.deviceToken])
        var state = PhoneState(renewed)
        let last = try #require(await stage.services.received.last)
        #expect("\(state.receive(last))".contains("Again"))
        await client.close()
        await stage.end()
    }

    @Test func `a resend stays a resend across ROTATE`() async throws {
        let (stage, client, owner, phone, handle) = try await registered(.iOS)
        let pairing = try PairingToken(phone.pairingToken(by: handle))
        let envelope = try Sealer(pairing).seal(Array("{}".utf8))
        let first = try await client.submit(envelope)
        let renewed = await stage.services.giveNewDeviceToken(to: phone)
        try await client.rotate(handle, to: renewed.handleRegistration(), owner: owner)
        let second = try await client.submit(envelope)
        #expect(first.kind == .delivered && second.kind == .delivered)
        #expect(first.providerID == second.providerID)
        #expect(await stage.services.received.count == 1)
        await client.close()
        await stage.end()
    }

    @Test func `a forged or replayed request of an owner changes nothing`() async throws {
        let stage = Stage()
        try await stage.start(more: Self.enabled)
        let (client, owner) = (stage.client(), try key(1))
        let (phone, other) = (Phone.new(.iOS, model: "phone"), Phone.new(.iOS, model: "other"))
        for phone in [phone, other] { await stage.services.register(phone) }
        let handle = try await client.register(phone.handleRegistration(), owner: owner, sequence: 10)
        func refusal(_ body: () async throws -> Void) async throws -> Reason? {
            do {
                try await body()
                return nil
            } catch let error as TocsinClient.HandleRefused {
                return error.outcome.reason
            }
        }
        let thief = try key(2)
        #expect(
            try await refusal { try await client.rotate(handle, to: other.handleRegistration(), owner: thief) }
                == .notTheOwner)
        #expect(try await refusal { try await client.forget(handle, owner: thief) } == .notTheOwner)
        // Answered as before, because the bytes are the same.
        try await client.rotate(handle, to: other.handleRegistration(), owner: owner, sequence: 11)
        try await client.rotate(handle, to: other.handleRegistration(), owner: owner, sequence: 11)
        try await client.rotate(handle, to: phone.handleRegistration(), owner: owner, sequence: 12)
        #expect(
            try await refusal {
                try await client.rotate(handle, to: other.handleRegistration(), owner: owner, sequence: 11)
            } == .notTheOwner)
        let pairing = try PairingToken(phone.pairingToken(by: handle))
        #expect(try await ring(pairing, client).kind == .delivered)
        #expect(await stage.services.received.map(\.deviceToken) == [phone.deviceToken])

        try await client.forget(handle, owner: owner, sequence: 13)
        try await client.forget(handle, owner: owner, sequence: 13)
        let gone = try await ring(pairing, client)
        #expect(gone.kind == .gone && gone.reason == .unknownHandle)
        // Who has recorded the REGISTER cannot revive the handle.
        #expect(
            try await refusal {
                _ = try await client.register(phone.handleRegistration(), owner: owner, sequence: 10)
            } == .notTheOwner)
        let unknown = try #require(Handle([UInt8](repeating: 7, count: 32)))
        #expect(try await refusal { try await client.forget(unknown, owner: owner) } == .unknownHandle)
        await client.close()
        await stage.end()
    }

    @Test func `only listed senders and the owner ring a handle with sender keys`() async throws {
        let stage = Stage()
        try await stage.start(more: Self.enabled)
        let (client, owner, first, second) = (stage.client(), try key(1), try key(2), try key(3))
        let phone = Phone.new(.iOS, model: "phone")
        await stage.services.register(phone)
        let handle = try await client.register(
            phone.handleRegistration(senderKeys: [first.publicKey, second.publicKey]), owner: owner)
        let pairing = try PairingToken(phone.pairingToken(by: handle))
        for key in [first, second, owner] {
            #expect(try await ring(pairing, client, signedBy: key).kind == .delivered)
        }
        #expect(try await ring(pairing, client).reason == .senderKeyRequired)
        #expect(try await ring(pairing, client, signedBy: try key(4)).reason == .senderKeyMismatch)
        // The device token is bound to the owner, so that neither a sender who knows it nor another owner gets around the list.
        #expect(try await ring(phone.pairing, client).reason == .senderKeyRequired)
        #expect(try await ring(phone.pairing, client, signedBy: first).reason == .senderKeyMismatch)
        let stranger = try key(5)
        let other = try await client.register(phone.handleRegistration(), owner: stranger)
        let refused = try await ring(try PairingToken(phone.pairingToken(by: other)), client, signedBy: stranger)
        #expect(refused.reason == .senderKeyMismatch)
        await client.close()
        await stage.end()
    }

    @Test func `a phone whose handle has ended rings by its device token again`() async throws {
        let (stage, client, owner, phone, handle) = try await registered(.iOS)
        #expect(try await ring(try PairingToken(phone.pairingToken(by: handle)), client).kind == .delivered)
        #expect(try await ring(phone.pairing, client).reason == .senderKeyRequired)
        try await client.forget(handle, owner: owner)
        #expect(try await ring(phone.pairing, client).kind == .delivered)
        await client.close()
        await stage.end()
    }

    @Test func `a notification that was accepted before FORGET does not bind the phone again`() async throws {
        let (stage, client, owner, phone, handle) = try await registered(.iOS)
        let pairing = try PairingToken(phone.pairingToken(by: handle))
        try await stage.services.apply(FaultDirective("apns-production latency=fixed:1500"))
        async let late = ring(pairing, client)
        for _ in 0..<6000 where await stage.services.requests(.apnsProduction) == 0 {
            try await Task.sleep(for: .milliseconds(20))
        }
        try await client.forget(handle, owner: owner)
        #expect(try await late.kind == .delivered)
        #expect(try await ring(phone.pairing, client).kind == .delivered)
        await client.close()
        await stage.end()
    }

    @Test func `a handle that is registered again after its end is like a new one`() async throws {
        let (stage, client, owner, phone, first) = try await registered(.iOS)
        try await client.forget(first, owner: owner)
        let second = try await client.register(phone.handleRegistration(), owner: owner)
        #expect(first == second)
        #expect(try await ring(try PairingToken(phone.pairingToken(by: second)), client).kind == .delivered)
        // It has bound the phone.
        #expect(try await ring(phone.pairing, client).reason == .senderKeyRequired)
        await client.close()
        await stage.end()
    }

    @Test func `a desktop keeps its pairing while the handle waits for a device token, and loses it with the handle`()
        async throws
    {
        let stage = Stage()
        try await stage.start(more: Self.enabled)
        let owner = try key(1)
        let gone = Mutex(0)
        let client = TocsinClient(
            TocsinClient.Options(nodes: [stage.socket], patience: .zero), on: stage.loop,
            onGone: { _ in gone.withLock { $0 += 1 } })
        let phone = Phone.new(.iOS, model: "phone")
        await stage.services.register(phone)
        let handle = try await client.register(phone.handleRegistration(), owner: owner)
        let pairing = try PairingToken(phone.pairingToken(by: handle))
        await client.remember(pairing)
        #expect(try await ring(pairing, client).kind == .delivered)
        _ = await stage.services.giveNewDeviceToken(to: phone)
        #expect(try await ring(pairing, client).reason == .unregistered)
        #expect(await client.pairings.count == 1 && gone.withLock { $0 } == 0)
        try await client.forget(handle, owner: owner)
        #expect(try await ring(pairing, client).reason == .unknownHandle)
        #expect(await client.pairings.isEmpty && gone.withLock { $0 } == 1)
        await client.close()
        await stage.end()
    }

    @Test func `a circuit that registers again and again uses up what it may try`() async throws {
        let stage = Stage()
        try await stage.start(gates: "[limits]\nabuse_burst = 3\nabuse_per_minute = 1", more: Self.enabled)
        let client = stage.client(
            TocsinClient.Options(nodes: [stage.socket], patience: .zero, isolatesPhones: false))
        var reasons: [Reason?] = []
        for number in 1...4 as ClosedRange<UInt8> {
            do {
                _ = try await client.register(
                    Phone.new(.iOS, model: "phone").handleRegistration(), owner: try key(number))
                reasons.append(nil)
            } catch let error as TocsinClient.HandleRefused {
                reasons.append(error.outcome.reason)
            }
        }
        #expect(reasons == [nil, nil, nil, .tooManyUnproven])
        await client.close()
        await stage.end()
    }

    @Test func `the owner can be the key that has bound the phone`() async throws {
        let stage = Stage()
        try await stage.start(more: Self.enabled)
        let client = stage.client()
        let phone = Phone.new(.iOS, model: "phone")
        await stage.services.register(phone)
        let bound = Ed25519.PrivateKey(ofSenderFor: phone.pairing)
        #expect(try await ring(phone.pairing, client, signedBy: bound).kind == .delivered)
        let handle = try await client.register(phone.handleRegistration(), owner: bound)
        #expect(try await ring(try PairingToken(phone.pairingToken(by: handle)), client).kind == .delivered)
        // Both ways stay open to who has the pairing.
        #expect(try await ring(phone.pairing, client, signedBy: bound).kind == .delivered)
        await client.close()
        await stage.end()
    }

    @Test func `many handles of a device token share its allowance`() async throws {
        let stage = Stage()
        // Without sender keys, because the device token would be bound to the first owner.
        let gates = "[senders]\nmode = \"off\"\n[limits]\ndevice_burst = 3\ndevice_per_minute = 1"
        try await stage.start(gates: gates, more: Self.enabled)
        let client = stage.client()
        let phone = Phone.new(.iOS, model: "phone")
        await stage.services.register(phone)
        var (outcomes, handles): ([Outcome.Kind], Set<Handle>) = ([], [])
        for number in 1...4 as ClosedRange<UInt8> {
            let handle = try await client.register(phone.handleRegistration(), owner: try key(number))
            handles.insert(handle)
            outcomes.append(try await ring(try PairingToken(phone.pairingToken(by: handle)), client).kind)
        }
        #expect(handles.count == 4)
        #expect(outcomes == [.delivered, .delivered, .delivered, .retry])
        await client.close()
        await stage.end()
    }

    @Test func `a restart keeps handles, and no file of the state directory has a device token`() async throws {
        let stage = Stage()
        let endpoints = try await stage.start(more: Self.enabled)
        let (client, owner) = (stage.client(), try key(1))
        let phones = [Phone.new(.iOS, model: "phone"), Phone.new(.android, model: "phone")]
        var pairings: [PairingToken] = []
        var tokens: [String] = []
        for phone in phones {
            await stage.services.register(phone)
            let handle = try await client.register(phone.handleRegistration(), owner: owner)
            pairings.append(try PairingToken(phone.pairingToken(by: handle)))
            #expect(try await ring(pairings.last!, client).kind == .delivered)
            let renewed = await stage.services.giveNewDeviceToken(to: phone)
            try await client.rotate(handle, to: renewed.handleRegistration(), owner: owner)
            tokens += [phone.deviceToken, renewed.deviceToken]
        }
        // While the node runs, so that the write-ahead logs are searched, too.
        try expectNoFile(
            of: "\(stage.directory)/state", containsAnyOf: tokens + pairings.map { Hex.encode($0.address) })
        _ = await stage.stopNode()
        try await stage.startNode(stage.configuration(endpoints, more: Self.enabled))
        for pairing in pairings { #expect(try await ring(pairing, client, title: "2").kind == .delivered) }
        try expectNoFile(
            of: "\(stage.directory)/state", containsAnyOf: tokens + pairings.map { Hex.encode($0.address) })
        await client.close()
        await stage.end()
    }

    private func expectNoFile(of directory: String, containsAnyOf texts: [String]) throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: directory)
        #expect(names.contains("handles.sqlite-wal"))
        for name in names {
            guard let content = FileManager.default.contents(atPath: "\(directory)/\(name)") else { continue }
            for text in texts {
                let forms = [Data(text.utf8), Data(text.uppercased().utf8), Hex.decode(text).map { Data($0) }]
                #expect(!forms.compactMap(\.self).contains { content.range(of: $0) != nil }, "\(name)")
            }
        }
    }

    @Test func `desktops of today ring a phone by handle over HTTP`() async throws {
        let (stage, client, owner, phone, handle) = try await registered(.iOS)
        func post(_ path: String) async throws -> HTTPAnswer {
            try await stage.ask(RequestBytes.post(path, RequestBytes.push(RequestBytes.pipe("BisqMessageAndroid"))))
        }
        let path = "/v1/handle/\(Hex.encode(handle.bytes))"
        #expect(try await post(path).status == 200)
        // A pairing token for Android makes a desktop of today take the handle for a device token.
        let androidToken = phone.pairingToken(by: handle).replacing("iOS|", with: "android|")
        let envelope = try Sealer(try PairingToken(androidToken)).seal(Array("{}".utf8))
        let relayed = try await stage.ask(BisqRelayRequest(envelope).bytes(host: "localhost"))
        #expect(relayed.status == 200 && String(decoding: relayed.body, as: UTF8.self) == "success")
        #expect(await stage.services.received.map(\.deviceToken) == [phone.deviceToken, phone.deviceToken])

        let unknown = try await post("/v1/handle/\(String(repeating: "0", count: 64))")
        #expect(unknown.status == 400)
        #expect(String(decoding: unknown.body, as: UTF8.self).contains("\"isUnregistered\":true"))
        #expect(try await post("/v1/handle/abc").status == 400)
        // The phone has another device token: the desktop must keep its registration until the owner rotates the handle.
        let renewed = await stage.services.giveNewDeviceToken(to: phone)
        let escaped = handle.text.replacing(":", with: "%3A")
        for path in [path, "/v1/fcm/device/\(handle.text)", "/v1/apns/device/\(escaped)"] {
            let gone = try await post(path)
            #expect(gone.status == 400)
            #expect(String(decoding: gone.body, as: UTF8.self).contains("\"isUnregistered\":false"))
        }
        try await client.rotate(handle, to: renewed.handleRegistration(), owner: owner)
        #expect(try await post(path).status == 200)
        await client.close()
        await stage.end()
    }

    /// The command lines that know handles.
    static let commandLines = [
        [".build/debug/tocsin"],
        ["java", "-cp", "Clients/java/target/classes:/usr/share/java/bcprov.jar", "org.tocsin.client.Main"],
        ["env", "PYTHONPATH=Clients/python", "/usr/bin/python3", "-m", "tocsin_client"],
    ]

    @Test(arguments: commandLines)
    func `a phone registers, rotates and ends its handle on the command line`(_ command: [String]) async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let port = try await stage.reservePort()
        let text = stage.configuration(endpoints, gates: "[puzzle]\nmode = \"always\"", more: Self.enabled)
        try await stage.startNode(text.replacing("unix:tnp.sock", with: "127.0.0.1:\(port)"))
        func run(_ arguments: [String], input: String = "") async throws -> (isSuccess: Bool, text: String) {
            try await ChildProcess.output(
                of: command[0],
                Array(command.dropFirst()) + arguments + [
                    "--node", "127.0.0.1:\(port)", "--direct", "--timeout", "20",
                ],
                input: input, timeout: .seconds(60))
        }
        let phone = await stage.phone(.iOS)
        let (owner, file) = ("\(stage.directory)/owner.key", "\(stage.directory)/by-handle")
        let registered = try await run(["register", "-", "--owner", owner], input: phone.pairingToken)
        try #require(registered.isSuccess, "\(registered.text)")
        let byHandle = try PairingToken(String(registered.text.dropLast()))
        #expect(byHandle.handle != nil && byHandle.descriptor == phone.model)
        try PrivateFile.create(file, holding: Array(registered.text.utf8))
        // Registered again, the phone has the same handle and owner.
        #expect(try await run(["register", "-", "--owner", owner], input: phone.pairingToken).text == registered.text)
        func send() async throws -> (isSuccess: Bool, text: String) {
            try await run(["send", "-", "--title", "Zpráva"], input: registered.text)
        }
        #expect(try await send().text.hasPrefix("delivered"))
        let renewed = await stage.services.giveNewDeviceToken(to: phone)
        #expect(try await send().text.contains("rotate"))
        let about = ["--handle", "@\(file)", "--owner", owner]
        let rotated = try await run(["rotate", "-"] + about, input: renewed.pairingToken)
        #expect(rotated.text == "rotated\n")
        #expect(try await send().text.hasPrefix("delivered"))
        #expect(await stage.services.received.map(\.deviceToken) == [phone.deviceToken, renewed.deviceToken])
        let stolen = "\(stage.directory)/stolen.key"
        try PrivateFile.create(stolen, holding: SecureRandom.bytes(32))
        let refused = try await run(["forget", "--handle", "@\(file)", "--owner", stolen])
        #expect(!refused.isSuccess && refused.text.contains("311"), "\(refused.text)")
        #expect(try await run(["forget"] + about).text == "forgotten\n")
        let ended = try await send()
        #expect(!ended.isSuccess && ended.text.contains("handle"), "\(ended.text)")
        await stage.end()
    }

    @Test func `a node that keeps no handles says so`() async throws {
        let stage = Stage()
        try await stage.start()
        let client = stage.client()
        let phone = Phone.new(.iOS, model: "phone")
        let error = await #expect(throws: TocsinClient.HandleRefused.self) {
            try await client.register(phone.handleRegistration(), owner: try key(1))
        }
        #expect("\(try #require(error))".contains("this node keeps no handles"))
        let pairing = try PairingToken(phone.pairingToken(by: try #require(Handle([UInt8](repeating: 7, count: 32)))))
        let other = stage.client()
        #expect(try await ring(pairing, other).reason == .unsupportedField)
        let answer = try await stage.ask(
            BisqRelayRequest(try Sealer(pairing).seal(Array("{}".utf8))).bytes(host: "localhost"))
        #expect(answer.status == 400)
        await client.close()
        await other.close()
        await stage.end()
    }

    @Test func `REGISTER needs the proof of work of an unproven device token`() async throws {
        let stage = Stage()
        try await stage.start(gates: "[puzzle]\nmode = \"always\"", more: Self.enabled)
        let (client, lazy) = (
            stage.client(), stage.client(TocsinClient.Options(nodes: [stage.socket], workLimit: .zero, patience: .zero))
        )
        let phone = Phone.new(.iOS, model: "phone")
        await stage.services.register(phone)
        let error = await #expect(throws: TocsinClient.HandleRefused.self) {
            try await lazy.register(phone.handleRegistration(), owner: try key(1))
        }
        #expect(error?.outcome.reason == .proofRequired)
        let handle = try await client.register(phone.handleRegistration(), owner: try key(1))
        #expect(try await ring(try PairingToken(phone.pairingToken(by: handle)), client).kind == .delivered)
        for client in [client, lazy] { await client.close() }
        await stage.end()
    }
}
