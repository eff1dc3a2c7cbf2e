// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TestSupport
import Testing

@testable import AdminPort
@testable import HTTP1
@testable import NodeConfiguration
@testable import TocsinNode

@Suite(.tags(.computing)) struct AdminGateTests {
    private func route(
        _ target: String = "/", method: String = "GET", host: String? = "localhost:7079",
        _ headers: [(String, String)] = [], onSocket: Bool = false, token: AdminToken? = nil
    ) throws(AdminGate.Refusal) -> AdminGate.Route {
        let all = (host.map { [("host", $0)] } ?? []) + headers
        let request = HTTPRequest(
            method: method, target: Array(target.utf8), minorVersion: 1,
            headers: all.map { (name: $0.0, value: $0.1) }, body: [])
        return try AdminGate(access: token.map { .holders(of: $0) } ?? (onSocket ? .socket : .thisMachine)).route(
            of: request)
    }

    private static let text = "0123456789abcdefghijkl"

    @Test func `with a token, a request needs it whatever host it names, and only the health check does not`() throws {
        let token = try #require(AdminToken(SecretBytes(Self.text.utf8)))
        let password = Base64.encode(Array("anybody:\(Self.text)".utf8))
        for given in [
            "Bearer \(Self.text)", "bearer  \(Self.text)", "Basic \(String(decoding: password, as: UTF8.self))",
        ] {
            for host in ["localhost", "node.example:7079", nil] {
                #expect(try route("/status.json", host: host, [("authorization", given)], token: token) == .status)
            }
        }
        for each in AdminGate.Route.allCases where each != .health {
            #expect(throws: AdminGate.Refusal.token) { try route(each.rawValue, token: token) }
        }
        #expect(throws: AdminGate.Refusal.token) { try route("/none", token: token) }
        #expect(try route("/healthz", host: "10.0.0.1", token: token) == .health)
        #expect(throws: AdminGate.Refusal.origin) {
            try route(
                "/", [("authorization", "Bearer \(Self.text)"), ("sec-fetch-site", "cross-site")], token: token)
        }
    }

    @Test(arguments: [
        "", "Bearer", "Bearer ", "Bearer 0123456789abcdefghijkL", "Bearer 0123456789abcdefghijkl ", "Basic !", "Basic ",
        "Digest 0123456789abcdefghijkl", "0123456789abcdefghijkl",
        // Without a colon, and with the token as the name.
        "Basic MDEyMzQ1Njc4OWFiY2RlZmdoaWprbA==", "Basic MDEyMzQ1Njc4OWFiY2RlZmdoaWprbDo=",
    ])
    func `anything else is not the token`(_ given: String) throws {
        let token = try #require(AdminToken(SecretBytes(Self.text.utf8)))
        #expect(throws: AdminGate.Refusal.token) { try route("/", [("authorization", given)], token: token) }
    }

    @Test(arguments: [
        "", "short", "0123456789abcdefghijk", "0123456789abcdefghijk l", "0123456789abcdefghijk:l",
        "0123456789abcdefghijkä",
    ])
    func `a token that is short, or cannot stand in a header field, is refused`(_ text: String) {
        #expect(AdminToken(SecretBytes(text.utf8)) == nil)
    }

    @Test func `two tokens are equal if their texts are`() throws {
        let token = try #require(AdminToken(SecretBytes(Self.text.utf8)))
        #expect(token == AdminToken(SecretBytes(Self.text.utf8)))
        #expect(token != AdminToken(SecretBytes("\(Self.text)x".utf8)))
    }

    @Test func `each route has its path, and a query is ignored`() throws {
        for each in AdminGate.Route.allCases {
            #expect(try route(each.rawValue) == each)
            #expect(try route(each.rawValue, method: "HEAD") == each)
            #expect(try route(each.rawValue + "?from=bookmark") == each)
        }
    }

    @Test(arguments: ["/index.html", "//", "/metrics/", "/Metrics", "/%2e", "*", "/events/1"])
    func `an unknown path is refused`(_ target: String) {
        #expect(throws: AdminGate.Refusal.unknown) { try route(target) }
    }

    @Test(arguments: ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get"])
    func `a method other than GET and HEAD is refused`(_ method: String) {
        #expect(throws: AdminGate.Refusal.method) { try route(method: method) }
    }

    @Test(arguments: [
        "localhost", "localhost:7079", "LocalHost:80", "127.0.0.1", "127.0.0.1:7079", "127.8.8.8:1", "[::1]",
        "[::1]:7079",
    ])
    func `the local host names are accepted`(_ host: String) throws {
        #expect(try route(host: host) == .page)
    }

    @Test(arguments: [
        "evil.example", "evil.example:7079", "localhost.evil.example", "127.0.0.1.evil.example:7079", "localhost.",
        "10.0.0.1", "0.0.0.0", "[::]", "[::ffff:10.0.0.1]", "localhost:99999", "localhost:", "a@localhost", "",
        "unix:/run/tocsin", "127.1", "127.0.0.1:80:80", "localhost, evil.example", "::1",
    ])
    func `any other host name is refused, against DNS rebinding`(_ host: String) {
        #expect(throws: AdminGate.Refusal.host) { try route(host: host) }
    }

    @Test func `a missing host name is refused, except in a health check and on a unix socket`() throws {
        for path in ["/", "/metrics", "/status.json", "/events", "/healthz/", "/none"] {
            #expect(throws: AdminGate.Refusal.host) { try route(path, host: nil) }
        }
        #expect(try route("/healthz", host: nil) == .health && route("/readyz?x", host: nil) == .readiness)
        #expect(throws: AdminGate.Refusal.host) { try route("/healthz", host: "evil.example") }
        #expect(throws: AdminGate.Refusal.origin) {
            try route("/healthz", host: nil, [("origin", "http://evil.example")])
        }
        #expect(try route(host: nil, onSocket: true) == .page)
        #expect(try route(host: "anything.example", onSocket: true) == .page)
    }

    @Test(arguments: ["cross-site", "same-site", "", "Same-Origin", "none, cross-site"])
    func `a request from another site is refused`(_ site: String) {
        #expect(throws: AdminGate.Refusal.origin) { try route("/metrics", [("sec-fetch-site", site)]) }
    }

    @Test(arguments: [
        "null", "", "http://evil.example", "http://localhost", "http://localhost:7080", "http://127.0.0.1:7079",
        "http://localhost:7079.evil.example", "localhost:7079", "file://",
    ])
    func `another origin is refused`(_ origin: String) {
        for onSocket in [false, true] {
            #expect(throws: AdminGate.Refusal.origin) { try route("/events", [("origin", origin)], onSocket: onSocket) }
        }
    }

    @Test func `the dashboard itself and a typed address are accepted`() throws {
        #expect(try route("/", [("sec-fetch-site", "none")]) == .page)
        #expect(try route("/events", [("sec-fetch-site", "same-origin")]) == .events)
        #expect(try route("/events", [("origin", "http://localhost:7079")]) == .events)
        #expect(
            try route("/events", host: "x.example", [("origin", "https://x.example")], onSocket: true) == .events)
    }

    @Test func `one valid header field does not hide an invalid one`() {
        #expect(throws: AdminGate.Refusal.origin) {
            try route("/", [("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")])
        }
        #expect(throws: AdminGate.Refusal.origin) {
            try route("/", [("sec-fetch-site", "same-origin"), ("origin", "http://evil.example")])
        }
    }

    @Test func `an origin without a host name is refused on a unix socket`() {
        #expect(throws: AdminGate.Refusal.origin) { try route(host: nil, [("origin", "http://")], onSocket: true) }
    }

    @Test func `every refusal has a client error status and a text`() {
        for refusal in [AdminGate.Refusal.host, .origin, .method, .unknown] {
            #expect((400..<500).contains(refusal.status) && refusal.text.hasSuffix("."))
        }
    }
}
