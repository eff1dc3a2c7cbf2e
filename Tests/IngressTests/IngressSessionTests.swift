// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import TestSupport
import Testing

@testable import Admission
@testable import Ingress
@testable import TNP
@testable import Time
@testable import TocsinNode

@Suite struct IngressSessionTests {
    // MARK: HELLO and WELCOME

    @Test func `HELLO is answered with WELCOME`() throws {
        var peer = Peer()
        try peer.send(hello)
        peer.hears(.welcome)
        #expect(peer.welcomes == [Peer.welcome])
        #expect(!peer.hasEnded)
    }

    @Test(arguments: [(0, 1), (1, 1), (1, 255), (0, 255)] as [(UInt8, UInt8)])
    func `a range of versions that holds ours is welcome`(_ lowest: UInt8, _ highest: UInt8) throws {
        var peer = Peer()
        try peer.send(helloFrame(Hello(lowestVersion: lowest, highestVersion: highest)))
        peer.hears(.welcome)
        #expect(peer.welcomes.last?.version == 1)
    }

    @Test(arguments: [(0, 0), (2, 2), (2, 255)] as [(UInt8, UInt8)])
    func `a range of versions without ours ends the connection`(_ lowest: UInt8, _ highest: UInt8) throws {
        var peer = Peer()
        try peer.send(helloFrame(Hello(lowestVersion: lowest, highestVersion: highest)))
        peer.hears(.goAway(.version))
        #expect(peer.hasEnded)
    }

    @Test func `a second HELLO ends the connection`() throws {
        var peer = try Peer.identified()
        try peer.send(hello)
        peer.hears(.goAway(.protocolError))
        #expect(peer.hasEnded)
        #expect(peer.goAways.last?.text.contains("second HELLO") == true)
    }

    @Test func `nothing but HELLO comes first`() throws {
        let leaving = goAwayFrame(.shuttingDown)
        for first in [ping(1), pong(1), submit(1), leaving, skippedFrame(0x80), skippedFrame(0xFF)] {
            var peer = Peer()
            try peer.send(first + hello)
            peer.hears(.goAway(.protocolError))
            #expect(peer.hasEnded)
            #expect(peer.taken.isEmpty)
            #expect(peer.goAways.last?.text.contains("before HELLO") == true)
        }
    }

    @Test func `an early SUBMIT in the same read is taken, and WELCOME still comes first`() throws {
        var peer = Peer()
        try peer.send(hello + submit(1) + submit(2))
        peer.hears(.welcome)
        #expect(peer.requestsTaken == [1, 2])
        try peer.finish(1, .delivered(id: "first"))
        peer.hears(.result(1, .delivered, Reason.none))
    }

    @Test func `an early SUBMIT may be larger than a frame before WELCOME`() throws {
        let early = submit(1, [0x04: [UInt8](repeating: 0x41, count: 3072)])
        for size in [Int.max, 1, 100] {
            var peer = Peer()
            try peer.send(hello + early, every: size)
            peer.hears(.welcome)
            #expect(peer.requestsTaken == [1])
        }
    }

    @Test func `before WELCOME a frame of 256 is read and one of 257 is not`() throws {
        var longest = Peer()
        try longest.send([0, 0, 1, 0, 0x01] + [UInt8](repeating: 0x41, count: 255))
        longest.hears(.goAway(.protocolError))
        var longer = Peer()
        try longer.send([0, 0, 1, 1])
        longer.hears(.goAway(.frameTooLarge))
        #expect(longer.hasEnded)
    }

    @Test func `after WELCOME a frame of the limit is read and one more byte is not`() throws {
        var peer = try Peer.identified { $0.maximumFrame = 4096 }
        try peer.send([0, 0, 0x10, 0, 0x80] + [UInt8](repeating: 0, count: 4095) + ping(1))
        peer.hears(.echo(1))
        try peer.send([0, 0, 0x10, 1])
        peer.hears(.goAway(.frameTooLarge))
        #expect(peer.hasEnded)
    }

    // MARK: Faults

    @Test(arguments: Vectors.refused(by: "node").indices)
    func `what the vectors refuse ends the connection with its code`(_ index: Int) throws {
        let vector = Vectors.refused(by: "node")[index]
        let bytes = try #require(Hex.decode(vector.bytes))
        for size in [Int.max, 1] {
            var peer = try vector.identified ? Peer.identified() : Peer()
            try peer.send(bytes, every: size)
            let farewell = Reply.goAway(GoAway.Code(rawValue: vector.goaway))
            #expect(peer.replies.last == farewell, "\(vector.name)")
            #expect(peer.goAways.count == 1, "\(vector.name)")
            #expect(peer.goAways.last?.text.isEmpty == false, "\(vector.name)")
            #expect(peer.hasEnded, "\(vector.name)")
            #expect(peer.taken.isEmpty, "\(vector.name)")
            #expect(peer.session.deadline == nil, "\(vector.name)")
        }
    }

