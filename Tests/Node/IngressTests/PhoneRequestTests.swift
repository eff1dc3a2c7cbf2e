// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import HTTP1
@testable import Ingress

/// What the HTTP endpoint decides about a phone's request before it asks the node.
@Suite(.tags(.computing)) struct PhoneRequestTests {
    private func request(_ method: String, origin: String? = nil) throws -> PhoneRequest {
        let path = Array("/v1/handles".utf8)
        let request = HTTPRequest(
            method: method, target: path, minorVersion: 1, headers: origin.map { [(name: "origin", value: $0)] } ?? [],
            body: [])
        let phoneRequest = try PhoneRequest(request, path: path[...])
        return try #require(phoneRequest)
    }

    private func answer(_ request: PhoneRequest, keepsHandles: Bool = true) -> (status: Int, isViolation: Bool)? {
        switch request.verdict(keepsHandles: keepsHandles, origins: ["https://a.example"]) {
        case .ask: nil
        case .answer(let response, let isViolation): (response.status, isViolation)
        }
    }

    @Test func `the node is asked by phones, and by pages of listed origins`() throws {
        #expect(answer(try request("POST")) == nil)
        #expect(answer(try request("POST", origin: "https://a.example")) == nil)
        let foreign = try #require(answer(try request("POST", origin: "https://b.example")))
        #expect(foreign == (403, false))
        let preflight = try #require(answer(try request("OPTIONS", origin: "https://a.example")))
        #expect(preflight == (204, false))
        let absent = try #require(answer(try request("POST"), keepsHandles: false))
        #expect(absent == (404, true))
    }

    @Test func `other paths are none of a phone's`() throws {
        for path in ["/relay", "/v1/handle/ab", "/v1/apns/device/token", ""] {
            let request = HTTPRequest(method: "POST", target: Array(path.utf8), minorVersion: 1, headers: [], body: [])
            let none = try PhoneRequest(request, path: Array(path.utf8)[...])
            #expect(none.map { _ in path } == nil)
        }
    }
}
