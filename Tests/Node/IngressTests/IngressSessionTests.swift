// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import TestSupport
import Testing

@testable import Admission
@testable import Ingress
@testable import NodeConfiguration
@testable import TNP
@testable import Time
@testable import TocsinNode

@Suite(.tags(.computing)) struct IngressSessionTests {
    // MARK: Sites

    /// The AUTH of the site whose key has this seed, and the key by which ``Peer/sites`` knows it.
    private func site(_ byte: UInt8, rights: [Site.Right] = [.send]) throws -> (auth: [UInt8], key: [UInt8], site: Site)
    {
        let key = try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: byte, count: 32)))
        let seed = Peer.welcome.puzzle.seed
        var frame: [UInt8] = []
        frame.append(SiteAuthentication(seed: seed, onion: SignedOnion.none, by: key))
        let known = Site(
            name: "site-\(byte)", key: key.publicKey, rights: rights, rate: Rate(burst: 10, perMinute: 10))
        return (frame, seed + key.publicKey, known)
    }

    @Test func `AUTH is answered with the site's name, also together with a SUBMIT`() throws {
        let (auth, key, site) = try site(1)
        var peer = try Peer.identified { $0.siteMode = .open }
        peer.sites[key] = site
        try peer.send(auth + submit(1))
        peer.expect(.authenticated("site-1"))
        #expect(peer.acceptedRequests == [1])
        #expect(peer.violations == 0)
    }

    @Test func `an unknown key is refused, and does not end the site that was proved before`() throws {
        let (first, key, known) = try site(1)
        let (unknown, _, _) = try site(2)
        var peer = try Peer.identified { $0.siteMode = .required }
        peer.sites[key] = known
        try peer.send(unknown + submit(1))
        peer.expect(.authenticated(nil), .result(1, .rejected, .notASite))
        #expect(peer.violations == 2)
        try peer.send(first + unknown + submit(2))
        peer.expect(.authenticated("site-1"), .authenticated(nil))
        #expect(peer.acceptedRequests == [2])
    }

    @Test func `a node for sites only rejects everybody else, and sites that may not send`() throws {
        let (auth, key, site) = try site(1, rights: [.register])
        var peer = try Peer.identified { $0.siteMode = .required }
        peer.sites[key] = site
        try peer.send(submit(1) + auth + submit(2))
        peer.expect(
            .result(1, .rejected, .notASite), .authenticated("site-1"), .result(2, .rejected, .notASite))
        #expect(peer.accepted.isEmpty)
    }

    @Test func `AUTH closes the connection where the node takes no site keys, and before HELLO`() throws {
        let (auth, key, site) = try site(1)
        for mode in [SiteMode.off, .open] {
            var peer = Peer { $0.siteMode = mode }
            peer.sites[key] = site
            try peer.send(mode == .off ? hello + auth : auth + hello)
            #expect(peer.isClosed)
            #expect(peer.goAways.map(\.code) == [.protocolError])
        }
    }

    @Test func `AUTH again and again closes the connection`() throws {
        let (auth, _, _) = try site(1)
        var peer = try Peer.identified {
            $0.siteMode = .open
            $0.control = Rate(burst: 2, perMinute: 1)
        }
        try peer.send(auth + auth + auth)
        peer.expect(.authenticated(nil), .authenticated(nil), .goAway(.abuse))
    }

    // MARK: Handles

    private func handle() throws -> Handle { try #require(Handle([UInt8](repeating: 5, count: 32))) }

    private func register(_ request: UInt32, sequence: UInt64 = 1) throws -> [UInt8] {
        let owner = try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: 1, count: 32)))
        let phone = HandleRequest.Registration(magic: .iOS, deviceToken: Array("d45161df3d172837".utf8))
        var frame: [UInt8] = []
        frame.append(
            HandleRequest(
                request: request, .register(app: [], owner: owner.publicKey, phone), sequence: sequence, at: .none,
                by: owner))
        return frame
    }

    @Test func `REGISTER is answered by REGISTERED, and a SUBMIT by handle is looked up before its fields`() throws {
        var peer = try Peer.identified { $0.keepsHandles = true }
        let byHandle: [UInt8: [UInt8]?] = [0x01: nil, 0x02: nil, 0x0B: try handle().bytes, 0x03: [1]]
        try peer.send(try register(1) + submit(2, byHandle))
        #expect(peer.handleRequests.map(\.request) == [1] && peer.byHandle.map(\.request) == [2])
        try peer.register(1, try handle())
        peer.expect(.registered(1, .none, try handle()))
        let submission = try #require(peer.byHandle.first)
        let phone = HandleRequest.Registration(magic: .iOS, deviceToken: Array("ab".utf8))
        #expect(throws: Rejection.self) { try submission.resolved(to: phone, of: ("bisq", .pipe)) }
        try peer.finish(2, .rejected(.iv))
        peer.expect(.result(2, .rejected, .iv))
        #expect(peer.violations == 0)
    }

    @Test func `a refused REGISTER gets the puzzle and REGISTERED`() throws {
        var peer = try Peer.identified { $0.keepsHandles = true }
        try peer.send(try register(1))
        try peer.refuse(1, Refusal(.retry(.proofRequired, after: 0), puzzle: Peer.welcome.puzzle))
        peer.expect(.puzzle(Peer.welcome.puzzle), .registered(1, .proofRequired, nil))
        // The number is free again, for a submission too.
        try peer.send(submit(1))
        try peer.finish(1, .delivered())
        peer.expect(.result(1, .delivered, .none))
    }

    @Test func `requests about handles and submissions share the numbers and the limit in flight`() throws {
        var peer = try Peer.identified {
            $0.keepsHandles = true
            $0.maximumInFlight = 2
        }
        try peer.send(submit(1) + (try register(2)) + (try register(3)))
        peer.expect(.registered(3, .tooManyInFlight, nil))
        try peer.send(try register(1))
        peer.expect(.goAway(.protocolError))
    }

    @Test func `a request about a handle with a bad signature is a violation`() throws {
        var peer = try Peer.identified { $0.keepsHandles = true }
        var frame = try register(1)
        frame[frame.count - 1] ^= 1
        try peer.send(frame)
        peer.expect(.registered(1, .notTheOwner, nil))
        #expect(peer.violations == 1 && peer.handleRequests.isEmpty)
    }

    @Test func `a node without handles closes the connection for a REGISTER, and rejects a SUBMIT by handle`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1, [0x01: nil, 0x02: nil, 0x0B: try handle().bytes]))
        peer.expect(.result(1, .rejected, .unsupportedField))
        try peer.send(try register(2))
        peer.expect(.goAway(.protocolError))
    }

    @Test func `only a site with the right to register may do so on a node for sites only`() throws {
        for rights in [[Site.Right.send], [.register]] {
            let (auth, key, site) = try site(1, rights: rights)
            var peer = try Peer.identified {
                $0.keepsHandles = true
                $0.siteMode = .required
            }
            peer.sites[key] = site
            try peer.send((try register(1)) + auth + (try register(2)))
            #expect(peer.handleRequests.map(\.request) == (rights == [.register] ? [2] : []))
        }
    }

    @Test func `requests about handles above their rate get RETRY, except from a site`() throws {
        let (auth, key, site) = try site(1, rights: [.register])
        for isSite in [false, true] {
            var peer = try Peer.identified {
                $0.keepsHandles = true
                $0.siteMode = .open
                $0.control = Rate(burst: 2, perMinute: 1)
            }
            peer.sites[key] = site
            if isSite {
                try peer.send(auth)
                peer.expect(.authenticated("site-1"))
                // AUTH has cost one.
                try peer.wait(.seconds(60))
            }
            try peer.send((try register(1)) + (try register(2)) + (try register(3)))
            #expect(peer.handleRequests.map(\.request) == (isSite ? [1, 2, 3] : [1, 2]))
            if !isSite { peer.expect(.registered(3, .connectionOverRate, nil)) }
            #expect(!peer.isClosed && peer.violations == 0)
        }
    }

    // MARK: HELLO and WELCOME

    @Test func `HELLO is answered with WELCOME`() throws {
        var peer = Peer()
        try peer.send(hello)
        peer.expect(.welcome)
        #expect(peer.welcomes == [Peer.welcome])
        #expect(!peer.isClosed)
    }

    @Test(arguments: [(0, 1), (1, 1), (1, 255), (0, 255)] as [(UInt8, UInt8)])
    func `a version range that includes version 1 is accepted`(_ lowest: UInt8, _ highest: UInt8) throws {
        var peer = Peer()
        try peer.send(helloFrame(Hello(lowestVersion: lowest, highestVersion: highest)))
        peer.expect(.welcome)
        #expect(peer.welcomes.last?.version == 1)
    }

    @Test(arguments: [(0, 0), (2, 2), (2, 255)] as [(UInt8, UInt8)])
    func `a version range without version 1 closes the connection`(_ lowest: UInt8, _ highest: UInt8) throws {
        var peer = Peer()
        try peer.send(helloFrame(Hello(lowestVersion: lowest, highestVersion: highest)))
        peer.expect(.goAway(.version))
        #expect(peer.isClosed)
    }

    @Test func `a second HELLO closes the connection`() throws {
        var peer = try Peer.identified()
        try peer.send(hello)
        peer.expect(.goAway(.protocolError))
        #expect(peer.isClosed)
        #expect(peer.goAways.last?.text.contains("second HELLO") == true)
    }

    @Test func `any frame before HELLO closes the connection`() throws {
        let goAway = goAwayFrame(.shuttingDown)
        for first in [ping(1), pong(1), submit(1), goAway, skippedFrame(0x80), skippedFrame(0xFF)] {
            var peer = Peer()
            try peer.send(first + hello)
            peer.expect(.goAway(.protocolError))
            #expect(peer.isClosed)
            #expect(peer.accepted.isEmpty)
            #expect(peer.goAways.last?.text.contains("before HELLO") == true)
        }
    }

    @Test func `a SUBMIT in the same read as HELLO is accepted after WELCOME`() throws {
        var peer = Peer()
        try peer.send(hello + submit(1) + submit(2))
        peer.expect(.welcome)
        #expect(peer.acceptedRequests == [1, 2])
        try peer.finish(1, .delivered(id: "first"))
        peer.expect(.result(1, .delivered, Reason.none))
    }

    @Test func `a SUBMIT that follows HELLO may exceed 256 bytes`() throws {
        let early = submit(1, [0x04: [UInt8](repeating: 0x41, count: 3072)])
        for size in [Int.max, 1, 100] {
            var peer = Peer()
            try peer.send(hello + early, every: size)
            peer.expect(.welcome)
            #expect(peer.acceptedRequests == [1])
        }
    }

    @Test func `the frame limit before WELCOME is 256 bytes`() throws {
        var longest = Peer()
        try longest.send([0, 0, 1, 0, 0x01] + [UInt8](repeating: 0x41, count: 255))
        longest.expect(.goAway(.protocolError))
        var longer = Peer()
        try longer.send([0, 0, 1, 1])
        longer.expect(.goAway(.frameTooLarge))
        #expect(longer.isClosed)
    }

    @Test func `the frame limit after WELCOME is max_frame`() throws {
        var peer = try Peer.identified { $0.maximumFrame = 4096 }
        try peer.send([0, 0, 0x10, 0, 0x80] + [UInt8](repeating: 0, count: 4095) + ping(1))
        peer.expect(.echo(1))
        try peer.send([0, 0, 0x10, 1])
        peer.expect(.goAway(.frameTooLarge))
        #expect(peer.isClosed)
    }

    // MARK: Protocol errors

    @Test(arguments: Vectors.refused(by: "node").indices)
    func `each invalid vector closes the connection with its GOAWAY code`(_ index: Int) throws {
        let vector = Vectors.refused(by: "node")[index]
        let bytes = try #require(Hex.decode(vector.bytes))
        for size in [Int.max, 1] {
            var peer = try vector.identified ? Peer.identified() : Peer()
            try peer.send(bytes, every: size)
            let expected = Reply.goAway(GoAway.Code(rawValue: vector.goaway))
            #expect(peer.replies.last == expected, "\(vector.name)")
            #expect(peer.goAways.count == 1, "\(vector.name)")
            #expect(peer.goAways.last?.text.isEmpty == false, "\(vector.name)")
            #expect(peer.isClosed, "\(vector.name)")
            #expect(peer.accepted.isEmpty, "\(vector.name)")
            #expect(peer.session.deadline == nil, "\(vector.name)")
        }
    }

    @Test func `the vectors include invalid frames and rejected submissions`() {
        #expect(!Vectors.refused(by: "node").isEmpty)
        #expect(!Vectors.all.rejected.isEmpty)
    }

    @Test func `a closed session ignores all input and sends nothing`() throws {
        var peer = try Peer.identified()
        try peer.send([0, 0, 0, 0] + ping(1))
        peer.expect(.goAway(.protocolError))
        try peer.send(hello + submit(1) + ping(2))
        try peer.wait(.seconds(100_000))
        try peer.shutDown()
        try peer.announce(Peer.welcome.puzzle)
        peer.expect()
        #expect(peer.accepted.isEmpty)
    }

    @Test func `a protocol error closes the connection at once, even with requests in flight`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1) + submit(2) + [0, 0, 0, 0])
        peer.expect(.goAway(.protocolError))
        #expect(peer.isClosed)
        #expect(peer.acceptedRequests == [1, 2])
        try peer.finish(1, .delivered())
        try peer.finish(2, .delivered())
        peer.expect()
    }

    @Test func `the division of the stream into reads does not matter`() throws {
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
            #expect(peer.acceptedRequests == [7], "cut at \(cut)")
            #expect(!peer.isClosed, "cut at \(cut)")
        }
        for size in [1, 2, 3, 5, 7, 64] {
            var peer = Peer()
            try peer.send(stream, every: size)
            #expect(peer.replies == whole.replies, "\(size) bytes at a time")
            #expect(peer.acceptedRequests == [7], "\(size) bytes at a time")
        }
    }

    // MARK: PING, PONG and skipped frames

    @Test func `PING is answered with the same eight bytes`() throws {
        var peer = try Peer.identified()
        var bytes: [UInt8] = []
        bytes.append(ping: [0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, 0])
        try peer.send(bytes)
        peer.expect(.pong([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, 0]))
        #expect(!peer.isClosed)
    }

    @Test func `PONG gets no reply`() throws {
        var peer = try Peer.identified()
        try peer.send(pong(1))
        peer.expect()
        #expect(!peer.isClosed)
    }

    @Test(arguments: [UInt8(0x80), 0x81, 0xFE, 0xFF])
    func `an unknown type from 0x80 is skipped`(_ type: UInt8) throws {
        var peer = try Peer.identified()
        try peer.send(skippedFrame(type) + [0, 0, 0, 1, type] + ping(1))
        peer.expect(.echo(1))
        #expect(!peer.isClosed)
    }

    @Test(arguments: [UInt8(0x00), 0x09, 0x0F, 0x10, 0x1F, 0x20, 0x7F])
    func `an unknown type below 0x80 closes the connection`(_ type: UInt8) throws {
        var peer = try Peer.identified()
        try peer.send(skippedFrame(type))
        peer.expect(.goAway(.protocolError))
        #expect(peer.isClosed)
    }

    // MARK: Submissions

    @Test func `a submission without an app is for the default app`() throws {
        var peer = try Peer.identified { $0.apps = twoApps }
        try peer.send(submit(0xFFFF_FFFF))
        peer.expect()
        #expect(peer.accepted.count == 1)
        let (submission, app) = try #require(peer.accepted.first)
        #expect(app == "bisq")
        #expect(submission.request == 0xFFFF_FFFF)
        #expect(submission.envelope.magic == .iOS)
        #expect(submission.envelope.ciphertext.count == 32)
    }

    @Test func `a submission is checked against the format of its app`() throws {
        var peer = try Peer.identified { $0.apps = twoApps }
        let nonce = [UInt8](repeating: 0xEE, count: 12)
        let sealed = [UInt8](repeating: 0x41, count: 17)
        try peer.send(submit(1, [0x03: nonce, 0x04: sealed, 0x0A: Array("connect".utf8)]))
        peer.expect()
        #expect(peer.accepted.last?.app == "connect")
        try peer.send(submit(2, [0x0A: Array("connect".utf8)]) + submit(3, [0x03: nonce, 0x04: sealed]))
        peer.expect(.result(2, .rejected, .iv), .result(3, .rejected, .iv))
        try peer.send(submit(4, [0x0A: Array("bisq".utf8)]))
        #expect(peer.accepted.last?.app == "bisq")
        #expect(peer.acceptedRequests == [1, 4])
    }

    @Test func `an unknown app is rejected and the connection stays open`() throws {
        var peer = try Peer.identified { $0.apps = twoApps }
        for name in ["haveno", "Bisq", "bis", "bisq ", "bisqq"] {
            try peer.send(submit(1, [0x0A: Array(name.utf8)]))
            peer.expect(.result(1, .rejected, .unknownApp))
        }
        try peer.send(submit(1))
        #expect(peer.acceptedRequests == [1])
        #expect(!peer.isClosed)
    }

    @Test(arguments: Vectors.all.rejected.indices)
    func `an invalid submission is rejected and the connection stays open`(_ index: Int) throws {
        let vector = Vectors.all.rejected[index]
        let bytes = try #require(Hex.decode(vector.bytes))
        let format = try #require(EnvelopeFormat(rawValue: vector.format))
        var peer = try Peer.identified { $0.apps = [(name: "bisq", format: format)] }
        try peer.send(bytes + ping(9))
        peer.expect(.result(7, .rejected, Reason(rawValue: vector.reason)), .echo(9))
        #expect(peer.results.last?.outcome.text?.isEmpty == false, "\(vector.name)")
        #expect(peer.accepted.isEmpty, "\(vector.name)")
        #expect(!peer.isClosed, "\(vector.name)")
        // The result is final, so the request is no longer in flight and the idle timeout runs.
        let expected = Peer.start + Duration.seconds(600)
        #expect(peer.session.deadline == expected, "\(vector.name)")
    }

    @Test func `a missing, invalid or unknown field is rejected with its reason`() throws {
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
            (changes: [0x0B: []], reason: .malformed),
            (changes: [0x0C: []], reason: .unsupportedField),
            (changes: [0x7F: [1]], reason: .unsupportedField),
        ]
        var peer = try Peer.identified()
        for (changes, reason) in faults {
            try peer.send(submit(1, changes))
            peer.expect(.result(1, .rejected, reason))
        }
        #expect(peer.accepted.isEmpty)
        try peer.send(submit(1, [0x80: [1, 2, 3], 0xFF: []]))
        peer.expect()
        #expect(peer.acceptedRequests == [1])
    }

    @Test func `the text of a rejection repeats nothing of the submission`() throws {
        var peer = try Peer.identified()
        let token = Array("not-a-token-but-secret".utf8)
        try peer.send(submit(1, [0x02: token]) + submit(2, [0x0A: token]) + submit(3, [0x01: token]))
        #expect(peer.results.count == 3)
        for result in peer.results { #expect(result.outcome.text?.contains("secret") != true) }
    }

    @Test func `results are sent in the order of completion, unchanged`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1) + submit(2) + submit(3) + submit(4))
        try peer.finish(3, .delivered(id: "third"))
        try peer.finish(1, .retry(.providerThrottles, after: 2500))
        try peer.finish(4, .gone(since: 1_700_000_000_000))
        try peer.finish(2, .rejected(.badDeviceToken, text: "it is not"))
        peer.expect(
            .result(3, .delivered, Reason.none), .result(1, .retry, .providerThrottles),
            .result(4, .gone, .unregistered), .result(2, .rejected, .badDeviceToken))
        let expected: [SubmissionResult] = [
            SubmissionResult(request: 3, outcome: .delivered(id: "third")),
            SubmissionResult(request: 1, outcome: .retry(.providerThrottles, after: 2500)),
            SubmissionResult(request: 4, outcome: .gone(since: 1_700_000_000_000)),
            SubmissionResult(request: 2, outcome: .rejected(.badDeviceToken, text: "it is not")),
        ]
        #expect(peer.results == expected)
        #expect(!peer.isClosed)
    }

    @Test func `reuse of a request number in flight closes the connection`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1) + submit(2))
        try peer.finish(2, .delivered())
        peer.expect(.result(2, .delivered, Reason.none))
        try peer.send(submit(1))
        peer.expect(.goAway(.protocolError))
        #expect(peer.isClosed)
        #expect(peer.acceptedRequests == [1, 2])
        #expect(peer.goAways.last?.text.contains("in flight") == true)
    }

    @Test func `reuse in an invalid submission closes the connection as well`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1) + submit(1, [0x01: nil]))
        peer.expect(.goAway(.protocolError))
        #expect(peer.isClosed)
    }

    @Test func `a request number is free after its final result`() throws {
        var peer = try Peer.identified()
        let outcomes: [Outcome] = [
            .delivered(), .retry(.nodeBusy, after: 1), .rejected(.payloadRefused), .gone(since: nil),
        ]
        for outcome in outcomes {
            try peer.send(submit(1))
            try peer.finish(1, outcome)
            peer.expect(.result(1, outcome.kind, outcome.reason))
        }
        #expect(peer.acceptedRequests == [1, 1, 1, 1])
        #expect(!peer.isClosed)
    }

    @Test func `a submission over the in-flight limit gets RETRY, the others do not`() throws {
        var peer = try Peer.identified { $0.maximumInFlight = 2 }
        try peer.send(submit(1) + submit(2) + submit(3) + submit(4))
        peer.expect(.result(3, .retry, .tooManyInFlight), .result(4, .retry, .tooManyInFlight))
        #expect(peer.acceptedRequests == [1, 2])
        #expect(peer.results.allSatisfy { $0.outcome.retryAfter > 0 })
        #expect(!peer.isClosed)
        try peer.finish(2, .delivered())
        peer.expect(.result(2, .delivered, Reason.none))
        try peer.send(submit(3) + submit(4))
        peer.expect(.result(4, .retry, .tooManyInFlight))
        #expect(peer.acceptedRequests == [1, 2, 3])
    }

    @Test func `QUEUED is not final`() throws {
        var peer = try Peer.identified { $0.maximumInFlight = 1 }
        try peer.send(submit(1, [0x09: [1]]))
        #expect(peer.accepted.last?.submission.acceptQueued == true)
        try peer.finish(1, Outcome(.queued))
        peer.expect(.result(1, .queued, Reason.none))
        try peer.send(submit(2))
        peer.expect(.result(2, .retry, .tooManyInFlight))
        try peer.finish(1, .delivered())
        peer.expect(.result(1, .delivered, Reason.none))
        try peer.send(submit(2))
        peer.expect()
        #expect(peer.acceptedRequests == [1, 2])
    }

    @Test func `a QUEUED request does not keep the connection open`() throws {
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
        #expect(!peer.isClosed)
        try peer.finish(3, .delivered())
        #expect(peer.isClosed)
    }

    @Test func `a request number stays in use after QUEUED`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1, [0x09: [1]]))
        try peer.finish(1, Outcome(.queued))
        peer.expect(.result(1, .queued, Reason.none))
        try peer.send(submit(1))
        peer.expect(.goAway(.protocolError))
    }

    // MARK: PROXY line

    @Test(arguments: [Int.max, 1, 2, 7, 48, 49, 50])
    func `the PROXY line identifies the circuit, even in pieces`(_ size: Int) throws {
        var peer = Peer { $0.circuitIDs = true }
        try peer.send(proxyLine + hello + ping(1), every: size)
        peer.expect(.welcome, .echo(1))
        #expect(peer.circuit == 183)
        #expect(!peer.isClosed)
    }

    @Test(arguments: [Int.max, 1, 4])
    func `an unexpected PROXY line closes the connection and names the setting`(_ size: Int) throws {
        var peer = Peer()
        try peer.send(proxyLine + hello, every: size)
        peer.expect(.goAway(.protocolError))
        #expect(peer.isClosed)
        #expect(peer.goAways.last?.text.contains("listen.circuit_ids") == true)
        #expect(peer.circuit == nil)
    }

    @Test(arguments: [Int.max, 1])
    func `a missing PROXY line closes the connection and names the onion address`(_ size: Int) throws {
        for start in [hello, Array("PROXY UNKNOWN\r\n".utf8), Array("GET / HTTP/1.1\r\n".utf8)] {
            var peer = Peer {
                $0.circuitIDs = true
                $0.onion = "abc.onion:7077"
            }
            try peer.send(start, every: size)
            peer.expect(.goAway(.protocolError))
            #expect(peer.isClosed)
            #expect(peer.goAways.last?.text.contains("reach the node through tor, at abc.onion:7077") == true)
            #expect(peer.circuit == nil)
        }
    }

    @Test func `a second PROXY line closes the connection`() throws {
        var peer = Peer { $0.circuitIDs = true }
        try peer.send(proxyLine + proxyLine)
        #expect(peer.goAways.count == 1)
        #expect(peer.isClosed)
    }

    @Test func `a connection without a PROXY line has no circuit`() throws {
        #expect(try Peer.identified().circuit == nil)
    }

    // MARK: Timeouts

    @Test func `a connection without HELLO is closed at the handshake deadline`() throws {
        var peer = Peer()
        let deadline = Peer.start + Duration.seconds(30)
        #expect(peer.session.deadline == deadline)
        try peer.wait(.milliseconds(29_999))
        peer.expect()
        #expect(!peer.isClosed)
        try peer.wait(.milliseconds(1))
        peer.expect(.goAway(.handshakeTimeout))
        #expect(peer.isClosed)
        #expect(peer.session.deadline == nil)
    }

    @Test func `a PROXY line does not extend the handshake deadline`() throws {
        var peer = Peer { $0.circuitIDs = true }
        try peer.wait(.seconds(20))
        try peer.send(proxyLine)
        let deadline = Peer.start + Duration.seconds(30)
        #expect(peer.session.deadline == deadline)
        try peer.wait(.seconds(10))
        peer.expect(.goAway(.handshakeTimeout))
    }

    @Test func `the handshake deadline covers an incomplete PROXY line`() throws {
        var peer = Peer { $0.circuitIDs = true }
        try peer.send(Array(proxyLine.prefix(20)))
        try peer.wait(.seconds(30))
        peer.expect(.goAway(.handshakeTimeout))
        #expect(peer.isClosed)
    }

    @Test func `a byte a second does not extend the handshake deadline`() throws {
        var peer = Peer()
        let slow = helloFrame(Hello(agent: String(repeating: "a", count: 64)))
        for (second, byte) in slow.enumerated() where second < 30 {
            peer.expect()
            try peer.send([byte])
            try peer.wait(.seconds(1))
        }
        peer.expect(.goAway(.handshakeTimeout))
        #expect(peer.isClosed)
    }

    @Test func `an idle connection is closed at the idle timeout`() throws {
        var peer = try Peer.identified()
        let deadline = Peer.start + Duration.seconds(600)
        #expect(peer.session.deadline == deadline)
        try peer.wait(.milliseconds(599_999))
        peer.expect()
        #expect(!peer.isClosed)
        try peer.wait(.milliseconds(1))
        peer.expect(.goAway(.idle))
        #expect(peer.isClosed)
    }

    @Test func `each frame restarts the idle timeout`() throws {
        var peer = try Peer.identified()
        for frame in [ping(1), pong(1), skippedFrame(0x80), submit(1, [0x01: nil])] {
            try peer.wait(.seconds(599))
            #expect(!peer.isClosed)
            try peer.send(frame)
            let deadline = peer.clock + Duration.seconds(600)
            #expect(peer.session.deadline == deadline)
        }
        #expect(!peer.isClosed)
    }

    @Test func `a connection with a request in flight is not idle`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1) + submit(2))
        #expect(peer.session.deadline == nil)
        try peer.wait(.seconds(100_000))
        peer.expect()
        try peer.finish(1, .delivered())
        peer.expect(.result(1, .delivered, Reason.none))
        #expect(peer.session.deadline == nil)
        try peer.wait(.seconds(100_000))
        peer.expect()
        #expect(!peer.isClosed)
    }

    @Test func `the idle timeout starts at the last result`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1))
        try peer.wait(.seconds(5000))
        try peer.finish(1, .delivered())
        peer.expect(.result(1, .delivered, Reason.none))
        try peer.wait(.milliseconds(599_999))
        peer.expect()
        try peer.wait(.milliseconds(1))
        peer.expect(.goAway(.idle))
        #expect(peer.isClosed)
    }

    @Test func `a byte a second does not extend the idle timeout`() throws {
        var peer = try Peer.identified { $0.frameTimeout = .seconds(3600) }
        let long = submit(1, [0x04: [UInt8](repeating: 0x41, count: 1024)])
        for byte in long.prefix(600) {
            peer.expect()
            try peer.send([byte])
            try peer.wait(.seconds(1))
        }
        peer.expect(.goAway(.idle))
        #expect(peer.isClosed)
        #expect(peer.accepted.isEmpty)
    }

    // MARK: Events of the node

    @Test func `a new puzzle is announced to identified senders only`() throws {
        let puzzle = Puzzle(seed: [UInt8](repeating: 9, count: 16), effort: 1000, lifetime: 60)
        var early = Peer()
        try early.announce(puzzle)
        early.expect()
        var peer = try Peer.identified()
        try peer.announce(puzzle)
        peer.expect(.puzzle(puzzle))
        #expect(!peer.isClosed)
        try peer.send(submit(1))
        try peer.shutDown()
        try peer.announce(puzzle)
        peer.expect(.goAway(.shuttingDown))
    }

    @Test func `a shutdown closes a connection with nothing in flight at once`() throws {
        var peer = try Peer.identified()
        try peer.shutDown()
        peer.expect(.goAway(.shuttingDown))
        #expect(peer.goAways.last?.retryAfter == 5000)
        #expect(peer.isClosed)
    }

    @Test func `a shutdown closes a connection before HELLO at once`() throws {
        for circuitIDs in [false, true] {
            var peer = Peer { $0.circuitIDs = circuitIDs }
            try peer.shutDown()
            peer.expect(.goAway(.shuttingDown))
            #expect(peer.isClosed)
        }
    }

    @Test func `a shutdown waits for the result of each accepted submission`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1) + submit(2) + submit(3))
        try peer.shutDown()
        peer.expect(.goAway(.shuttingDown))
        #expect(!peer.isClosed)
        #expect(peer.session.deadline == nil)
        try peer.finish(2, .delivered())
        peer.expect(.result(2, .delivered, Reason.none))
        try peer.finish(1, Outcome(.queued))
        peer.expect(.result(1, .queued, Reason.none))
        try peer.finish(1, .delivered())
        peer.expect(.result(1, .delivered, Reason.none))
        #expect(!peer.isClosed)
        try peer.finish(3, .retry(.providerUnreachable, after: 1000))
        peer.expect(.result(3, .retry, .providerUnreachable))
        #expect(peer.isClosed)
    }

    @Test func `a submission after the GOAWAY of a shutdown gets RETRY`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1))
        try peer.shutDown()
        peer.expect(.goAway(.shuttingDown))
        try peer.send(submit(2) + submit(3) + ping(1))
        peer.expect(.result(2, .retry, .shuttingDown), .result(3, .retry, .shuttingDown), .echo(1))
        #expect(peer.results.allSatisfy { $0.outcome.retryAfter > 0 })
        #expect(peer.acceptedRequests == [1])
        #expect(!peer.isClosed)
        try peer.finish(1, .delivered())
        peer.expect(.result(1, .delivered, Reason.none))
        #expect(peer.isClosed)
    }

    @Test func `a shutdown sends one GOAWAY`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1))
        try peer.shutDown()
        try peer.shutDown()
        peer.expect(.goAway(.shuttingDown))
    }

    @Test func `a protocol error during shutdown closes the connection at once`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1))
        try peer.shutDown()
        try peer.send(submit(1))
        peer.expect(.goAway(.shuttingDown), .goAway(.protocolError))
        #expect(peer.isClosed)
    }

    @Test func `a connection over the limit gets GOAWAY and is closed`() throws {
        var peer = Peer()
        try peer.reject()
        peer.expect(.goAway(.busy))
        #expect(peer.goAways.last?.retryAfter == 10_000)
        #expect(peer.isClosed)
        try peer.send(hello + submit(1))
        peer.expect()
        #expect(peer.accepted.isEmpty)
    }

    // MARK: Rate limits and violations

    @Test func `a blocked circuit is rejected before any of its frames is read`() throws {
        var peer = Peer { $0.circuitIDs = true }
        peer.circuitRejection = GoAway(code: .abuse, retryAfter: 60_000, text: "too much")
        try peer.send(proxyLine + hello + submit(1))
        peer.expect(.goAway(.abuse))
        #expect(peer.isClosed)
        #expect(peer.accepted.isEmpty)
    }

    @Test func `PING, PONG and skipped frames share a rate limit`() throws {
        var peer = try Peer.identified { $0.control = Rate(burst: 3, perMinute: 60) }
        try peer.send(ping(1) + pong(2) + skippedFrame(0x80))
        peer.expect(.echo(1))
        try peer.wait(.seconds(1))
        try peer.send(ping(4))
        peer.expect(.echo(4))
        try peer.send(ping(5))
        peer.expect(.goAway(.abuse))
        #expect(peer.isClosed)
    }

    @Test func `submissions do not count against the rate limit of PING`() throws {
        var peer = try Peer.identified { $0.control = Rate(burst: 1, perMinute: 1) }
        for request in 1...10 as ClosedRange<UInt32> { try peer.send(submit(request)) }
        #expect(peer.accepted.count == 10)
        try peer.send(ping(1))
        peer.expect(.echo(1))
    }

    @Test(arguments: [1, 4, 20])
    func `an incomplete frame closes the connection at the frame timeout`(_ bytes: Int) throws {
        var peer = try Peer.identified()
        let frame = submit(1)
        try peer.send(Array(frame.prefix(bytes)))
        for second in 1...29 {
            try peer.wait(.seconds(1))
            try peer.send([frame[bytes + second - 1]])
            peer.expect()
        }
        try peer.wait(.seconds(1))
        peer.expect(.goAway(.idle))
        #expect(peer.goAways.last?.text.contains("frame") == true)
    }

    @Test func `the frame timeout restarts with each frame`() throws {
        var peer = try Peer.identified()
        for request in 1...3 as ClosedRange<UInt32> {
            let frame = submit(request)
            try peer.send(Array(frame.prefix(10)))
            try peer.wait(.seconds(29))
            try peer.send(Array(frame.dropFirst(10)))
            try peer.finish(request, .delivered())
            peer.expect(.result(request, .delivered, .none))
        }
    }

    @Test func `the frame timeout applies while a request is in flight`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1) + submit(2).prefix(7))
        try peer.wait(.seconds(30))
        peer.expect(.goAway(.idle))
        #expect(!peer.isClosed)
        try peer.finish(1, .delivered())
        peer.expect(.result(1, .delivered, .none))
        #expect(peer.isClosed)
    }

    @Test func `invalid submissions are counted as violations`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1) + submit(2, [0x01: nil]) + submit(3, [0x04: [1]]))
        #expect(peer.violations == 2)
        #expect(peer.acceptedRequests == [1])
    }

    @Test func `a refusal sends the puzzle, then the result, then GOAWAY`() throws {
        var peer = try Peer.identified()
        let puzzle = Puzzle(seed: [UInt8](repeating: 9, count: 16), effort: 7, lifetime: 60)
        try peer.send(submit(1))
        var refusal = Refusal(.retry(.proofWrong, after: 0), puzzle: puzzle)
        refusal.goAway = GoAway(code: .abuse)
        try peer.refuse(1, refusal)
        peer.expect(.puzzle(puzzle), .result(1, .retry, .proofWrong), .goAway(.abuse))
        #expect(peer.isClosed)
    }

    // MARK: The sender's GOAWAY

    @Test func `GOAWAY from a sender with nothing in flight closes the connection`() throws {
        var peer = try Peer.identified()
        try peer.send(goAwayFrame(.shuttingDown))
        peer.expect()
        #expect(peer.isClosed)
    }

    @Test func `a sender still gets its results after its GOAWAY`() throws {
        var peer = try Peer.identified()
        try peer.send(submit(1) + submit(2) + goAwayFrame(.shuttingDown) + submit(3))
        peer.expect(.result(3, .retry, .shuttingDown))
        #expect(!peer.isClosed)
        #expect(peer.acceptedRequests == [1, 2])
        try peer.finish(2, .delivered())
        peer.expect(.result(2, .delivered, Reason.none))
        #expect(!peer.isClosed)
        try peer.finish(1, .delivered())
        peer.expect(.result(1, .delivered, Reason.none))
        #expect(peer.isClosed)
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

/// A valid SUBMIT for a `pipe` app. Each change sets a field, or removes it if the value is `nil`.
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
        for (tag, value) in ascending {
            payload.append(tag)
            payload.append(bigEndian: UInt16(value.count))
            payload += value
        }
    }
    return output
}