    @Test func `the vectors hold refusals for a node`() {
        #expect(!Vectors.refused(by: "node").isEmpty)
        #expect(!Vectors.all.rejected.isEmpty)
    }

    @Test func `after the end nothing is read and nothing is said`() throws {
        var peer = try Peer.identified()
        try peer.send([0, 0, 0, 0] + ping(1))
        peer.hears(.goAway(.protocolError))
        try peer.send(hello + submit(1) + ping(2))
        try peer.wait(.seconds(100_000))
        try peer.shutDown()
        try peer.announce(Peer.welcome.puzzle)
        peer.hears()
        #expect(peer.taken.isEmpty)
    }

    @Test func `a fault ends the connection at once, whatever is in flight`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1) + submit(2) + [0, 0, 0, 0])
        peer.hears(.goAway(.protocolError))
        #expect(peer.hasEnded)
        #expect(peer.requestsTaken == [1, 2])
        try peer.finish(1, .delivered())
        try peer.finish(2, .delivered())
        peer.hears()
    }

    @Test func `frames come out the same however they are torn`() throws {
        let frames: [[UInt8]] = [
            hello, ping(1), submit(7), skippedFrame(0x80), ping(2), submit(8, [0x01: nil]), ping(3),
        ]
        let stream = frames.flatMap { $0 }
        var whole = Peer()
        try whole.send(stream)
        let expected: [Reply] = [.welcome, .echo(1), .echo(2), .result(8, .rejected, .malformed), .echo(3)]
        #expect(whole.replies == expected)
        for cut in 0...stream.count {
            var peer = Peer()
            try peer.send(Array(stream[..<cut]))
            try peer.send(Array(stream[cut...]))
            #expect(peer.replies == whole.replies, "cut at \(cut)")
            #expect(peer.requestsTaken == [7], "cut at \(cut)")
            #expect(!peer.hasEnded, "cut at \(cut)")
        }
        for size in [1, 2, 3, 5, 7, 64] {
            var peer = Peer()
            try peer.send(stream, every: size)
            #expect(peer.replies == whole.replies, "\(size) bytes at a time")
            #expect(peer.requestsTaken == [7], "\(size) bytes at a time")
        }
    }

    // MARK: PING, PONG and what is skipped

    @Test func `PING is answered with the same eight bytes`() throws {
        var peer = try Peer.identified()
        var bytes: [UInt8] = []
        bytes.append(ping: [0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, 0])
        try peer.send(bytes)
        peer.hears(.pong([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, 0]))
        #expect(!peer.hasEnded)
    }

    @Test func `PONG needs no answer`() throws {
        var peer = try Peer.identified()
        try peer.send(pong(1))
        peer.hears()
        #expect(!peer.hasEnded)
    }

    @Test(arguments: [UInt8(0x80), 0x81, 0xFE, 0xFF])
    func `an unknown type from 0x80 is skipped`(_ type: UInt8) throws {
        var peer = try Peer.identified()
        try peer.send(skippedFrame(type) + [0, 0, 0, 1, type] + ping(1))
        peer.hears(.echo(1))
        #expect(!peer.hasEnded)
    }

    @Test(arguments: [UInt8(0x00), 0x09, 0x0F, 0x10, 0x1F, 0x20, 0x7F])
    func `any other unknown type ends the connection`(_ type: UInt8) throws {
        var peer = try Peer.identified()
        try peer.send(skippedFrame(type))
        peer.hears(.goAway(.protocolError))
        #expect(peer.hasEnded)
    }

    // MARK: Submissions

    @Test func `a submission is taken for the default app where it names none`() throws {
        var peer = try Peer.identified { $0.apps = twoApps }
        try peer.send(submit(0xFFFF_FFFF))
        peer.hears()
        #expect(peer.taken.count == 1)
        let (submission, app) = try #require(peer.taken.first)
        #expect(app == "bisq")
        #expect(submission.request == 0xFFFF_FFFF)
        #expect(submission.envelope.magic == .iOS)
        #expect(submission.envelope.ciphertext.count == 32)
    }

    @Test func `a submission is held against the rules of the app that it names`() throws {
        var peer = try Peer.identified { $0.apps = twoApps }
        let nonce = [UInt8](repeating: 0xEE, count: 12)
        let sealed = [UInt8](repeating: 0x41, count: 17)
        try peer.send(submit(1, [0x03: nonce, 0x04: sealed, 0x0A: Array("connect".utf8)]))
        peer.hears()
        #expect(peer.taken.last?.app == "connect")
        try peer.send(submit(2, [0x0A: Array("connect".utf8)]) + submit(3, [0x03: nonce, 0x04: sealed]))
        peer.hears(.result(2, .rejected, .iv), .result(3, .rejected, .iv))
        try peer.send(submit(4, [0x0A: Array("bisq".utf8)]))
        #expect(peer.taken.last?.app == "bisq")
        #expect(peer.requestsTaken == [1, 4])
    }

    @Test func `an unknown app is refused and the connection goes on`() throws {
        var peer = try Peer.identified { $0.apps = twoApps }
        for name in ["haveno", "Bisq", "bis", "bisq ", "bisqq"] {
            try peer.send(submit(1, [0x0A: Array(name.utf8)]))
            peer.hears(.result(1, .rejected, .unknownApp))
        }
        try peer.send(submit(1))
        #expect(peer.requestsTaken == [1])
        #expect(!peer.hasEnded)
    }

    @Test(arguments: Vectors.all.rejected.indices)
    func `a submission with a fault is rejected and the connection goes on`(_ index: Int) throws {
        let vector = Vectors.all.rejected[index]
        let bytes = try #require(Hex.decode(vector.bytes))
        let format = try #require(EnvelopeFormat(rawValue: vector.format))
        var peer = try Peer.identified { $0.apps = [(name: "bisq", format: format)] }
        try peer.send(bytes + ping(9))
        peer.hears(.result(7, .rejected, Reason(rawValue: vector.reason)), .echo(9))
        #expect(peer.results.last?.outcome.text?.isEmpty == false, "\(vector.name)")
        #expect(peer.taken.isEmpty, "\(vector.name)")
        #expect(!peer.hasEnded, "\(vector.name)")
        // It has had its final result: its number is free and it keeps no place.
        let expected = Peer.start + Duration.seconds(600)
        #expect(peer.session.deadline == expected, "\(vector.name)")
    }

    @Test func `a field missing, of a wrong value or unknown is rejected with its reason`() throws {
        let faults: [(changes: [UInt8: [UInt8]?], reason: Reason)] = [
            (changes: [0x01: nil], reason: .malformed),
            (changes: [0x02: nil], reason: .malformed),
            (changes: [0x03: nil], reason: .malformed),
            (changes: [0x04: nil], reason: .malformed),
            (changes: [0x05: [0, 0, 1]], reason: .malformed),
            (changes: [0x01: [0x69, 0x6F, 0x73]], reason: .unknownMagic),
            (changes: [0x02: [0x7A, 0x7A]], reason: .deviceTokenFormat),
            (changes: [0x03: []], reason: .iv),
            (changes: [0x04: []], reason: .ciphertextLength),
            (changes: [0x06: [7]], reason: .optionOutOfRange),
            (changes: [0x07: [2]], reason: .optionOutOfRange),
            (changes: [0x0B: []], reason: .unsupportedField),
            (changes: [0x7F: [1]], reason: .unsupportedField),
        ]
        var peer = try Peer.identified()
        for (changes, reason) in faults {
            try peer.send(submit(1, changes))
            peer.hears(.result(1, .rejected, reason))
        }
        #expect(peer.taken.isEmpty)
        try peer.send(submit(1, [0x80: [1, 2, 3], 0xFF: []]))
        peer.hears()
        #expect(peer.requestsTaken == [1])
    }

    @Test func `what the node says of a fault holds nothing of what was sent`() throws {
        var peer = try Peer.identified()
        let token = Array("not-a-token-but-secret".utf8)
        try peer.send(submit(1, [0x02: token]) + submit(2, [0x0A: token]) + submit(3, [0x01: token]))
        #expect(peer.results.count == 3)
        for result in peer.results { #expect(result.outcome.text?.contains("secret") != true) }
    }

    @Test func `results come in any order and as they are given`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1) + submit(2) + submit(3) + submit(4))
        try peer.finish(3, .delivered(id: "third"))
        try peer.finish(1, .retry(.providerThrottles, after: 2500))
        try peer.finish(4, .gone(since: 1_700_000_000_000))
        try peer.finish(2, .rejected(.badDeviceToken, text: "it is not"))
        peer.hears(
            .result(3, .delivered, Reason.none), .result(1, .retry, .providerThrottles),
            .result(4, .gone, .unregistered), .result(2, .rejected, .badDeviceToken))
        let expected: [SubmissionResult] = [
            SubmissionResult(request: 3, outcome: .delivered(id: "third")),
            SubmissionResult(request: 1, outcome: .retry(.providerThrottles, after: 2500)),
            SubmissionResult(request: 4, outcome: .gone(since: 1_700_000_000_000)),
            SubmissionResult(request: 2, outcome: .rejected(.badDeviceToken, text: "it is not")),
        ]
        #expect(peer.results == expected)
        #expect(!peer.hasEnded)
    }

    @Test func `a request number that is in flight ends the connection`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1) + submit(2))
        try peer.finish(2, .delivered())
        peer.hears(.result(2, .delivered, Reason.none))
        try peer.send(submit(1))
        peer.hears(.goAway(.protocolError))
        #expect(peer.hasEnded)
        #expect(peer.requestsTaken == [1, 2])
        #expect(peer.goAways.last?.text.contains("in flight") == true)
    }

    @Test func `a request number in flight is a fault also where the submission would be rejected`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1) + submit(1, [0x01: nil]))
        peer.hears(.goAway(.protocolError))
        #expect(peer.hasEnded)
    }

    @Test func `a request number is free again after its final result`() throws {
        var peer = try Peer.identified()
        let outcomes: [Outcome] = [
            .delivered(), .retry(.nodeBusy, after: 1), .rejected(.payloadRefused), .gone(since: nil),
        ]
        for outcome in outcomes {
            try peer.send(submit(1))
            try peer.finish(1, outcome)
            peer.hears(.result(1, outcome.kind, outcome.reason))
        }
        #expect(peer.requestsTaken == [1, 1, 1, 1])
        #expect(!peer.hasEnded)
    }

    @Test func `more in flight than allowed is put off, and only that`() throws {
        var peer = try Peer.identified { $0.maximumInFlight = 2 }
        try peer.send(submit(1) + submit(2) + submit(3) + submit(4))
        peer.hears(.result(3, .retry, .tooManyInFlight), .result(4, .retry, .tooManyInFlight))
        #expect(peer.requestsTaken == [1, 2])
        #expect(peer.results.allSatisfy { $0.outcome.retryAfter > 0 })
        #expect(!peer.hasEnded)
        try peer.finish(2, .delivered())
        peer.hears(.result(2, .delivered, Reason.none))
        try peer.send(submit(3) + submit(4))
        peer.hears(.result(4, .retry, .tooManyInFlight))
        #expect(peer.requestsTaken == [1, 2, 3])
    }

    @Test func `QUEUED is not final`() throws {
        var peer = try Peer.identified { $0.maximumInFlight = 1 }
        try peer.send(submit(1, [0x09: [1]]))
        #expect(peer.taken.last?.submission.acceptQueued == true)
        try peer.finish(1, Outcome(.queued))
        peer.hears(.result(1, .queued, Reason.none))
        try peer.send(submit(2))
        peer.hears(.result(2, .retry, .tooManyInFlight))
        try peer.finish(1, .delivered())
        peer.hears(.result(1, .delivered, Reason.none))
        try peer.send(submit(2))
        peer.hears()
        #expect(peer.requestsTaken == [1, 2])
    }

    @Test func `what is stored keeps no connection open, neither idle nor at shutdown`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1, [0x09: [1]]) + submit(2))
        #expect(peer.session.deadline == nil)
        try peer.finish(1, Outcome(.queued))
        #expect(peer.session.deadline == nil)
        try peer.finish(2, .delivered())
        #expect(peer.session.deadline != nil)
        try peer.send(submit(3))
        #expect(peer.session.deadline == nil)
        try peer.shutDown()
        #expect(!peer.hasEnded)
        try peer.finish(3, .delivered())
        #expect(peer.hasEnded)
    }

    @Test func `after QUEUED the request number is still in flight`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1, [0x09: [1]]))
        try peer.finish(1, Outcome(.queued))
        peer.hears(.result(1, .queued, Reason.none))
        try peer.send(submit(1))
        peer.hears(.goAway(.protocolError))
    }

    // MARK: PROXY line

    @Test(arguments: [Int.max, 1, 2, 7, 48, 49, 50])
    func `the PROXY line names the circuit, in whatever pieces it comes`(_ size: Int) throws {
        var peer = Peer { $0.circuitIDs = true }
        try peer.send(proxyLine + hello + ping(1), every: size)
        peer.hears(.welcome, .echo(1))
        #expect(peer.circuit == 183)
        #expect(!peer.hasEnded)
    }

    @Test(arguments: [Int.max, 1, 4])
    func `a PROXY line that nobody asked for ends the connection and names the setting`(_ size: Int) throws {
        var peer = Peer()
        try peer.send(proxyLine + hello, every: size)
        peer.hears(.goAway(.protocolError))
        #expect(peer.hasEnded)
        #expect(peer.goAways.last?.text.contains("listen.circuit_ids") == true)
        #expect(peer.circuit == nil)
    }

    @Test(arguments: [Int.max, 1])
    func `a stream without the PROXY line that was asked for ends`(_ size: Int) throws {
        for start in [hello, Array("PROXY UNKNOWN\r\n".utf8), Array("GET / HTTP/1.1\r\n".utf8)] {
            var peer = Peer {
                $0.circuitIDs = true
                $0.onion = "abc.onion:7077"
            }
            try peer.send(start, every: size)
            peer.hears(.goAway(.protocolError))
            #expect(peer.hasEnded)
            #expect(peer.goAways.last?.text.contains("reach the node through tor, at abc.onion:7077") == true)
            #expect(peer.circuit == nil)
        }
    }

    @Test func `a second PROXY line is no frame`() throws {
        var peer = Peer { $0.circuitIDs = true }
        try peer.send(proxyLine + proxyLine)
        #expect(peer.goAways.count == 1)
        #expect(peer.hasEnded)
    }

    @Test func `without circuits there is none`() throws {
        #expect(try Peer.identified().circuit == nil)
    }

    // MARK: Time

    @Test func `without HELLO the connection ends at the deadline and not before`() throws {
        var peer = Peer()
        let deadline = Peer.start + Duration.seconds(30)
        #expect(peer.session.deadline == deadline)
        try peer.wait(.milliseconds(29_999))
        peer.hears()
        #expect(!peer.hasEnded)
        try peer.wait(.milliseconds(1))
        peer.hears(.goAway(.handshakeTimeout))
        #expect(peer.hasEnded)
        #expect(peer.session.deadline == nil)
    }

    @Test func `a PROXY line does not put the handshake's deadline off`() throws {
        var peer = Peer { $0.circuitIDs = true }
        try peer.wait(.seconds(20))
        try peer.send(proxyLine)
        let deadline = Peer.start + Duration.seconds(30)
        #expect(peer.session.deadline == deadline)
        try peer.wait(.seconds(10))
        peer.hears(.goAway(.handshakeTimeout))
    }

    @Test func `an unfinished PROXY line runs out of time as well`() throws {
        var peer = Peer { $0.circuitIDs = true }
        try peer.send(Array(proxyLine.prefix(20)))
        try peer.wait(.seconds(30))
        peer.hears(.goAway(.handshakeTimeout))
        #expect(peer.hasEnded)
    }

    @Test func `a byte a second does not put the handshake's deadline off`() throws {
        var peer = Peer()
        let slow = helloFrame(Hello(agent: String(repeating: "a", count: 64)))
        for (second, byte) in slow.enumerated() where second < 30 {
            peer.hears()
            try peer.send([byte])
            try peer.wait(.seconds(1))
        }
        peer.hears(.goAway(.handshakeTimeout))
        #expect(peer.hasEnded)
    }

    @Test func `a connection on which nothing happens ends as idle, and not before its time`() throws {
        var peer = try Peer.identified()
        let deadline = Peer.start + Duration.seconds(600)
        #expect(peer.session.deadline == deadline)
        try peer.wait(.milliseconds(599_999))
        peer.hears()
        #expect(!peer.hasEnded)
        try peer.wait(.milliseconds(1))
        peer.hears(.goAway(.idle))
        #expect(peer.hasEnded)
    }

    @Test func `each frame puts the idle deadline off`() throws {
        var peer = try Peer.identified()
        for frame in [ping(1), pong(1), skippedFrame(0x80), submit(1, [0x01: nil])] {
            try peer.wait(.seconds(599))
            #expect(!peer.hasEnded)
            try peer.send(frame)
            let deadline = peer.clock + Duration.seconds(600)
            #expect(peer.session.deadline == deadline)
        }
        #expect(!peer.hasEnded)
    }

    @Test func `nothing is idle while something is in flight`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1) + submit(2))
        #expect(peer.session.deadline == nil)
        try peer.wait(.seconds(100_000))
        peer.hears()
        try peer.finish(1, .delivered())
        peer.hears(.result(1, .delivered, Reason.none))
        #expect(peer.session.deadline == nil)
        try peer.wait(.seconds(100_000))
        peer.hears()
        #expect(!peer.hasEnded)
    }

    @Test func `idleness counts from the last result`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1))
        try peer.wait(.seconds(5000))
        try peer.finish(1, .delivered())
        peer.hears(.result(1, .delivered, Reason.none))
        try peer.wait(.milliseconds(599_999))
        peer.hears()
        try peer.wait(.milliseconds(1))
        peer.hears(.goAway(.idle))
        #expect(peer.hasEnded)
    }

    @Test func `a byte a second does not keep an idle connection`() throws {
        var peer = try Peer.identified { $0.frameTimeout = .seconds(3600) }
        let long = submit(1, [0x04: [UInt8](repeating: 0x41, count: 1024)])
        for byte in long.prefix(600) {
            peer.hears()
            try peer.send([byte])
            try peer.wait(.seconds(1))
        }
        peer.hears(.goAway(.idle))
        #expect(peer.hasEnded)
        #expect(peer.taken.isEmpty)
    }

    // MARK: The node's own events

    @Test func `a new puzzle is announced to those who were identified`() throws {
        let puzzle = Puzzle(seed: [UInt8](repeating: 9, count: 16), effort: 1000, lifetime: 60)
        var early = Peer()
        try early.announce(puzzle)
        early.hears()
        var peer = try Peer.identified()
        try peer.announce(puzzle)
        peer.hears(.puzzle(puzzle))
        #expect(!peer.hasEnded)
        try peer.send(submit(1))
        try peer.shutDown()
        try peer.announce(puzzle)
        peer.hears(.goAway(.shuttingDown))
    }

    @Test func `a shutdown with nothing in flight ends the connection at once`() throws {
        var peer = try Peer.identified()
        try peer.shutDown()
        peer.hears(.goAway(.shuttingDown))
        #expect(peer.goAways.last?.retryAfter == 5000)
        #expect(peer.hasEnded)
    }

    @Test func `a shutdown before HELLO ends the connection at once`() throws {
        for circuitIDs in [false, true] {
            var peer = Peer { $0.circuitIDs = circuitIDs }
            try peer.shutDown()
            peer.hears(.goAway(.shuttingDown))
            #expect(peer.hasEnded)
        }
    }

    @Test func `a shutdown waits until everything that was taken is answered`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1) + submit(2) + submit(3))
        try peer.shutDown()
        peer.hears(.goAway(.shuttingDown))
        #expect(!peer.hasEnded)
        #expect(peer.session.deadline == nil)
        try peer.finish(2, .delivered())
        peer.hears(.result(2, .delivered, Reason.none))
        try peer.finish(1, Outcome(.queued))
        peer.hears(.result(1, .queued, Reason.none))
        try peer.finish(1, .delivered())
        peer.hears(.result(1, .delivered, Reason.none))
        #expect(!peer.hasEnded)
        try peer.finish(3, .retry(.providerUnreachable, after: 1000))
        peer.hears(.result(3, .retry, .providerUnreachable))
        #expect(peer.hasEnded)
    }

    @Test func `after a shutdown's GOAWAY nothing more is taken`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1))
        try peer.shutDown()
        peer.hears(.goAway(.shuttingDown))
        try peer.send(submit(2) + submit(3) + ping(1))
        peer.hears(.result(2, .retry, .shuttingDown), .result(3, .retry, .shuttingDown), .echo(1))
        #expect(peer.results.allSatisfy { $0.outcome.retryAfter > 0 })
        #expect(peer.requestsTaken == [1])
        #expect(!peer.hasEnded)
        try peer.finish(1, .delivered())
        peer.hears(.result(1, .delivered, Reason.none))
        #expect(peer.hasEnded)
    }

    @Test func `a shutdown is said once`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1))
        try peer.shutDown()
        try peer.shutDown()
        peer.hears(.goAway(.shuttingDown))
    }

    @Test func `a fault while leaving ends the connection at once`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1))
        try peer.shutDown()
        try peer.send(submit(1))
        peer.hears(.goAway(.shuttingDown), .goAway(.protocolError))
        #expect(peer.hasEnded)
    }

    @Test func `one connection too many is told so and ends`() throws {
        var peer = Peer()
        try peer.refuse()
        peer.hears(.goAway(.busy))
        #expect(peer.goAways.last?.retryAfter == 10_000)
        #expect(peer.hasEnded)
        try peer.send(hello + submit(1))
        peer.hears()
        #expect(peer.taken.isEmpty)
    }

    // MARK: Budgets

    @Test func `a circuit that is not listened to is sent away before anything of it is read`() throws {
        var peer = Peer { $0.circuitIDs = true }
        peer.greeting = GoAway(code: .abuse, retryAfter: 60_000, text: "too much")
        try peer.send(proxyLine + hello + submit(1))
        peer.hears(.goAway(.abuse))
        #expect(peer.hasEnded)
        #expect(peer.taken.isEmpty)
    }

    @Test func `PINGs, PONGs and frames that are skipped have a budget, which comes back with time`() throws {
        var peer = try Peer.identified { $0.control = Rate(burst: 3, perMinute: 60) }
        try peer.send(ping(1) + pong(2) + skippedFrame(0x80))
        peer.hears(.echo(1))
        try peer.wait(.seconds(1))
        try peer.send(ping(4))
        peer.hears(.echo(4))
        try peer.send(ping(5))
        peer.hears(.goAway(.abuse))
        #expect(peer.hasEnded)
    }

    @Test func `submissions do not use the budget of PINGs up`() throws {
        var peer = try Peer.identified { $0.control = Rate(burst: 1, perMinute: 1) }
        for request in 1...10 as ClosedRange<UInt32> { try peer.send(submit(request)) }
        #expect(peer.taken.count == 10)
        try peer.send(ping(1))
        peer.hears(.echo(1))
    }

    @Test(arguments: [1, 4, 20])
    func `a frame that is begun must be ended in time, however many bytes still come`(_ bytes: Int) throws {
        var peer = try Peer.identified()
        let frame = submit(1)
        try peer.send(Array(frame.prefix(bytes)))
        for second in 1...29 {
            try peer.wait(.seconds(1))
            try peer.send([frame[bytes + second - 1]])
            peer.hears()
        }
        try peer.wait(.seconds(1))
        peer.hears(.goAway(.idle))
        #expect(peer.goAways.last?.text.contains("frame") == true)
    }

    @Test func `a frame that is whole in time gives the next one all of its time`() throws {
        var peer = try Peer.identified()
        for request in 1...3 as ClosedRange<UInt32> {
            let frame = submit(request)
            try peer.send(Array(frame.prefix(10)))
            try peer.wait(.seconds(29))
            try peer.send(Array(frame.dropFirst(10)))
            try peer.finish(request, .delivered())
            peer.hears(.result(request, .delivered, .none))
        }
    }

    @Test func `a frame that was begun has its time also while something is in flight`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1) + submit(2).prefix(7))
        try peer.wait(.seconds(30))
        peer.hears(.goAway(.idle))
        #expect(!peer.hasEnded)
        try peer.finish(1, .delivered())
        peer.hears(.result(1, .delivered, .none))
        #expect(peer.hasEnded)
    }

    @Test func `submissions that break the rules are counted`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1) + submit(2, [0x01: nil]) + submit(3, [0x04: [1]]))
        #expect(peer.faults == 2)
        #expect(peer.requestsTaken == [1])
    }

    @Test func `who is refused hears the puzzle, then the outcome, then the end`() throws {
        var peer = try Peer.identified()
        let puzzle = Puzzle(seed: [UInt8](repeating: 9, count: 16), effort: 7, lifetime: 60)
        try peer.send(submit(1))
        var refusal = Refusal(.retry(.proofWrong, after: 0), puzzle: puzzle)
        refusal.goAway = GoAway(code: .abuse)
        try peer.refuse(1, refusal)
        peer.hears(.puzzle(puzzle), .result(1, .retry, .proofWrong), .goAway(.abuse))
        #expect(peer.hasEnded)
    }

    // MARK: The sender's GOAWAY

    @Test func `a sender that leaves with nothing in flight is let go`() throws {
        var peer = try Peer.identified()
        try peer.send(goAwayFrame(.shuttingDown))
        peer.hears()
        #expect(peer.hasEnded)
    }

    @Test func `a sender that leaves still gets its results`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1) + submit(2) + goAwayFrame(.shuttingDown) + submit(3))
        peer.hears(.result(3, .retry, .shuttingDown))
        #expect(!peer.hasEnded)
        #expect(peer.requestsTaken == [1, 2])
        try peer.finish(2, .delivered())
        peer.hears(.result(2, .delivered, Reason.none))
        #expect(!peer.hasEnded)
        try peer.finish(1, .delivered())
        peer.hears(.result(1, .delivered, Reason.none))
        #expect(peer.hasEnded)
    }
}

