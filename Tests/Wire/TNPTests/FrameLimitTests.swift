// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import TNP

/// The node's own frames respect `max_frame`, whatever ID or text a provider returns.
@Suite(.tags(.computing)) struct FrameLimitTests {
    private func length(_ bytes: [UInt8]) -> Int { bytes.prefix(4).reduce(0) { $0 << 8 | Int($1) } }

    @Test func `RESULT omits an overlong ID and truncates its text at a character boundary`() throws {
        var outcome = Outcome.delivered(id: String(repeating: "i", count: 60_000))
        outcome.text = String(repeating: "ž", count: 60_000)
        var bytes: [UInt8] = []
        bytes.append(SubmissionResult(request: 1, outcome: outcome))
        #expect(length(bytes) <= 1024)
        var decoder = FrameDecoder(maximumLength: 4096)
        decoder.append(bytes.span.bytes)
        let frame = try #require(try decoder.next())
        guard case .result(let result) = try Message(frame) else {
            Issue.record("not a RESULT")
            return
        }
        #expect(result.outcome.providerID == nil)
        #expect(result.outcome.text == String(repeating: "ž", count: SubmissionResult.maximumTextLength / 2))
        outcome.providerID = String(repeating: "i", count: SubmissionResult.maximumProviderIDLength)
        outcome.text = "a" + String(repeating: "ž", count: 300)
        bytes = []
        bytes.append(SubmissionResult(request: 1, outcome: outcome))
        decoder.append(bytes.span.bytes)
        let second = try #require(try decoder.next())
        guard case .result(let whole) = try Message(second) else {
            Issue.record("not a RESULT")
            return
        }
        #expect(whole.outcome.providerID == outcome.providerID)
        #expect(whole.outcome.text?.utf8.count == SubmissionResult.maximumTextLength - 1)
    }

    @Test func `GOAWAY truncates its text to the maximum length`() {
        var bytes: [UInt8] = []
        bytes.append(GoAway(code: .busy, text: String(repeating: "€", count: 10_000)))
        #expect(length(bytes) <= 1 + 6 + GoAway.maximumTextLength)
    }

    @Test(arguments: [4096, 8192, 65_536])
    func `WELCOME lists as many routes as fit into max_frame`(_ maximum: UInt32) throws {
        for routeLength in [1, 40, 255, 256] {
            let routes = (0..<300).map { _ in String(repeating: "r", count: routeLength) }
            let welcome = Welcome(
                maximumFrame: maximum, maximumInFlight: 1, idleTimeout: 1, serverTime: 0,
                puzzle: Puzzle(seed: [UInt8](repeating: 0, count: 16), effort: 0, lifetime: 0), routes: routes)
            var bytes: [UInt8] = []
            bytes.append(welcome)
            #expect(length(bytes) <= Int(maximum))
            var decoder = FrameDecoder(maximumLength: Int(maximum))
            decoder.append(bytes.span.bytes)
            let frame = try #require(try decoder.next())
            guard case .welcome(let read) = try Message(frame) else {
                Issue.record("not a WELCOME")
                return
            }
            #expect(read.routes.count == (routeLength > 255 ? 0 : min(255, (Int(maximum) - 47) / (1 + routeLength))))
        }
    }
}
