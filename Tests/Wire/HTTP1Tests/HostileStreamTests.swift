// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import TestSupport
import Testing

@testable import HTTP1

/// Feeds random input to the session. The input is seeded, so a failure is reproducible.
@Suite(.tags(.sockets)) struct HostileStreamTests {
    private static let limits = HTTPLimits(target: 60, head: 300, fields: 8, body: 80)

    private static let seeds = [
        "GET /relay?a=b HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n\r\n",
        "POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\nhello world",
        "POST /v1/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nT: t\r\n\r\n",
        "GET http://h/p HTTP/1.0\r\nConnection: keep-alive\r\n\r\nHEAD /2 HTTP/1.1\r\nHost: h\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "CONNECT h:1 HTTP/1.1\r\nHost: h\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ]
    private static let pieces = [
        "\r\n", "\r", "\n", "\0", " ", "\t", ":", "0", "f", "-1", ";", "Content-Length: 3\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Host: h\r\n", "HTTP/1.1", "http://", "GET ", "\u{7F}", "99999999999999999999", "Expect: 100-continue\r\n",
        String(repeating: "a", count: 70), "Connection: close\r\n", "Upgrade: h2c\r\n",
    ]

    private static func stream(_ random: inout SplitMix64) -> [UInt8] {
        if random.below(4) == 0 {
            // Noise, half of it behind a letter that a method may begin with.
            return (random.below(2) == 0 ? [UInt8(ascii: "G")] : [])
                + (0..<random.below(400)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        }
        var bytes: [UInt8] = []
        for _ in 0...random.below(3) { bytes += Array(seeds[random.below(seeds.count)].utf8) }
        for _ in 0..<random.below(4) {
            let at = random.below(bytes.count + 1)
            switch random.below(4) {
            case 0: bytes.insert(contentsOf: Array(pieces[random.below(pieces.count)].utf8), at: at)
            case 1: bytes.removeSubrange(at..<min(bytes.count, at + 1 + random.below(5)))
            case 2 where at < bytes.count: bytes[at] = UInt8(truncatingIfNeeded: random.next())
            default: bytes.insert(contentsOf: bytes.prefix(at).suffix(random.below(60)), at: at)
            }
        }
        return bytes
    }

    private static func isWithinLimits(_ request: Seen) -> Bool {
        let fields = request.headers.reduce(0) { $0 + $1.utf8.count }
        return request.target.utf8.count <= limits.target && request.headers.count <= limits.fields
            && request.body.utf8.count <= 3 * limits.body && fields <= 3 * limits.head && !request.method.isEmpty
            && request.target.utf8.allSatisfy { (0x21...0x7E).contains($0) }
            && !request.headers.contains { $0.utf8.contains { $0 < 0x20 && $0 != 9 } }
    }

    @Test(arguments: 0..<20)
    func `random input never exceeds the limits, and each session closes or has a deadline`(_ block: UInt64) {
        var handedOut = 0
        var faults = 0
        for seed in block * 200..<(block + 1) * 200 {
            var random = SplitMix64(seed: seed)
            let bytes = Self.stream(&random)
            let whole = run(bytes, pieces: nil)
            let cut = run(bytes, pieces: random)
            #expect(whole.seen == cut.seen, "seed \(seed)")
            #expect((whole.fault == nil) == (cut.fault == nil), "seed \(seed)")
            #expect(whole.seen.allSatisfy(Self.isWithinLimits), "seed \(seed)")
            #expect(whole.isClosed || whole.session.deadline != nil, "seed \(seed)")
            handedOut += whole.seen.count
            faults += whole.fault == nil ? 0 : 1
        }
        // Otherwise the input would exercise too little.
        #expect(handedOut > 50 && faults > 50)
    }

    private func run(_ bytes: [UInt8], pieces: SplitMix64?) -> Client {
        var client = Client(Self.limits)
        guard var random = pieces else {
            client.send(bytes)
            return client
        }
        var rest = bytes[...]
        while !rest.isEmpty {
            let size = min(rest.count, 1 + random.below(12))
            client.send(Array(rest.prefix(size)))
            rest = rest.dropFirst(size)
        }
        return client
    }
}