// MARK: - Helpers

private let twoApps: [(name: String, format: EnvelopeFormat)] = [
    (name: "bisq", format: .pipe), (name: "connect", format: .sealed),
]

private let proxyLine = Array("PROXY TCP6 fc00:dead:beef:4dad::0:b7 ::1 183 80\r\n".utf8)

private let hello = helloFrame(Hello())

private func helloFrame(_ hello: Hello) -> [UInt8] {
    var output: [UInt8] = []
    output.append(hello)
    return output
}

private func goAwayFrame(_ code: GoAway.Code) -> [UInt8] {
    var output: [UInt8] = []
    output.append(GoAway(code: code, text: "the sender leaves"))
    return output
}

private func ping(_ byte: UInt8) -> [UInt8] {
    var output: [UInt8] = []
    output.append(ping: Bytes(repeating: byte, count: 8))
    return output
}

private func pong(_ byte: UInt8) -> [UInt8] {
    var output: [UInt8] = []
    output.append(pong: Bytes(repeating: byte, count: 8))
    return output
}

/// A frame of this type with three bytes of payload.
private func skippedFrame(_ type: UInt8) -> [UInt8] { [0, 0, 0, 4, type, 1, 2, 3] }

/// A good SUBMIT for a `pipe` app, with some of its fields changed, added or (nil) left out.
private func submit(_ request: UInt32, _ changes: [UInt8: [UInt8]?] = [:]) -> [UInt8] {
    var fields: [UInt8: [UInt8]] = [
        0x01: Array("iOS".utf8),
        0x02: Array("d45161df3d172837".utf8),
        0x03: Array("0123456789abcdef".utf8),
        0x04: [UInt8](repeating: 0x41, count: 32),
    ]
    for (tag, value) in changes { fields[tag] = value }
    let ascending = fields.sorted { $0.key < $1.key }
    var output: [UInt8] = []
    output.appendFrame(.submit) { payload in
        payload.append(bigEndian: request)
        for (tag, value) in ascending { payload.appendField(tag, value) }
    }
    return output
}