/// Summary of a frame from the node.
private enum Reply: Equatable {
    case welcome
    case result(UInt32, Outcome.Kind, Reason)
    case pong([UInt8])
    case puzzle(Puzzle)
    case goAway(GoAway.Code)
    /// AUTHED, with the site's name if the node knows the site.
    case authenticated(String?)
    case registered(UInt32, Reason, Handle?)
    /// A frame that no node sends.
    case wrong(type: UInt8)

    /// The PONG for `ping(byte)`.
    static func echo(_ byte: UInt8) -> Reply { .pong([UInt8](repeating: byte, count: 8)) }
}

/// A session with a test clock, and everything it has sent.
private struct Peer {
    private(set) var session: IngressSession
    private(set) var clock = Peer.start
    /// The frames since the last ``expect(_:sourceLocation:)``.
    private(set) var replies: [Reply] = []
    private(set) var welcomes: [Welcome] = []
    private(set) var results: [SubmissionResult] = []
    private(set) var goAways: [GoAway] = []
    private(set) var accepted: [(submission: Submission, app: String)] = []
    private(set) var byHandle: [SubmissionByHandle] = []
    private(set) var handleRequests: [HandleRequest] = []
    private(set) var isClosed = false
    private(set) var violations = 0
    private(set) var circuit: UInt32?
    /// The GOAWAY for a connection with a circuit; `nil` if the circuit is accepted.
    var circuitRejection: GoAway?
    /// The sites by the seeds and public keys that prove them.
    var sites: [[UInt8]: Site] = [:]
    private var decoder = FrameDecoder(maximumLength: 65_536)

