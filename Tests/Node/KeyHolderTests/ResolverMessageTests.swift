// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TestSupport
import Testing

@testable import KeyHolder

@Suite(.tags(.computing)) struct ResolverMessageTests {
    @Test func `a request comes as it was sent`() {
        let request = ResolverRequest(number: 1 << 40 | 7, host: "push.example")
        #expect(ResolverRequest(decoding: request.encoded) == request)
        let longest = ResolverRequest(number: 1, host: String(repeating: "a", count: NameAnswer.maximumNameLength))
        #expect(ResolverRequest(decoding: longest.encoded) == longest)
        #expect(ResolverRequest(decoding: longest.encoded + [97]) == nil)
        #expect(ResolverRequest(decoding: Array(request.encoded.prefix(8))) == nil)
        #expect(ResolverRequest(decoding: request.encoded + [0, 97]) == nil)
        #expect(ResolverRequest(decoding: request.encoded + [0xDF]) == nil)
    }

    @Test func `an answer comes as it was sent, and a cut one not at all`() throws {
        let v4 = try #require(HostAddress(bytes: [192, 0, 2, 1]))
        let v6 = try #require(
            HostAddress(bytes: [0xFE, 0x80] + Array(repeating: 0, count: 13) + [7], scope: 1 << 24 | 3))
        for answer in [
            NameAnswer.addresses([v4]), .addresses([v6, v4]),
            .addresses(Array(repeating: v6, count: NameAnswer.maximumAddresses)),
            .failure("no name server", isUnknown: false), .failure("", isUnknown: true),
        ] {
            let message = ResolverAnswer(number: .max, answer: answer)
            #expect(message.encoded.count <= ResolverAnswer.maximumBytes)
            #expect(ResolverAnswer(decoding: message.encoded) == message)
        }
        let whole = ResolverAnswer(number: 1, answer: .addresses([v4, v6])).encoded
        for length in 0..<whole.count where length != 8 + 5 {
            #expect(ResolverAnswer(decoding: Array(whole.prefix(length))) == nil, "\(length) bytes")
        }
    }

    @Test func `a resolver that a stranger has taken over sends nothing into the log, and no more than it may`() {
        let number: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 9]
        #expect(
            ResolverAnswer(decoding: number + [0] + Array("a\n\u{1B}[2Jb".utf8))?.answer
                == .failure("a[2Jb", isUnknown: false))
        #expect(ResolverAnswer(decoding: number + [0] + Array(repeating: 97, count: 257)) == nil)
        #expect(ResolverAnswer(decoding: number + [9]) == nil)
        #expect(ResolverAnswer(decoding: number + [4, 1, 2, 3, 4, 0]) == nil)
        for count in [NameAnswer.maximumAddresses + 1, 300] {
            let addresses = Array(repeating: [4, 1, 2, 3, 4] as [UInt8], count: count).flatMap(\.self)
            #expect(ResolverAnswer(decoding: number + addresses) == nil)
        }
    }
}