/// One frame of a node, in brief.
private enum Reply: Equatable {
    case welcome
    case result(UInt32, Outcome.Kind, Reason)
    case pong([UInt8])
    case puzzle(Puzzle)
    case goAway(GoAway.Code)
    /// A frame that no node sends.
    case wrong(type: UInt8)

    /// The answer to `ping(byte)`.
    static func echo(_ byte: UInt8) -> Reply { .pong([UInt8](repeating: byte, count: 8)) }
}

/// A sender's view of a session: the clock that it is told, and what came out of it.
private struct Peer {
    private(set) var session: IngressSession
    private(set) var clock = Peer.start
    /// What has come and has not been looked at by ``hears(_:sourceLocation:)``.
    private(set) var replies: [Reply] = []
    private(set) var welcomes: [Welcome] = []
    private(set) var results: [SubmissionResult] = []
    private(set) var goAways: [GoAway] = []
    private(set) var taken: [(submission: Submission, app: String)] = []
    private(set) var hasEnded = false
    private(set) var faults = 0
    private(set) var circuit: UInt32?
    /// What is said to whoever comes from a circuit of tor's.
    var greeting: GoAway?
    private var decoder = FrameDecoder(maximumLength: 65_536)

    static let start = MonotonicTime(nanoseconds: 1_000_000_000_000)
    static let welcome = Welcome(
        maximumFrame: 8192, maximumInFlight: 64, idleTimeout: 600, serverTime: 1_760_000_000_123,
        puzzle: Puzzle(seed: [UInt8](repeating: 7, count: 16), effort: 0, lifetime: 3600),
        routes: ["bisq/android", "bisq/iOS"])

