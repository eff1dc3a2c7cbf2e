// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Foundation
import TNP
import TestSupport
import Testing

@testable import TocsinPhone

/// The phone's side against the vectors, which another implementation makes, and against libsodium.
@Suite(.tags(.computing)) struct PhoneVectorTests {
    private let apple = String(repeating: "a1", count: 32)

    private func pairing(_ key: String, format: String) throws -> PhonePairing {
        let text = format == "pipe" ? key : Data(hex(key)).base64EncodedString()
        return try PhonePairing("iOS|phone|\(text)|\(apple)")
    }

    @Test func `BLAKE2b has the hashes of libsodium`() {
        var generator = SystemRandomNumberGenerator()
        for length in Array(0...300) + [1000, 4096] {
            let bytes = (0..<length).map { _ in UInt8.random(in: 0...255, using: &generator) }
            for keyLength in [0, 16, 32, 64] {
                let key = (0..<keyLength).map { _ in UInt8.random(in: 0...255, using: &generator) }
                let expected =
                    key.isEmpty ? Cryptography.BLAKE2b.hash256(bytes) : Cryptography.BLAKE2b.hash256(bytes, key: key)
                #expect(
                    TocsinPhone.BLAKE2b.hash(bytes, key: key) == expected.bytes, "\(length) bytes, key of \(keyLength)")
            }
            let half = length / 2
            var hash = TocsinPhone.BLAKE2b()
            hash.update(bytes[..<half])
            _ = hash.finished()
            hash.update(bytes[half...])
            #expect(hash.finished() == Cryptography.BLAKE2b.hash256(bytes).bytes, "\(length) bytes in two parts")
        }
    }

    @Test(arguments: Vectors.all.sealing.indices)
    func `each sealed notification opens`(_ index: Int) throws {
        let vector = Vectors.all.sealing[index]
        let text = try pairing(vector.key, format: vector.format).open(vector.delivered)
        #expect(text == Array(vector.plaintext.utf8))
    }

    @Test func `Web Push opens the message of RFC 8291, and what the desktop seals`() throws {
        // Appendix A of RFC 8291.
        let privateKey = try #require(Base64.decodeURLSafe(Array("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94".utf8)))
        let secret = try #require(Base64.decodeURLSafe(Array("BTBZMqHH6r4Tts7J_aSIgg".utf8)))
        let receiver = try #require(WebPushReceiver(privateKey: privateKey, secret: secret))
        for vector in Vectors.all.web_push {
            #expect(receiver.publicKeyText == vector.p256dh && receiver.secretText == vector.auth)
            let pairing = PhonePairing(endpoint: "https://push.example/x", receiver: receiver, descriptor: "phone")
            #expect(try pairing.open(webPush: hex(vector.ciphertext)) == Array(vector.plaintext.utf8))
            #expect(throws: PhoneError.self) { try pairing.open(webPush: hex(vector.ciphertext).dropLast() + [0]) }
            #expect(throws: PhoneError.self) { try pairing.open(webPush: Array(hex(vector.ciphertext).prefix(80))) }
        }
    }

    @Test func `each notification vector is read`() throws {
        for vector in Vectors.all.notifications {
            let notification = try PhoneNotification(Array((vector.text + "   ").utf8))
            #expect(notification.version == 1 && notification.kind.rawValue == vector.type)
            #expect(notification.title == vector.title && notification.message == vector.message)
            #expect(notification.sentDate == vector.sent_date && notification.transactionID == vector.tx_id)
            #expect(notification.actionRequired == vector.action_required)
        }
        let later =
            #"{"version":2,"type":"CHAT","title":"a","message":"b","sentDate":1,"more":[{}],"txId":null}"#
        let notification = try PhoneNotification(Array(later.utf8))
        #expect(notification.kind == PhoneNotification.Kind(rawValue: "CHAT") && notification.transactionID.isEmpty)
        for wrong in ["", "{}", "[]", #"{"version":1,"type":"TRADE","title":"secret","message":1,"sentDate":1}"#] {
            let error = #expect(throws: PhoneError.self) { try PhoneNotification(Array(wrong.utf8)) }
            #expect("\(error!)".contains("secret") == false)
        }
    }

    @Test func `sender keys are the desktop's`() throws {
        for vector in Vectors.all.sender_keys where vector.device_token?.hasPrefix("https:") != true {
            // The vector has the key as it stands in the pairing token.
            let token = vector.handle.map { "handle:\($0)" } ?? vector.device_token!
            let pairing = try PhonePairing("android|phone|\(vector.key)|\(token)")
            #expect(pairing.senderKey == hex(vector.sender_key), "\(vector.name)")
        }
    }

    @Test(arguments: Vectors.all.handle_signatures.indices)
    func `each valid request about a handle has its bytes`(_ index: Int) throws {
        let vector = Vectors.all.handle_signatures[index]
        guard vector.holds else { return }
        var decoder = FrameDecoder(maximumLength: 8192)
        decoder.append(hex(vector.bytes))
        let publicKey = hex(vector.onion)
        guard case .handleRequest(let fields) = try Message(try #require(try decoder.next())) else {
            Issue.record("no request about a handle")
            return
        }
        let expected = try fields.checked(at: [try #require(SignedOnion(publicKey: publicKey))])
        func phone(_ registration: HandleRequest.Registration) throws -> PhonePairing {
            try PhonePairing(
                "\(registration.magic.rawValue)|x|\(String(repeating: "k", count: 32))|"
                    + String(decoding: registration.deviceToken, as: UTF8.self))
        }
        var (action, keys): (HandleCall.Action, [[UInt8]])
        switch expected.action {
        case .register(let app, _, let registration):
            (action, keys) = (
                .register(try phone(registration), app: String(decoding: app, as: UTF8.self)), registration.senderKeys
            )
        case .rotate(let handle, let registration):
            (action, keys) = (
                .rotate(try #require(PhoneHandle(handle.text)), try phone(registration)), registration.senderKeys
            )
        case .forget(let handle): (action, keys) = (.forget(try #require(PhoneHandle(handle.text))), [])
        }
        let host = publicKey.allSatisfy { $0 == 0 } ? "127.0.0.1" : OnionAddress(publicKey: publicKey)!.description
        let owner = try #require(HandleOwner(seed: hex(vector.private_seed)))
        #expect(owner.publicKey == hex(vector.owner))
        let node = try #require(NodeHost(host))
        let call = try HandleCall(action, senderKeys: keys, sequence: expected.sequence, at: node, by: owner)
        #expect(call.digest == hex(vector.hash))
        let proof = expected.proof.map { $0.seedPrefix + Text.bytes($0.effort) + Text.bytes($0.nonce) }
        #expect(Hex.encode(call.frame(request: expected.request, proof: proof)) == vector.bytes)
    }

    @Test func `a proof for a challenge is one for the node`() throws {
        let owner = HandleOwner()
        let phone = PhonePairing(.iOS, deviceToken: apple, descriptor: "phone")
        let node = try #require(NodeHost("127.0.0.1"))
        let call = try HandleCall(.register(phone, app: ""), sequence: 1, at: node, by: owner)
        let seed = [UInt8](repeating: 9, count: 16)
        let json =
            #"{"seed":"\#(Hex.encode(seed))","effort":500,"lifetime":60,"onion":"\#(String(repeating: "0", count: 64))"}"#
        let proof = try #require(try HandleChallenge(Array(json.utf8)).solve(for: call))
        let digest = try #require(Digest256(call.digest))
        let puzzle = Puzzle(seed: seed, effort: 500, lifetime: 60)
        let read = Proof(
            seedPrefix: Array(proof.prefix(4)), effort: UInt32(Text.number(proof[4..<8])),
            nonce: Text.number(proof[8..<16]))
        #expect(puzzle.isValid(read, for: digest))
        #expect(throws: PhoneError.self) { try HandleChallenge(Array("{}".utf8)) }
    }
}