    static let start = MonotonicTime(nanoseconds: 1_000_000_000_000)
    static let welcome = Welcome(
        maximumFrame: 8192, maximumInFlight: 64, idleTimeout: 600, serverTime: 1_760_000_000_123,
        puzzle: Puzzle(seed: [UInt8](repeating: 7, count: 16), effort: 0, lifetime: 3600),
        routes: ["bisq/android", "bisq/iOS"])

    init(_ change: (inout IngressSession.Rules) -> Void = { _ in }) {
        var rules = IngressSession.Rules(
            circuitIDs: false, onions: [], maximumFrame: 8192, maximumInFlight: 64, handshakeTimeout: .seconds(30),
            idleTimeout: .seconds(600), frameTimeout: .seconds(30), readTimeout: .seconds(30),
            control: Rate(burst: 1000, perMinute: 60), apps: [(name: "bisq", format: .pipe)],
            routes: ["bisq/android", "bisq/iOS"], siteMode: .off, keepsHandles: false)
        change(&rules)
        session = IngressSession(rules: rules, now: Peer.start)
    }

    /// A peer that has received WELCOME.
    static func identified(_ change: (inout IngressSession.Rules) -> Void = { _ in }) throws -> Peer {
        var peer = Peer(change)
        try peer.send(hello)
        peer.expect(.welcome)
        return peer
    }