    init(_ change: (inout IngressSession.Rules) -> Void = { _ in }) {
        var rules = IngressSession.Rules(
            circuitIDs: false, maximumFrame: 8192, maximumInFlight: 64, handshakeTimeout: .seconds(30),
            idleTimeout: .seconds(600), frameTimeout: .seconds(30), control: Rate(burst: 1000, perMinute: 60),
            apps: [(name: "bisq", format: .pipe)], routes: ["bisq/android", "bisq/iOS"])
        change(&rules)
        session = IngressSession(rules: rules, now: Peer.start)
    }

    /// One that has had its WELCOME.
    static func identified(_ change: (inout IngressSession.Rules) -> Void = { _ in }) throws -> Peer {
        var peer = Peer(change)
        try peer.send(hello)
        peer.hears(.welcome)
        return peer
    }

    var requestsTaken: [UInt32] { taken.map { $0.submission.request } }

    /// Expects these frames, and no others, since the last call.
    mutating func hears(_ expected: Reply..., sourceLocation: SourceLocation = #_sourceLocation) {
        let heard = replies
        replies = []
        #expect(heard == expected, sourceLocation: sourceLocation)
    }

    mutating func send(_ bytes: [UInt8], every size: Int = .max) throws {
        var start = 0
        while start < bytes.count {
            let end = start + min(size, bytes.count - start)
            let piece = Array(bytes[start..<end])
            start = end
            let now = clock
            var effects = IngressSession.Effects()
            var circuit = circuit
            session.assignCircuit(
                piece.span.bytes, now: now,
                comesFrom: {
                    circuit = $0
                    return greeting
                }, welcome: { _ in Peer.welcome }, &effects)
            self.circuit = circuit
            try absorb(effects)
        }
    }

