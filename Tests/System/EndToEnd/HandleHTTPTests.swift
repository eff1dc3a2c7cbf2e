// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Foundation
import StandIns
import TNP
import TestSupport
import Testing
import TocsinClient

@testable import NodeConfiguration

/// Handles over HTTP (PROTOCOL §11), as a phone's HTTP client asks for them.
@Suite(.tags(.node), .timeLimit(.minutes(2)))
struct HandleHTTPTests {
    private let owner: Ed25519.PrivateKey

    init() throws { owner = try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: 1, count: 32))) }

    private func ask(
        _ stage: Stage, _ method: String, _ path: String, _ body: [UInt8] = [], fields: [String] = [],
        type: String? = "application/octet-stream"
    ) async throws -> HTTPAnswer {
        var fields = fields
        if let type { fields.append("Content-Type: \(type)") }
        if !body.isEmpty { fields.append("Content-Length: \(body.count)") }
        return try await stage.ask(RequestBytes.request(method, path, fields: fields) + body)
    }

    private func register(
        _ phone: Phone, sequence: UInt64 = 1, proof: Proof? = nil
    ) -> HandleRequest {
        var request = HandleRequest(
            .register(app: [], owner: owner.publicKey, phone.handleRegistration()), sequence: sequence, at: .none,
            by: owner)
        request.proof = proof
        return request
    }

    private func handle(in answer: HTTPAnswer) throws -> Handle {
        #expect(answer.status == 200, "\(answer.text)")
        #expect(answer.headers["content-type"] == "application/json")
        let digits = answer.json?["handle"] as? String
        return try #require(digits.flatMap { Handle(text: $0) })
    }

    private func expect(_ answer: HTTPAnswer, _ status: Int, _ outcome: String, _ reason: Reason) {
        #expect(answer.status == status, "\(answer.text)")
        #expect(answer.json?["outcome"] as? String == outcome)
        #expect(answer.json?["reason"] as? Int == Int(reason.rawValue))
        #expect(answer.json?["retryAfterMillis"] is Int && (answer.json?["text"] as? String)?.isEmpty == false)
    }

    private func digits(_ handle: Handle) -> String { Hex.encode(handle.bytes) }

    private func ring(_ phone: Phone, by handle: Handle, _ stage: Stage) async throws -> HTTPAnswer {
        let pairing = try PairingToken(phone.pairingToken(by: handle))
        let envelope = try Sealer(pairing).seal(Array("{}".utf8))
        let text =
            "\(phone.magic.rawValue)|\(String(decoding: envelope.iv, as: UTF8.self))|"
            + Data(envelope.ciphertext).base64EncodedString()
        return try await stage.ask(
            RequestBytes.post("/v1/handle/\(digits(handle))", RequestBytes.push(text)))
    }

    @Test(arguments: [Magic.iOS, .android])
    func `a phone registers, is rung, rotates, is rung, and forgets`(magic: Magic) async throws {
        let stage = Stage()
        try await stage.start(more: HandleTests.enabled)
        let phone = await stage.phone(magic)
        let registered = try handle(in: try await ask(stage, "POST", "/v1/handles", register(phone).fields))
        // The same bytes are answered as before, and over TNP the same phone and owner have the same handle.
        #expect(try handle(in: try await ask(stage, "POST", "/v1/handles", register(phone).fields)) == registered)
        let client = stage.client()
        #expect(
            try await client.register(phone.handleRegistration(), owner: owner, sequence: 2) == registered)
        #expect(try await ring(phone, by: registered, stage).status == 200)

        let renewed = await stage.services.giveNewDeviceToken(to: phone)
        #expect(try await ring(phone, by: registered, stage).json?["isUnregistered"] as? Bool == false)
        let rotate = HandleRequest(
            .rotate(registered, renewed.handleRegistration()), sequence: 3, at: .none, by: owner)
        let path = "/v1/handles/\(digits(registered))"
        #expect(try handle(in: try await ask(stage, "PUT", path, rotate.fields)) == registered)
        #expect(try await ring(phone, by: registered, stage).status == 200)
        #expect(await stage.services.received.map(\.deviceToken) == [phone.deviceToken, renewed.deviceToken])

        let forget = HandleRequest(.forget(registered), sequence: 4, at: .none, by: owner)
        #expect(try handle(in: try await ask(stage, "DELETE", path, forget.fields)) == registered)
        #expect(try await ring(phone, by: registered, stage).json?["isUnregistered"] as? Bool == true)
        await client.close()
        await stage.end()
    }

    @Test func `a REGISTER over HTTP pays with a proof for the challenge`() async throws {
        let stage = Stage()
        try await stage.start(
            gates: "[puzzle]\nmode = \"always\"\neffort = 2000", more: HandleTests.enabled)
        let phone = await stage.phone(.iOS)
        expect(
            try await ask(stage, "POST", "/v1/handles", register(phone).fields), 503, "RETRY", .proofRequired)
        let challenge = try await ask(stage, "GET", "/v1/handles/challenge", type: nil)
        #expect(challenge.status == 200 && challenge.headers["cache-control"] == "no-store")
        let fields = try #require(challenge.json)
        func number(_ name: String) throws -> UInt32 { UInt32(try #require(fields[name] as? Int)) }
        let seed = (fields["seed"] as? String).flatMap { Hex.decode(Array($0.utf8)) }
        let puzzle = Puzzle(seed: try #require(seed), effort: try number("effort"), lifetime: try number("lifetime"))
        #expect(puzzle.effort >= 2000 && puzzle.lifetime > 0)
        #expect(fields["onion"] as? String == String(repeating: "0", count: 64))
        let proof = try #require(puzzle.solve(for: register(phone).hash, tries: .max))
        _ = try handle(in: try await ask(stage, "POST", "/v1/handles", register(phone, proof: proof).fields))
        await stage.end()
    }

    @Test func `a wrong request about a handle is answered by its rule, and changes nothing`() async throws {
        let stage = Stage()
        try await stage.start(more: HandleTests.enabled)
        let phone = await stage.phone(.iOS)
        let registered = try handle(in: try await ask(stage, "POST", "/v1/handles", register(phone).fields))
        let path = "/v1/handles/\(digits(registered))"
        let other = try #require(Handle([UInt8](repeating: 7, count: 32)))
        let thief = try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: 2, count: 32)))
        func forget(_ handle: Handle, by key: Ed25519.PrivateKey, sequence: UInt64 = 5) -> [UInt8] {
            HandleRequest(.forget(handle), sequence: sequence, at: .none, by: key).fields
        }
        expect(try await ask(stage, "DELETE", path, forget(registered, by: thief)), 400, "REJECTED", .notTheOwner)
        expect(
            try await ask(stage, "DELETE", path, forget(registered, by: owner, sequence: 1)), 400, "REJECTED",
            .notTheOwner)
        expect(try await ask(stage, "DELETE", path, forget(other, by: owner)), 400, "REJECTED", .malformed)
        expect(
            try await ask(stage, "DELETE", "/v1/handles/\(digits(other))", forget(other, by: owner)), 410, "GONE",
            .unknownHandle)
        // The body of one kind of request is none of another kind.
        expect(try await ask(stage, "PUT", path, forget(registered, by: owner)), 400, "REJECTED", .malformed)
        expect(try await ask(stage, "POST", "/v1/handles", [1, 2, 3]), 400, "REJECTED", .malformed)
        expect(
            try await ask(stage, "POST", "/v1/handles", register(phone).fields, type: "text/plain"), 400, "REJECTED",
            .malformed)
        expect(
            try await ask(stage, "POST", "/v1/handles", [UInt8](repeating: 0, count: 1025)), 400, "REJECTED",
            .malformed)
        #expect(try await ask(stage, "POST", "/v1/handles/challenge").status == 405)
        #expect(try await ask(stage, "GET", path).headers["allow"] == "PUT, DELETE")
        #expect(try await ask(stage, "PUT", "/v1/handles/nonsense", forget(registered, by: owner)).status == 404)
        #expect(try await ring(phone, by: registered, stage).status == 200)
        await stage.end()
    }

    @Test func `the challenge tells of no onion that the phone has not asked for`() async throws {
        let stage = Stage()
        try await stage.start(more: HandleTests.enabled)
        let onion = try #require(OnionAddress(publicKey: [UInt8](repeating: 5, count: 32)))
        let request = "GET /v1/handles/challenge HTTP/1.1\r\nHost: \(onion):80\r\nConnection: close\r\n\r\n"
        expect(try await stage.ask(Array(request.utf8)), 400, "REJECTED", .malformed)
        await stage.end()
    }

    @Test func `requests about handles have a rate of their own on each connection`() async throws {
        let stage = Stage()
        try await stage.start(
            gates: "[limits]\ncontrol_burst = 3\ncontrol_per_minute = 1", more: HandleTests.enabled)
        let preflight = RequestBytes.request(
            "OPTIONS", "/v1/handles", fields: ["Origin: https://a.example"], closes: false)
        let statuses = try await stage.converse([[UInt8]](repeating: preflight, count: 4)).map(\.status)
        #expect(statuses == [403, 403, 403, 429])
        await stage.end()
    }

    @Test func `only pages of listed origins ask from a browser`() async throws {
        let stage = Stage()
        try await stage.start(
            more: "\(HandleTests.enabled)\norigins = \"https://phone.example\"")
        let phone = await stage.phone(.iOS)
        let (listed, other) = ("Origin: https://phone.example", "Origin: https://other.example")
        let preflight = try await ask(stage, "OPTIONS", "/v1/handles", fields: [listed], type: nil)
        #expect(preflight.status == 204)
        #expect(preflight.headers["access-control-allow-origin"] == "https://phone.example")
        #expect(preflight.headers["access-control-allow-methods"]?.contains("DELETE") == true)
        #expect(preflight.headers["access-control-allow-headers"] == "content-type")
        let refused = try await ask(stage, "OPTIONS", "/v1/handles", fields: [other], type: nil)
        #expect(refused.status == 403 && refused.headers["access-control-allow-origin"] == nil)
        #expect(try await ask(stage, "POST", "/v1/handles", register(phone).fields, fields: [other]).status == 403)
        let answer = try await ask(stage, "POST", "/v1/handles", register(phone).fields, fields: [listed])
        _ = try handle(in: answer)
        #expect(answer.headers["access-control-allow-origin"] == "https://phone.example")
        let error = try await ask(stage, "POST", "/v1/handles", [1], fields: [listed])
        #expect(error.status == 400 && error.headers["access-control-allow-origin"] == "https://phone.example")
        await stage.end()
    }

    @Test func `a site needs the right to register`() async throws {
        let stage = Stage()
        func site(_ name: String, _ rights: String) -> String {
            let hash = Data(Site.pathHash(of: "secret".utf8)).base64EncodedString()
            return "[[site]]\nname = \"\(name)\"\npath_hash = \"\(hash)\"\nrights = [\(rights)]"
        }
        let more = [
            HandleTests.enabled, "[sites]\nmode = \"required\"", site("desk", "\"send\""),
            site("home", "\"register\""),
        ]
        try await stage.start(more: more.joined(separator: "\n"))
        let phone = await stage.phone(.iOS)
        for prefix in ["", "/s/desk.secret", "/s/home.wrong"] {
            expect(
                try await ask(stage, "POST", "\(prefix)/v1/handles", register(phone).fields), 400, "REJECTED",
                .notASite)
        }
        _ = try handle(in: try await ask(stage, "POST", "/s/home.secret/v1/handles", register(phone).fields))
        await stage.end()
    }

    @Test func `a node without handles has no such path`() async throws {
        let stage = Stage()
        try await stage.start()
        #expect(try await ask(stage, "GET", "/v1/handles/challenge").status == 404)
        #expect(try await ask(stage, "OPTIONS", "/v1/handles", fields: ["Origin: https://a.example"]).status == 404)
        await stage.end()
    }
}
