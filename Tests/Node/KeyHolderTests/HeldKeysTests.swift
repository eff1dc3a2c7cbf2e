// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import Settings
import TestSupport
import Testing
import Time

@testable import KeyHolder
@testable import NodeConfiguration
@testable import Providers
@testable import StandIns

/// A directory with the credentials of the stand-ins and a configuration.
private struct Keys: ~Copyable {
    let directory = URL.temporaryDirectory.appending(path: "tocsin-keys-\(UUID().uuidString)").path()
    var file: String { "\(directory)/tocsin.toml" }

    init(apple: String = "key_file = \"apns.p8\"\nkey_id = \"KEY0000001\"\nteam_id = \"TEAM000001\"", node: String = "")
        async throws
    {
        let loop = EventLoop(name: "services")
        let services = SimulatedServices(SimulatedServices.Options(directory: directory), on: loop)
        _ = try await services.start()
        await services.stop()
        let text = """
            \(node)
            [[app]]
            name = "bisq"
            [app.apns]
            topic = "com.example.app"
            \(apple)
            [app.fcm]
            service_account_file = "service-account.json"
            [apns]
            trust_file = "ca.pem"
            """
        try Data(text.utf8).write(to: URL(filePath: file))
    }

    deinit { try? FileManager.default.removeItem(atPath: directory) }
}