    mutating func finish(_ request: UInt32, _ outcome: Outcome) throws {
        let now = clock
        var effects = IngressSession.Effects()
        session.finished(request, outcome, now: now, &effects)
        try absorb(effects)
    }

    mutating func wait(_ duration: Duration) throws {
        let now = clock + duration
        clock = now
        var effects = IngressSession.Effects()
        session.timeReached(now, &effects)
        try absorb(effects)
    }

    mutating func shutDown() throws {
        var effects = IngressSession.Effects()
        session.shutDown(retryAfter: 5000, &effects)
        try absorb(effects)
    }

    mutating func refuse(_ request: UInt32, _ refusal: Refusal) throws {
        let now = clock
        var effects = IngressSession.Effects()
        session.refused(request, refusal, now: now, &effects)
        try absorb(effects)
    }

    mutating func refuse() throws {
        var effects = IngressSession.Effects()
        session.reject(GoAway(code: .busy, retryAfter: 10_000, text: "too many connections"), &effects)
        try absorb(effects)
    }

    mutating func announce(_ puzzle: Puzzle) throws {
        var effects = IngressSession.Effects()
        session.announce(puzzle, &effects)
        try absorb(effects)
    }

    private mutating func absorb(_ effects: IngressSession.Effects) throws {
        let isQuiet = effects.output.isEmpty && effects.submissions.isEmpty && !effects.closes
        if hasEnded, !isQuiet { Issue.record("something came after the end") }
        if effects.closes { hasEnded = true }
        faults += effects.violations
        taken += effects.submissions.map { ($0.submission, $0.app.name) }
        decoder.append(effects.output)
        while let frame = try decoder.next() {
            switch try Message(frame) {
            case .welcome(let welcome):
                welcomes.append(welcome)
                replies.append(.welcome)
            case .result(let result):
                results.append(result)
                replies.append(.result(result.request, result.outcome.kind, result.outcome.reason))
            case .pong(let opaque): replies.append(.pong(Array(opaque)))
            case .puzzle(let puzzle): replies.append(.puzzle(puzzle))
            case .goAway(let goAway):
                goAways.append(goAway)
                replies.append(.goAway(goAway.code))
            case .hello, .submit, .ping, .skipped: replies.append(.wrong(type: frame.type))
            }
        }
        if decoder.isWithinFrame { Issue.record("half a frame came out") }
    }
}