    var acceptedRequests: [UInt32] { accepted.map { $0.submission.request } }

    /// Expects exactly these frames since the last call.
    mutating func expect(_ expected: Reply..., sourceLocation: SourceLocation = #_sourceLocation) {
        let received = replies
        replies = []
        #expect(received == expected, sourceLocation: sourceLocation)
    }

    mutating func send(_ bytes: [UInt8], every size: Int = .max) throws {
        var start = 0
        while start < bytes.count {
            let end = start + min(size, bytes.count - start)
            let piece = Array(bytes[start..<end])
            start = end
            let now = clock
            var (requests, effects) = (IngressSession.Requests(), IngressSession.Effects())
            var circuit = circuit
            session.received(
                piece.span.bytes, now: now,
                comesFrom: {
                    circuit = $0
                    return circuitRejection
                }, welcome: { _ in Peer.welcome }, identify: { [sites] in sites[$1 + $0.key] }, &requests, &effects)
            self.circuit = circuit
            try absorb(effects, requests)
        }
    }

    mutating func finish(_ request: UInt32, _ outcome: Outcome) throws {
        let now = clock
        var effects = IngressSession.Effects()
        session.finished(request, outcome, now: now, &effects)
        try absorb(effects)
    }

    mutating func register(_ request: UInt32, _ handle: Handle) throws {
        let now = clock
        var effects = IngressSession.Effects()
        session.registered(request, handle, now: now, &effects)
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

    mutating func reject() throws {
        var effects = IngressSession.Effects()
        session.reject(GoAway(code: .busy, retryAfter: 10_000, text: "too many connections"), &effects)
        try absorb(effects)
    }

    mutating func announce(_ puzzle: Puzzle) throws {
        var effects = IngressSession.Effects()
        session.announce(puzzle, &effects)
        try absorb(effects)
    }

    private mutating func absorb(
        _ effects: IngressSession.Effects, _ requests: IngressSession.Requests = IngressSession.Requests()
    ) throws {
        let isQuiet = effects.output.isEmpty && requests.submissions.isEmpty && !effects.closes
        if isClosed, !isQuiet { Issue.record("effects after the connection was closed") }
        if effects.closes { isClosed = true }
        violations += requests.violations
        accepted += requests.submissions.map { ($0.submission, $0.app.name) }
        byHandle += requests.submissionsByHandle
        handleRequests += requests.handleRequests
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
            case .authenticated(let result): replies.append(.authenticated(result.name))
            case .registered(let result):
                replies.append(.registered(result.request, result.outcome.reason, result.handle))
            case .hello, .submit, .handleRequest, .ping, .authentication, .skipped:
                replies.append(.wrong(type: frame.type))
            }
        }
        if decoder.isWithinFrame { Issue.record("the output ends with an incomplete frame") }
    }
}