@Suite(.tags(.sockets)) struct HeldKeysTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000_000)

    private func time(_ seconds: Int) -> ClockReading {
        ClockReading(monotonic: start + .seconds(seconds), unix: 1_700_000_000 + Int64(seconds))
    }

    private func request(_ credential: Int, _ question: String) -> HolderRequest {
        HolderRequest(credential: credential, question: Base64Bytes(Array(question.utf8)))
    }

    private func providerToken(of credential: Int = 0, isUnseen: Bool = false) -> HolderRequest {
        request(credential, "{\"isUnseen\":\(isUnseen)}")
    }

    private func signature(of input: [UInt8], padding: Int = 0, with credential: Int = 0) -> HolderRequest {
        let text = String(decoding: Base64.encode(input), as: UTF8.self)
        return request(credential, "{\"input\":\"\(text)\",\"padding\":\(padding)}")
    }

    private func token(_ held: inout HeldKeys, at seconds: Int) -> KeyAnswer {
        held.answer(providerToken(), at: time(seconds))
    }

    @Test func `the report has the facts of the keys and copies of other files, and no key`() async throws {
        let keys = try await Keys()
        var held = HeldKeys(issued: IssuedTokens())
        let report = held.load(keys.file)
        #expect(held.count == 2 && report.credentials.count == 2)
        let configuration = try Configuration(file: keys.file, copies: report.copies)
        #expect(configuration.apps.map(\.name) == ["bisq"])
        #expect(
            try ConfiguredFile.read("\(keys.directory)/ca.pem", mustBePrivate: false, copies: report.copies).starts(
                with: "-----BEGIN".utf8))
        let text = String(decoding: report.json, as: UTF8.self)
        for name in ["apns.p8", "service-account.json"] {
            let secret = try Data(contentsOf: URL(filePath: "\(keys.directory)/\(name)"))
            #expect(!text.contains(String(decoding: Base64.encode(Array(secret)).prefix(60), as: UTF8.self)), "\(name)")
        }
        #expect(!text.contains("PRIVATE KEY") && !text.contains("UFJJVkFURSBLRVk"))
        let again = try HolderReport(json: report.json)
        #expect(again.credentials.map(\.reference) == configuration.credentials)
    }

    @Test func `a provider token is repeated for 20 minutes, also by the next key holder`() async throws {
        let keys = try await Keys()
        var held = HeldKeys(issued: IssuedTokens())
        _ = held.load(keys.file)
        let first = token(&held, at: 0)
        #expect(first.use == KeyAnswer.Use(what: "provider token issued", file: "\(keys.directory)/apns.p8"))
        let again = token(&held, at: 1199)
        #expect(again.bytes == first.bytes && again.use == nil)
        var next = HeldKeys(issued: try IssuedTokens(json: held.issued.json))
        _ = next.load(keys.file)
        let repeated = token(&next, at: 1199)
        #expect(repeated.bytes == first.bytes && repeated.use == nil)
        let second = token(&next, at: 1200)
        #expect(second.bytes != nil && second.bytes != first.bytes && second.use != nil)
    }

    @Test func `setting the wall clock issues no second provider token`() async throws {
        let keys = try await Keys()
        var held = HeldKeys(issued: IssuedTokens())
        _ = held.load(keys.file)
        let first = token(&held, at: 0).bytes
        for unix in [Int64(0), 1_600_000_000, 1_900_000_000] {
            let clock = ClockReading(monotonic: start + .seconds(60), unix: unix)
            #expect(held.answer(providerToken(), at: clock).bytes == first)
        }
    }

    @Test func `a token that Apple has not seen is replaced once the wall clock is right`() async throws {
        let keys = try await Keys()
        var held = HeldKeys(issued: IssuedTokens())
        _ = held.load(keys.file)
        let first = held.answer(
            providerToken(), at: ClockReading(monotonic: start, unix: 77))
        func replaced(after seconds: Int, _ unix: Int64) -> [UInt8]? {
            let now = ClockReading(monotonic: start + .seconds(seconds), unix: unix)
            return held.answer(providerToken(isUnseen: true), at: now).bytes
        }
        // Whatever a node says, only a step of the clock makes one.
        #expect(replaced(after: 60, 137) == first.bytes)
        let second = try #require(replaced(after: 61, 1_700_000_000))
        #expect(second != first.bytes && replaced(after: 62, 1_700_000_001) == second)
    }

    @Test func `an assertion is repeated for ten seconds and asks for one permission`() async throws {
        let keys = try await Keys()
        var held = HeldKeys(issued: IssuedTokens())
        _ = held.load(keys.file)
        func assertion(at seconds: Int) -> [UInt8]? { held.answer(request(1, ""), at: time(seconds)).bytes }
        let first = try #require(assertion(at: 0))
        #expect(assertion(at: 9) == first && assertion(at: 10) != first)
        let claims = try #require(WebToken(String(decoding: first, as: UTF8.self))).claims
        #expect(claims["scope"] == .string("https://www.googleapis.com/auth/firebase.messaging"))
    }

    @Test func `signatures for TLS have a burst and a rate`() async throws {
        let keys = try await Keys(
            apple: "certificate_file = \"apns.p12\"\ncertificate_password_file = \"apns.p12.password\"")
        var held = HeldKeys(issued: IssuedTokens())
        _ = held.load(keys.file)
        let digest = [UInt8](repeating: 7, count: 32)
        func isSigned(at seconds: Int) -> Bool {
            held.answer(signature(of: digest), at: time(seconds)).bytes != nil
        }
        for _ in 0..<60 { #expect(isSigned(at: 0)) }
        #expect(!isSigned(at: 0))
        #expect(isSigned(at: 1) && !isSigned(at: 1))
        for _ in 0..<60 { #expect(isSigned(at: 3600)) }
        #expect(!isSigned(at: 3600))
    }

    @Test func `a request about another kind of key, or none, has no answer`() async throws {
        let keys = try await Keys()
        var held = HeldKeys(issued: IssuedTokens())
        _ = held.load(keys.file)
        for request in [
            providerToken(of: 1), request(0, ""), signature(of: [1], padding: 1), providerToken(of: -1), request(2, ""),
            signature(of: [], with: .max), request(0, "{}"), request(1, "{}"), request(0, "["),
        ] {
            #expect(held.answer(request, at: time(0)) == .refused)
        }
    }

    @Test func `a file in the state directory is not copied`() async throws {
        let keys = try await Keys(node: "[node]\nstate = \"state\"")
        let text = String(decoding: try Data(contentsOf: URL(filePath: keys.file)), as: UTF8.self)
        try Data(text.replacing("\"ca.pem\"", with: "\"state/ca.pem\"").utf8).write(to: URL(filePath: keys.file))
        try FileManager.default.createDirectory(atPath: "\(keys.directory)/state", withIntermediateDirectories: false)
        try FileManager.default.createSymbolicLink(
            atPath: "\(keys.directory)/state/ca.pem", withDestinationPath: "\(keys.directory)/apns.p8")
        var held = HeldKeys(issued: IssuedTokens())
        let report = held.load(keys.file)
        let secret = try Data(contentsOf: URL(filePath: "\(keys.directory)/apns.p8"))
        let encoded = String(decoding: Base64.encode(Array(secret)), as: UTF8.self)
        #expect(!String(decoding: report.json, as: UTF8.self).contains(encoded.prefix(60)))
    }

    @Test func `an invalid configuration is left to the node`() async throws {
        let keys = try await Keys()
        try Data("nonsense".utf8).write(to: URL(filePath: keys.file))
        var other = HeldKeys(issued: IssuedTokens())
        let report = other.load(keys.file)
        #expect(report.credentials.isEmpty)
        #expect(throws: ConfigurationError.self) { try Configuration(file: keys.file, copies: report.copies) }
        let missing = other.load("/nowhere/tocsin.toml")
        let error = #expect(throws: ConfigurationError.self) {
            try Configuration(file: "/nowhere/tocsin.toml", copies: missing.copies)
        }
        #expect(error?.description.contains("No such file") == true)
    }

    @Test func `the tokens of the oldest keys are forgotten first`() throws {
        var issued = IssuedTokens()
        func key(_ number: Int) -> Digest256 { BLAKE2b.hash256([UInt8(number)]) }
        for number in 0...IssuedTokens.maximum { issued.add([1], of: key(number), at: time(number)) }
        #expect(issued.reusableToken(of: key(0), isUnseen: false, at: time(100)) == nil)
        #expect(issued.reusableToken(of: key(1), isUnseen: false, at: time(100)) == [1])
    }
}
