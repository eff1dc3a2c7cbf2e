// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Foundation
import StandIns
import TestSupport
import Testing

@testable import TNP
@testable import Tor

@Suite(.tags(.computing)) struct VectorTests {
    /// The seed and the onion's key of the AUTH vectors.
    private static let seed = "adc7de8b077bf8d34556576fe70c1c9a"
    private static let onionKey = "3298cb98df4bf6acf28e8f4b65c59d2b38d2b43938b7fd9fa75c186ca31328d2"

    private func onion(_ key: String) throws -> SignedOnion { try #require(SignedOnion(publicKey: hex(key))) }

    @Test(arguments: Vectors.all.messages.indices)
    func `every message vector decodes to its fields and encodes byte for byte`(_ index: Int) throws {
        let vector = Vectors.all.messages[index]
        let bytes = hex(vector.bytes)
        var decoder = FrameDecoder(maximumLength: 65_536)
        decoder.append(bytes)
        let frame = try #require(try decoder.next())
        #expect(!decoder.isWithinFrame)
        var written: [UInt8] = []
        switch try Message(frame) {
        case .hello(let hello):
            #expect(vector.type == "HELLO")
            #expect(hello.lowestVersion == vector.lowest)
            #expect(hello.highestVersion == vector.highest)
            #expect(hello.agent == vector.agent)
            written.append(hello)
        case .welcome(let welcome):
            #expect(vector.type == "WELCOME")
            #expect(welcome.version == vector.version)
            #expect(welcome.features.rawValue == vector.features)
            #expect(welcome.maximumFrame == vector.max_frame)
            #expect(welcome.maximumInFlight == vector.max_in_flight)
            #expect(welcome.idleTimeout == vector.idle_timeout)
            #expect(String(welcome.serverTime) == vector.server_time)
            #expect(welcome.puzzle.seed == hex(vector.puzzle?.seed ?? ""))
            #expect(welcome.puzzle.effort == vector.puzzle?.effort)
            #expect(welcome.puzzle.lifetime == vector.puzzle?.lifetime)
            #expect(welcome.routes == vector.routes)
            written.append(welcome)
        case .submit(let fields):
            #expect(vector.type == "SUBMIT")
            written = try checkSubmission(fields, vector) ?? bytes
        case .result(let result):
            #expect(vector.type == "RESULT")
            #expect(result.request == vector.request)
            #expect(result.outcome.kind.rawValue == vector.outcome)
            #expect(result.outcome.reason.rawValue == vector.reason)
            #expect(result.outcome.retryAfter == vector.retry_after)
            #expect(result.outcome.providerID == vector.provider_id)
            #expect(result.outcome.text == vector.text)
            #expect(result.outcome.goneSince.map { String($0) } == vector.gone_since)
            #expect(result.outcome.left == vector.left)
            #expect(result.outcome.fullIn == vector.full_in)
            written.append(result)
            if vector.unknown != nil { written = bytes }
        case .ping(let opaque):
            #expect(vector.type == "PING")
            #expect(Array(opaque) == hex(vector.opaque ?? ""))
            written.append(ping: opaque)
        case .pong(let opaque):
            #expect(vector.type == "PONG")
            #expect(Array(opaque) == hex(vector.opaque ?? ""))
            written.append(pong: opaque)
        case .puzzle(let puzzle):
            #expect(vector.type == "PUZZLE")
            #expect(puzzle.seed == hex(vector.seed ?? ""))
            #expect(puzzle.effort == vector.effort)
            #expect(puzzle.lifetime == vector.lifetime)
            written.append(puzzle)
        case .goAway(let goAway):
            #expect(vector.type == "GOAWAY")
            #expect(goAway.code.rawValue == vector.code)
            #expect(goAway.retryAfter == vector.retry_after)
            #expect(goAway.text == vector.text)
            written.append(goAway)
        case .handleRequest(let fields):
            let request = try fields.checked(at: [.none, onion(Self.onionKey)])
            try check(request, vector)
            written.append(request)
        case .registered(let result):
            #expect(vector.type == "REGISTERED")
            #expect(result.request == vector.request)
            #expect(result.outcome.kind.rawValue == vector.outcome && result.outcome.reason.rawValue == vector.reason)
            #expect(result.outcome.retryAfter == vector.retry_after)
            #expect(result.handle.map { Hex.encode($0.bytes) } == vector.handle)
            written.append(result)
        case .authentication(let authentication):
            #expect(vector.type == "AUTH")
            #expect(Array(authentication.key) == vector.site_key.map(hex))
            #expect(Array(authentication.signature) == vector.site_signature.map(hex))
            let signed = vector.name.contains("without") ? .none : try onion(Self.onionKey)
            #expect(authentication.isValid(seed: hex(Self.seed), onion: signed))
            let other = try #require(SignedOnion(publicKey: [UInt8](repeating: 1, count: 32)))
            #expect(!authentication.isValid(seed: hex(Self.seed), onion: other))
            #expect(!authentication.isValid(seed: [UInt8](repeating: 1, count: 16), onion: signed))
            written.append(authentication)
        case .authenticated(let result):
            #expect(vector.type == "AUTHED")
            #expect(result.kind.rawValue == vector.outcome && result.reason.rawValue == vector.reason)
            #expect(result.name == vector.site_name)
            #expect(result.isAccepted == (result.kind == .delivered))
            written.append(result)
        case .skipped: Issue.record("\(vector.name) was skipped")
        }
        #expect(Hex.encode(written) == vector.bytes, "\(vector.name)")
    }

    /// - Returns: the re-encoded submission; `nil` if the vector spells out a default or has unknown fields, which the
    ///   encoder omits.
    private func checkSubmission(_ fields: SubmissionFields, _ vector: Vectors.MessageVector) throws -> [UInt8]? {
        let format: EnvelopeFormat = hex(vector.iv ?? "").count == 12 ? .sealed : .pipe
        let phone: (magic: Magic, deviceToken: [UInt8]) = (.android, Array("the-phone's".utf8))
        let submission = try fields.checked(format: format, phone: vector.handle == nil ? nil : phone)
        let envelope = submission.envelope
        #expect(submission.request == vector.request)
        #expect(envelope.handle.map { Hex.encode($0.bytes) } == vector.handle)
        #expect(envelope.magic.rawValue == vector.magic ?? "android")
        #expect(String(decoding: envelope.deviceToken, as: UTF8.self) == vector.device_token ?? "the-phone's")
        #expect(Array(envelope.iv) == hex(vector.iv ?? ""))
        #expect(Array(envelope.ciphertext) == hex(vector.ciphertext ?? ""))
        #expect(envelope.ttl == vector.ttl ?? Envelope.maximumTTL)
        #expect(envelope.priority.rawValue == vector.priority ?? 10)
        #expect(envelope.sound == (vector.sound ?? 1 == 1))
        #expect(envelope.collapseID.map { String(decoding: $0, as: UTF8.self) } == vector.collapse_id)
        #expect(submission.acceptQueued == (vector.accept_queued == 1))
        #expect(envelope.hops == vector.hops ?? 0)
        #expect(String(decoding: envelope.app, as: UTF8.self) == vector.app ?? "")
        #expect(submission.proof?.seedPrefix == vector.proof.map { hex($0.seed_prefix) })
        #expect(submission.proof?.effort == vector.proof?.effort)
        #expect(submission.proof.map { String($0.nonce) } == vector.proof?.nonce)
        #expect(submission.envelope.signature.map { Array($0.key) } == vector.sender_key.map(hex))
        #expect(submission.envelope.signature.map { Array($0.signature) } == vector.signature.map(hex))
        #expect(
            submission.envelope.signature?.succession.map { Array($0.key + $0.signature) }
                == vector.succession.map(hex))
        let spellsOutDefaults =
            vector.ttl == Envelope.maximumTTL || vector.priority == 10 || vector.sound == 1 || vector.accept_queued == 0
        if spellsOutDefaults || vector.unknown != nil { return nil }
        var written: [UInt8] = []
        guard let handle = envelope.handle else {
            written.append(submission)
            return written
        }
        // As a sender encodes it, which does not know the device token.
        let sent = try Envelope(
            app: envelope.app, magic: .iOS, deviceToken: [], handle: handle, iv: envelope.iv,
            ciphertext: envelope.ciphertext, format: format)
        #expect(sent.digest == envelope.digest)
        #expect(envelope.signature?.isValid(for: envelope.digest) != false)
        written.append(
            Submission(
                request: submission.request, envelope: sent, proof: submission.proof, signature: envelope.signature))
        return written
    }

    private func check(_ request: HandleRequest, _ vector: Vectors.MessageVector) throws {
        #expect(request.request == vector.request)
        #expect(String(request.sequence) == vector.sequence)
        #expect(Hex.encode(request.signature) == vector.owner_signature)
        #expect(request.proof?.effort == vector.proof?.effort)
        let registration: HandleRequest.Registration?
        switch request.action {
        case .register(let app, let owner, let registered):
            #expect(vector.type == "REGISTER")
            #expect(String(decoding: app, as: UTF8.self) == vector.app ?? "")
            #expect(Hex.encode(owner) == vector.owner)
            registration = registered
        case .rotate(let handle, let rotated):
            #expect(vector.type == "ROTATE" && Hex.encode(handle.bytes) == vector.handle)
            registration = rotated
        case .forget(let handle):
            #expect(vector.type == "FORGET" && Hex.encode(handle.bytes) == vector.handle)
            registration = nil
        }
        #expect(registration?.magic.rawValue == vector.magic)
        #expect(registration.map { String(decoding: $0.deviceToken, as: UTF8.self) } == vector.device_token)
        #expect((registration?.senderKeys ?? []).map { Hex.encode($0) }.joined() == vector.sender_keys ?? "")
    }

    @Test(arguments: Vectors.all.handle_signatures.indices)
    func `every request of an owner has its recorded hash, and its signature verifies as recorded`(_ index: Int) throws
    {
        let vector = Vectors.all.handle_signatures[index]
        var decoder = FrameDecoder(maximumLength: 65_536)
        decoder.append(hex(vector.bytes))
        guard case .handleRequest(let fields) = try Message(try #require(try decoder.next())) else {
            Issue.record("not a request of an owner")
            return
        }
        let onion = try onion(vector.onion)
        guard vector.holds || vector.type != "REGISTER" else {
            #expect(throws: Rejection(.notTheOwner)) { try fields.checked(at: [onion]) }
            return
        }
        let request = try fields.checked(at: [onion])
        #expect(Hex.encode(request.hash.bytes) == vector.hash)
        #expect(request.isSigned(by: hex(vector.owner)) == vector.holds)
        #expect(!request.isSigned(by: [UInt8](repeating: 3, count: 32)))
        // The same request, made here, is the same bytes.
        let key = try #require(Ed25519.PrivateKey(seed: hex(vector.private_seed)))
        var made = HandleRequest(
            request: request.request, request.action, sequence: request.sequence, at: onion, by: key)
        made.proof = request.proof
        #expect((made.signature == request.signature) == vector.holds)
        var written: [UInt8] = []
        written.append(made)
        if vector.holds { #expect(Hex.encode(written) == vector.bytes) }
    }

    @Test func `a REGISTER that its owner has not signed is not the owner's`() throws {
        let vector = try #require(Vectors.all.handle_signatures.first { $0.type == "REGISTER" })
        var bytes = hex(vector.bytes)
        bytes[bytes.count - 1] ^= 1
        guard case .handleRequest(let fields) = try Message(Frame(type: bytes[4], payload: bytes[5...])) else {
            Issue.record("not a request of an owner")
            return
        }
        let onion = try onion(vector.onion)
        #expect(throws: Rejection(.notTheOwner)) { try fields.checked(at: [onion]) }
    }

    @Test func `a request is valid at each onion of the node that it was signed for, and at no other node`() throws {
        let vector = try #require(Vectors.all.handle_signatures.first { $0.type == "REGISTER" })
        let bytes = hex(vector.bytes)
        guard case .handleRequest(let fields) = try Message(Frame(type: bytes[4], payload: bytes[5...])) else {
            Issue.record("not a request of an owner")
            return
        }
        let (own, other) = try (onion(vector.onion), onion(String(repeating: "07", count: 32)))
        #expect(try fields.checked(at: [other, own]).isSigned(by: hex(vector.owner)))
        #expect(throws: Rejection(.notTheOwner)) { try fields.checked(at: [other, .none]) }
        #expect(throws: Rejection(.notTheOwner)) { try fields.checked(at: []) }
    }

    @Test(
        arguments: [
            // tag, the value that replaces it (nil: none), the reason
            (0x01, nil, .malformed), (0x01, "windows", .unknownMagic), (0x02, "", .deviceTokenFormat),
            (0x0B, String(repeating: "h", count: 32), .unsupportedField), (0x20, "short", .malformed),
            (0x21, "not a multiple of 32", .malformed), (0x21, String(repeating: "k", count: 9 * 32), .malformed),
            (0x22, "7 bytes", .malformed), (0x22, nil, .malformed), (0x23, "short", .malformed),
            (0x10, "short", .malformed),
            (0x30, "?", .unsupportedField),
        ] as [(UInt8, String?, Reason)])
    func `a faulty REGISTER is rejected with its reason`(tag: UInt8, value: String?, reason: Reason) throws {
        let vector = try #require(Vectors.all.handle_signatures.first { $0.type == "REGISTER" })
        var reader = FieldReader(ByteReader(hex(vector.bytes)[9...], of: "fields"))
        var fields: [UInt8: [UInt8]] = [:]
        while let (tag, value) = try reader.next() { fields[tag] = Array(value) }
        fields[tag] = value.map { Array($0.utf8) }
        var payload: [UInt8] = [0, 0, 0, 1]
        for (tag, value) in fields.sorted(by: { $0.key < $1.key }) {
            payload += [tag, UInt8(value.count >> 8), UInt8(value.count & 0xFF)] + value
        }
        guard case .handleRequest(let request) = try Message(Frame(type: 0x10, payload: payload[...])) else {
            Issue.record("not a request of an owner")
            return
        }
        let rejection = #expect(throws: Rejection.self) { try request.checked(at: [.none]) }
        #expect(rejection?.reason == reason)
    }

    @Test(arguments: Vectors.all.messages.indices)
    func `a message decodes the same from pieces of any size`(_ index: Int) throws {
        let bytes = hex(Vectors.all.messages[index].bytes)
        for size in [1, 2, 3, 5, 7, 64, 1000] {
            var decoder = FrameDecoder(maximumLength: 65_536)
            var frames: [Frame] = []
            for start in stride(from: 0, to: bytes.count, by: size) {
                decoder.append(bytes[start..<min(start + size, bytes.count)])
                while let frame = try decoder.next() { frames.append(frame) }
            }
            #expect(frames.count == 1)
            #expect(frames.first?.type == bytes[4])
            #expect(frames.first.map { Array($0.payload) } == Array(bytes[5...]))
        }
    }

    @Test(arguments: Vectors.all.digests.indices)
    func `every digest vector yields its digest, apns-id and collapse ID`(_ index: Int) throws {
        let vector = Vectors.all.digests[index]
        let iv = hex(vector.iv)
        let envelope = try Envelope(
            app: Array(vector.app.utf8)[...], magic: #require(Magic(rawValue: vector.magic ?? "iOS")),
            deviceToken: Array((vector.device_token ?? "").utf8)[...],
            handle: vector.handle.flatMap { Handle(hex($0)) },
            iv: iv[...], ciphertext: hex(vector.ciphertext)[...], format: iv.count == 12 ? .sealed : .pipe)
        #expect(Hex.encode(envelope.digest.bytes) == vector.digest)
        #expect(String(decoding: envelope.apnsID, as: UTF8.self) == vector.apns_id)
        #expect(String(decoding: envelope.effectiveCollapseID, as: UTF8.self) == vector.collapse_id)
    }

    @Test(arguments: Vectors.all.puzzles.indices)
    func `every puzzle vector verifies as recorded`(_ index: Int) throws {
        let vector = Vectors.all.puzzles[index]
        let digest = try #require(Digest256(hex(vector.digest)))
        let nonce = try #require(UInt64(vector.nonce))
        let hash = Puzzle.hash(seed: hex(vector.seed), digest: digest, effort: vector.effort, nonce: nonce)
        #expect(String(hash, radix: 16) == String(UInt64(vector.hash, radix: 16) ?? 0, radix: 16))
        let puzzle = Puzzle(seed: hex(vector.seed), effort: vector.effort, lifetime: 60)
        let proof = Proof(seedPrefix: Array(hex(vector.seed).prefix(4)), effort: vector.effort, nonce: nonce)
        #expect(puzzle.isValid(proof, for: digest) == vector.holds)
        var other = puzzle
        other.seed[0] ^= 1
        #expect(!other.isValid(proof, for: digest))
    }

    @Test(arguments: Vectors.all.puzzles.indices.filter { Vectors.all.puzzles[$0].name.hasSuffix("smallest nonce") })
    func `solving finds the smallest valid nonce`(_ index: Int) throws {
        let vector = Vectors.all.puzzles[index]
        let puzzle = Puzzle(seed: hex(vector.seed), effort: vector.effort, lifetime: 60)
        let proof = try puzzle.solve(for: #require(Digest256(hex(vector.digest))), tries: 1_000_000)
        #expect(proof.map { String($0.nonce) } == vector.nonce)
        #expect(try puzzle.solve(for: #require(Digest256(hex(vector.digest))), tries: #require(proof).nonce) == nil)
    }

    @Test func `an effort's bound is the largest hash that satisfies it`() {
        for effort: UInt32 in [1, 2, 3, 1000, 20_000, .max] {
            let bound = UInt64.max / UInt64(effort)
            #expect(Puzzle.isSolved(hash: bound, effort: effort))
            if bound < .max { #expect(!Puzzle.isSolved(hash: bound + 1, effort: effort)) }
        }
    }

    @Test func `a proof of effort 0 is never valid`() throws {
        let digest = BLAKE2b.hash256([1])
        let puzzle = Puzzle(seed: [UInt8](repeating: 7, count: 16), effort: 0, lifetime: 60)
        #expect(!puzzle.isValid(Proof(seedPrefix: [7, 7, 7, 7], effort: 0, nonce: 0), for: digest))
    }

    @Test(arguments: Vectors.all.signatures.indices)
    func `every signature vector verifies as recorded`(_ index: Int) throws {
        let vector = Vectors.all.signatures[index]
        let digest = try #require(Digest256(hex(vector.digest)))
        let shown = SenderSignature(key: hex(vector.sender_key)[...], signature: hex(vector.signature)[...])
        #expect(shown.isValid(for: digest) == vector.holds)
        if vector.holds, let key = Ed25519.PrivateKey(seed: hex(vector.private_seed)) {
            #expect(SenderSignature(of: digest, by: key) == shown)
        }
    }

    @Test(arguments: Vectors.all.device_tokens.indices)
    func `the node and pairing tokens have one rule for device tokens`(_ index: Int) throws {
        let vector = Vectors.all.device_tokens[index]
        let magic = try #require(Magic(rawValue: vector.magic))
        let isAccepted = (try? FieldRules.check(deviceToken: Array(vector.device_token.utf8)[...], of: magic)) != nil
        #expect(isAccepted == vector.valid, "\(vector.name)")
        guard magic != .web else { return }
        let text = "\(magic.rawValue)|a phone|A4C595428CAA4C768F60AE7EBFF85852|\(vector.device_token)"
        #expect(((try? PairingToken(text)) != nil) == vector.valid, "\(vector.name)")
    }

    @Test(arguments: Vectors.all.successions.indices)
    func `every succession vector is valid as recorded`(_ index: Int) throws {
        let vector = Vectors.all.successions[index]
        let magic = try #require(Magic(rawValue: vector.magic))
        let phone = DeviceIdentity(Array(vector.device_token.utf8)[...], of: magic)
        let key = hex(vector.sender_key)[...]
        #expect(Succession(hex(vector.succession)[...]).isValid(to: key, of: phone) == vector.holds)
        let earlier = try #require(Ed25519.PrivateKey(seed: hex(vector.earlier_private_seed)))
        let made = Succession(from: earlier, to: key, of: phone)
        #expect((Hex.encode(Array(made.key + made.signature)) == vector.succession) == vector.holds)
    }

    @Test(arguments: Vectors.all.sender_keys.indices)
    func `every pairing derives its recorded sender key`(_ index: Int) throws {
        let vector = Vectors.all.sender_keys[index]
        let address = try #require(vector.device_token ?? vector.handle.map { Handle.prefix + $0 })
        let magic = address.contains(":") ? "android" : "iOS"
        let pairing = try PairingToken("\(magic)|a phone|\(vector.key)|\(address)")
        #expect(pairing.defaultFormat.rawValue == vector.format)
        let key = Ed25519.PrivateKey(ofSenderFor: pairing)
        #expect(Hex.encode(key.publicKey) == vector.sender_key)
        #expect(key.publicKey == Ed25519.PrivateKey(seed: hex(vector.private_seed))?.publicKey)
    }

    @Test(arguments: Vectors.all.sealing.indices)
    func `every sealing vector yields its ciphertext and delivered message`(_ index: Int) throws {
        let vector = Vectors.all.sealing[index]
        let isPipe = vector.format == "pipe"
        let iv = isPipe ? Array(vector.iv.utf8) : hex(vector.iv)
        let key = isPipe ? Array(vector.key.utf8) : hex(vector.key)
        let clearText = Array(vector.plaintext.utf8)
        let padded = clearText + [UInt8](repeating: 32, count: (16 - clearText.count % 16) % 16)
        let ciphertext =
            isPipe
            ? AES256CBC.encrypt(padded, key: key, iv: iv) : AESGCM.seal(clearText, key: key, nonce: iv)
        #expect(ciphertext.map { Hex.encode($0) } == vector.ciphertext)
        let magic = vector.delivered.hasPrefix("BisqMessageAndroid") ? "BisqMessageAndroid" : "BisqMessageiOS"
        let envelope = try Envelope(
            magic: .iOS, deviceToken: Array("ab".utf8)[...], iv: iv[...], ciphertext: hex(vector.ciphertext)[...],
            format: isPipe ? .pipe : .sealed)
        var json = [UInt8(ascii: "\"")]
        envelope.appendDeliveredJSON(format: isPipe ? .pipe : .sealed, messageMagic: Array(magic.utf8), to: &json)
        json.append(UInt8(ascii: "\""))
        #expect(try JSONDecoder().decode(String.self, from: Data(json)) == vector.delivered)
    }

    @Test(arguments: Vectors.all.web_push.indices)
    func `every vector of Web Push yields its message`(_ index: Int) throws {
        let vector = Vectors.all.web_push[index]
        let receiver = try #require(Base64.decodeURLSafe(Array(vector.p256dh.utf8)))
        let secret = try #require(Base64.decodeURLSafe(Array(vector.auth.utf8)))
        let point = hex(vector.ciphertext)[21...].prefix(P256.publicKeyLength)
        let sender = try #require(P256.PrivateKey(hex(vector.sender_private_key), publicKey: Array(point)))
        let message = WebPushContent.seal(
            Array(vector.plaintext.utf8), for: receiver, secret: secret, sender: sender, salt: hex(vector.salt))
        #expect(message.map { Hex.encode($0) } == vector.ciphertext)
    }

    @Test(arguments: Vectors.all.rejected.indices)
    func `every faulty submission is rejected with its reason`(_ index: Int) throws {
        let vector = Vectors.all.rejected[index]
        var decoder = FrameDecoder(maximumLength: 65_536)
        decoder.append(hex(vector.bytes))
        let frame = try #require(try decoder.next())
        guard case .submit(let fields) = try Message(frame) else {
            Issue.record("not a SUBMIT")
            return
        }
        let rejection = #expect(throws: Rejection.self) {
            try fields.checked(format: #require(EnvelopeFormat(rawValue: vector.format)))
        }
        #expect(rejection?.reason.rawValue == vector.reason, "\(vector.name)")
    }

    @Test(.tags(.sockets)) func `a second implementation reproduces every vector`() async throws {
        let script = Vectors.file.deletingLastPathComponent().appending(path: "tnp1.py").path()
        // A python3 that is not Debian's may lack the package.
        var python: String?
        for candidate in ["python3", "/usr/bin/python3"] where python == nil {
            let found = try? await ChildProcess.output(of: candidate, ["-c", "import cryptography"])
            if found?.isSuccess == true { python = candidate }
        }
        guard let python else {
            print("SKIPPED: no python3 with the package cryptography; the second implementation was not run")
            return
        }
        let result = try await ChildProcess.output(of: python, [script, "--check", Vectors.file.path()])
        #expect(result.isSuccess, "\(result.text)")
        #expect(result.text.contains("messages: \(Vectors.all.messages.count) ok"), "\(result.text)")
        // Nobody has edited the vectors by hand.
        let again = URL.temporaryDirectory.appending(path: "tnp1-\(UUID().uuidString).json")
        defer { try? FileManager.default.removeItem(at: again) }
        let written = try await ChildProcess.output(of: python, [script, "--write", again.path()])
        #expect(written.isSuccess, "\(written.text)")
        #expect(
            try Data(contentsOf: again) == Data(contentsOf: Vectors.file), "run tnp1.py --write \(Vectors.file.path())")
    }
}
