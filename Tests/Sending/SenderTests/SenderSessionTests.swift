// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import StandIns
import TestSupport
import Testing

@testable import Sender
@testable import TNP
@testable import Time
@testable import TocsinClient

@Suite(.tags(.sockets)) struct SenderSessionTests {
    // MARK: Sending

    @Test func `HELLO goes out first, and pending submissions follow at once`() throws {
        var sender = Sender()
        try sender.add(3)
        let requests = try sender.connect(agent: "test")
        #expect(requests == [1, 2, 3])
        #expect(sender.hellos == [Hello(lowestVersion: 1, highestVersion: 1, agent: "test")])
        #expect(sender.output[4] == FrameType.hello.rawValue)
        #expect(sender.session.requests.count == 3)
        #expect(try sender.flush().isEmpty)
    }

    @Test func `HELLO goes out alone if nothing is pending`() throws {
        var sender = Sender()
        let requests = try sender.connect()
        #expect(requests.isEmpty)
        #expect(sender.hellos == [Hello()])
    }

    @Test func `a submission added while connected goes out once`() throws {
        var sender = Sender()
        try sender.connect()
        try sender.add(2)
        #expect(try sender.flush() == [1, 2])
        #expect(try sender.flush().isEmpty)
        try sender.add(1)
        #expect(try sender.flush() == [3])
    }

    @Test func `each submission has its own request number`() throws {
        var sender = Sender()
        let first = try sender.add(3)
        try sender.connectWelcomed()
        try sender.receive(resultFrame(2, .delivered()))
        let second = try sender.add(3)
        #expect(Set(first + second).count == 6)
    }

    @Test func `a resend after a reconnect has the same bytes`() throws {
        var sender = Sender()
        try sender.add(5)
        try sender.connect()
        let before = sender.output
        try sender.receive(welcomeFrame())
        let requests = try sender.connect()
        #expect(requests == [1, 2, 3, 4, 5])
        #expect(sender.output == before)
    }

    @Test func `the request of a handle's owner waits for WELCOME, and is not sent to a node without handles`() throws {
        let owner = try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: 5, count: 32)))
        let handle = try #require(Handle([UInt8](repeating: 6, count: 32)))
        for features in [Welcome.Features.handles, []] {
            var sender = Sender()
            let request = HandleRequest(.forget(handle), sequence: 1, at: .none, by: owner)
            let number = sender.session.add(PendingSubmission(.handle(request), workLimit: .seconds(60)))
            #expect(try sender.connect().isEmpty)
            var actions: [SenderSession.Action] = []
            try sender.session.received(welcomeFrame(features).span.bytes, &actions)
            actions = sender.session.flush(now: MonotonicTime(nanoseconds: 0))
            var expected: [UInt8] = []
            var sent = request
            sent.request = number
            expected.append(sent)
            let refusal = SubmissionResult(
                request: number, outcome: .rejected(.unsupportedField, text: "this node keeps no handles"))
            #expect(actions == (features == .handles ? [.send(expected)] : [.result(refusal)]))
            // RESULT is not the answer to it, and a handle comes with REGISTERED only.
            guard features == .handles else { continue }
            var answer: [UInt8] = []
            answer.append(HandleResult(request: number, outcome: .delivered(), handle: handle))
            actions = []
            try sender.session.received(answer.span.bytes, &actions)
            #expect(actions == [.result(SubmissionResult(request: number, outcome: .delivered()))])
            #expect(sender.session.takeHandle(number) == handle && sender.session.takeHandle(number) == nil)
        }
    }

    @Test func `a resend keeps accept_queued and the signature`() throws {
        let key = try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: 5, count: 32)))
        let envelope = try makeEnvelope(1)
        var sender = Sender()
        let request = sender.session.add(
            PendingSubmission(
                Submission(
                    request: 0, envelope: envelope, acceptQueued: true,
                    signature: SenderSignature(of: envelope.digest, by: key)), workLimit: .seconds(60)))
        try sender.connect()
        let before = sender.output
        try sender.connect()
        #expect(before == sender.output)
        var expected: [UInt8] = []
        expected.append(Hello())
        expected.append(
            Submission(
                request: request, envelope: envelope, acceptQueued: true,
                signature: SenderSignature(of: envelope.digest, by: key)))
        #expect(before == expected)
    }

    @Test func `only submissions without a final result are resent`() throws {
        var sender = Sender()
        try sender.add(4)
        try sender.connect()
        try sender.receive(welcomeFrame() + resultFrame(2, .delivered()) + resultFrame(4, .rejected(.payloadRefused)))
        let requests = try sender.connect()
        #expect(requests == [1, 3])
    }

    @Test func `unsent submissions go out after a reconnect`() throws {
        var sender = Sender()
        try sender.add(20)
        #expect(try sender.connectWelcomed() == numbers(1...16))
        for request in UInt32(1)...10 { try sender.receive(resultFrame(request, .delivered())) }
        #expect(try sender.connectWelcomed() == numbers(11...20))
    }

    @Test func `a partial frame of the lost connection is discarded`() throws {
        var sender = Sender()
        try sender.connect()
        try sender.receive(Array(welcomeFrame().prefix(20)))
        try sender.connect()
        try sender.receive(welcomeFrame())
        sender.expectActions(.welcomed(makeWelcome()))
    }

    // MARK: In-flight limit

    @Test func `16 submissions go out before WELCOME, then as many as it allows`() throws {
        var sender = Sender()
        try sender.add(40)
        #expect(try sender.connect() == numbers(1...16))
        #expect(try sender.flush().isEmpty)
        try sender.receive(welcomeFrame(inFlight: 20))
        #expect(try sender.flush() == [17, 18, 19, 20])
        #expect(try sender.flush().isEmpty)
        try sender.receive(resultFrame(7, .delivered()) + resultFrame(3, .gone(since: nil)))
        #expect(try sender.flush() == [21, 22])
        #expect(try sender.flush().isEmpty)
    }

    @Test func `all submissions go out if WELCOME allows them`() throws {
        var sender = Sender()
        try sender.add(40)
        try sender.connect()
        try sender.receive(welcomeFrame(inFlight: 64))
        #expect(try sender.flush() == numbers(17...40))
    }

    @Test func `a WELCOME limit below the number already sent holds the rest back`() throws {
        var sender = Sender()
        try sender.add(20)
        try sender.connect()
        try sender.receive(welcomeFrame(inFlight: 4))
        for request in UInt32(1)...12 {
            #expect(try sender.flush().isEmpty)
            try sender.receive(resultFrame(request, .delivered()))
        }
        #expect(try sender.flush().isEmpty)
        try sender.receive(resultFrame(13, .delivered()))
        #expect(try sender.flush() == [17])
    }

    @Test func `a new connection starts with 16 submissions again`() throws {
        var sender = Sender()
        try sender.add(40)
        try sender.connect()
        try sender.receive(welcomeFrame(inFlight: 64))
        try sender.flush()
        #expect(sender.session.welcome != nil)
        #expect(try sender.connect() == numbers(1...16))
        #expect(sender.session.welcome == nil)
    }

    @Test func `a submission refused as too many in flight waits and is resent`() throws {
        var sender = Sender()
        try sender.add(3)
        try sender.connect()
        try sender.receive(welcomeFrame(inFlight: 2))
        sender.actions = []
        try sender.receive(resultFrame(3, .retry(.tooManyInFlight, after: 1000)))
        #expect(sender.actions.isEmpty)
        #expect(sender.session.requests.count == 3)
        #expect(try sender.flush().isEmpty)
        try sender.receive(resultFrame(1, .delivered()))
        #expect(try sender.flush() == [3])
    }

    @Test func `a connection filled by removed QUEUED submissions is detected`() throws {
        var sender = Sender()
        try sender.add(3)
        try sender.connect()
        try sender.receive(welcomeFrame(inFlight: 2) + resultFrame(3, .retry(.tooManyInFlight, after: 1)))
        try sender.receive(resultFrame(1, Outcome(.queued)) + resultFrame(2, Outcome(.queued)))
        #expect(!sender.session.isBlockedByAbandoned)
        sender.session.remove(1)
        #expect(!sender.session.isBlockedByAbandoned)
        sender.session.remove(2)
        #expect(sender.session.isBlockedByAbandoned)
        try sender.receive(resultFrame(1, .delivered()))
        #expect(!sender.session.isBlockedByAbandoned)
    }

    @Test func `QUEUED with the reason tooManyInFlight leaves the session consistent`() throws {
        var sender = Sender()
        try sender.add(1)
        try sender.connect()
        try sender.receive(welcomeFrame(inFlight: 1))
        for _ in 0..<3 { try sender.receive(resultFrame(1, Outcome(.queued, reason: .tooManyInFlight))) }
        try sender.receive(resultFrame(1, .delivered()))
        #expect(sender.session.requests.count == 0)
        #expect(try sender.flush().isEmpty)
        try sender.add(1)
        #expect(try sender.flush() == [2])
    }

    @Test func `submissions refused as too many in flight are resent oldest first`() throws {
        var sender = Sender()
        try sender.add(5)
        try sender.connect()
        try sender.receive(welcomeFrame(inFlight: 2))
        for request in UInt32(3)...5 { try sender.receive(resultFrame(request, .retry(.tooManyInFlight, after: 1000))) }
        try sender.receive(resultFrame(1, .delivered()) + resultFrame(2, .delivered()))
        #expect(try sender.flush() == [3, 4])
        try sender.receive(resultFrame(3, .delivered()))
        #expect(try sender.flush() == [5])
    }

    // MARK: Results

    @Test func `a final result ends its submission`() throws {
        let outcomes: [Outcome] = [
            .delivered(id: "x"), .rejected(.badDeviceToken, text: "no"), .retry(.providerThrottles, after: 2500),
            .gone(since: 1_700_000_000_000),
        ]
        var sender = Sender()
        try sender.add(4)
        try sender.connectWelcomed()
        for (index, outcome) in outcomes.enumerated() {
            try sender.receive(resultFrame(UInt32(index + 1), outcome))
            #expect(sender.session.requests.count == 3 - index)
        }
        let expected: [SenderSession.Action] = outcomes.enumerated().map { index, outcome in
            SenderSession.Action.result(SubmissionResult(request: UInt32(index + 1), outcome: outcome))
        }
        #expect(sender.actions == expected)
        #expect(try sender.connectWelcomed().isEmpty)
    }

    @Test func `results are accepted in any order and in pieces of any size`() throws {
        for size in [Int.max, 1, 3, 7] {
            var sender = Sender()
            try sender.add(3)
            try sender.connect()
            let bytes = welcomeFrame() + resultFrame(3, .delivered()) + resultFrame(1, .delivered())
            try sender.receive(bytes, every: size)
            let expected: [SenderSession.Action] = [
                .welcomed(makeWelcome()),
                .result(SubmissionResult(request: 3, outcome: .delivered())),
                .result(SubmissionResult(request: 1, outcome: .delivered())),
            ]
            #expect(sender.actions == expected)
            #expect(try sender.connect() == [2])
        }
    }

    @Test func `a result for an unknown request is ignored`() throws {
        var sender = Sender()
        try sender.add(1)
        try sender.connectWelcomed()
        for outcome in [Outcome.delivered(), Outcome(.queued), .retry(.tooManyInFlight, after: 1)] {
            try sender.receive(resultFrame(99, outcome))
        }
        #expect(sender.actions.isEmpty)
        #expect(sender.session.requests.count == 1)
        #expect(try sender.flush().isEmpty)
    }

    @Test func `a second final result is ignored`() throws {
        var sender = Sender()
        try sender.add(2)
        try sender.connectWelcomed()
        try sender.receive(resultFrame(1, .delivered()) + resultFrame(1, .gone(since: nil)))
        sender.expectActions(.result(SubmissionResult(request: 1, outcome: .delivered())))
        #expect(sender.session.requests.count == 1)
    }

    @Test func `QUEUED is reported and keeps the submission pending`() throws {
        var sender = Sender()
        try sender.add(1)
        try sender.connectWelcomed()
        try sender.receive(resultFrame(1, Outcome(.queued)))
        sender.expectActions(.result(SubmissionResult(request: 1, outcome: Outcome(.queued))))
        #expect(sender.session.requests.count == 1)
        #expect(try sender.connectWelcomed() == [1])
        try sender.receive(resultFrame(1, .delivered()))
        #expect(sender.actions.count == 2)
        #expect(sender.session.requests.count == 0)
    }

    @Test func `a QUEUED submission still counts as in flight`() throws {
        var sender = Sender()
        try sender.connect()
        try sender.receive(welcomeFrame(inFlight: 1))
        try sender.add(2)
        #expect(try sender.flush() == [1])
        try sender.receive(resultFrame(1, Outcome(.queued)))
        #expect(try sender.flush().isEmpty)
        try sender.receive(resultFrame(1, .delivered()))
        #expect(try sender.flush() == [2])
    }

    @Test func `a submission removed before it is sent never goes out`() throws {
        var sender = Sender()
        try sender.add(18)
        try sender.connect()
        sender.session.remove(17)
        #expect(sender.session.requests.count == 17)
        try sender.receive(welcomeFrame(inFlight: 64))
        #expect(try sender.flush() == [18])
    }

    @Test func `a removed submission counts as in flight until the node answers`() throws {
        var sender = Sender()
        try sender.connect()
        try sender.receive(welcomeFrame(inFlight: 1))
        sender.actions = []
        try sender.add(2)
        #expect(try sender.flush() == [1])
        sender.session.remove(1)
        #expect(try sender.flush().isEmpty)
        try sender.receive(resultFrame(1, .delivered()))
        #expect(sender.actions.isEmpty)
        #expect(try sender.flush() == [2])
    }

    @Test func `a removed submission is not resent`() throws {
        var sender = Sender()
        try sender.add(3)
        try sender.connect()
        sender.session.remove(2)
        #expect(try sender.connect() == [1, 3])
    }

    // MARK: Misbehaving nodes

    @Test func `a result for an unsent submission does no harm`() throws {
        var sender = Sender()
        try sender.add(18)
        try sender.connectWelcomed()
        try sender.receive(resultFrame(17, .delivered()) + resultFrame(18, .retry(.tooManyInFlight, after: 1)))
        try sender.receive(welcomeFrame(inFlight: 64))
        let requests = try sender.flush()
        let isRight = requests == [17, 18] || requests == [18]
        #expect(isRight, "\(requests)")
        #expect(try sender.flush().isEmpty)
    }

    @Test func `tooManyInFlight reported twice resends the submission once`() throws {
        var sender = Sender()
        try sender.add(2)
        try sender.connect()
        try sender.receive(welcomeFrame(inFlight: 1))
        let tooMany = resultFrame(2, .retry(.tooManyInFlight, after: 1))
        try sender.receive(tooMany + tooMany + resultFrame(1, .delivered()))
        #expect(try sender.flush() == [2])
        try sender.receive(resultFrame(2, .delivered()))
        #expect(try sender.flush().isEmpty)
    }

    @Test func `a final result after tooManyInFlight does no harm`() throws {
        var sender = Sender()
        try sender.add(1)
        try sender.connectWelcomed()
        try sender.receive(resultFrame(1, .retry(.tooManyInFlight, after: 1)) + resultFrame(1, .delivered()))
        let requests = try sender.flush()
        let isRight = requests == [1] || requests.isEmpty
        #expect(isRight, "\(requests)")
        #expect(try sender.flush().isEmpty)
    }

    // MARK: Other frames

    @Test func `WELCOME is reported and stored`() throws {
        var sender = Sender()
        try sender.connect()
        try sender.receive(welcomeFrame(inFlight: 3))
        sender.expectActions(.welcomed(makeWelcome(inFlight: 3)))
        #expect(sender.session.welcome == makeWelcome(inFlight: 3))
    }

    @Test func `a WELCOME with 255 routes of maximum length is accepted`() throws {
        var welcome = makeWelcome()
        welcome.maximumFrame = 70_000
        welcome.routes = (0..<255).map { number in
            let route = "\(number)/"
            return route + String(repeating: "a", count: 255 - route.count)
        }
        var bytes: [UInt8] = []
        bytes.append(welcome)
        #expect(bytes.count > 65_000)
        var sender = Sender()
        try sender.connect()
        try sender.receive(bytes, every: 4096)
        sender.expectActions(.welcomed(welcome))
    }

    @Test(arguments: [UInt8(0), 2, 255])
    func `a WELCOME with a version not offered is a protocol error`(_ version: UInt8) throws {
        var bytes = welcomeFrame()
        bytes[5] = version
        var sender = Sender()
        try sender.connect()
        #expect(throws: ProtocolError.self) { try sender.receive(bytes) }
        #expect(sender.session.welcome == nil)
    }

    @Test func `PING is answered with the same eight bytes`() throws {
        var ping: [UInt8] = []
        ping.append(ping: [1, 2, 3, 4, 5, 6, 7, 0xFF])
        var pong: [UInt8] = []
        pong.append(pong: [1, 2, 3, 4, 5, 6, 7, 0xFF])
        var sender = Sender()
        try sender.connect()
        try sender.receive(ping)
        sender.expectActions(.pong(pong))
    }

    @Test func `PONG, PUZZLE and unknown types from 0x80 cause no immediate action`() throws {
        var bytes: [UInt8] = []
        bytes.append(pong: [1, 2, 3, 4, 5, 6, 7, 8])
        bytes.append(Puzzle(seed: [UInt8](repeating: 1, count: 16), effort: 5, lifetime: 60))
        bytes += [0, 0, 0, 2, 0x80, 1]
        bytes += [0, 0, 0, 1, 0xFF]
        var sender = Sender()
        try sender.connectWelcomed()
        try sender.receive(bytes)
        #expect(try sender.flush().isEmpty)
        #expect(sender.actions.isEmpty)
    }

    @Test func `each GOAWAY code is fatal or not`() throws {
        let codes: [(code: GoAway.Code, isFatal: Bool)] = [
            (code: .shuttingDown, isFatal: false), (code: .protocolError, isFatal: true),
            (code: .version, isFatal: true), (code: .frameTooLarge, isFatal: true), (code: .idle, isFatal: false),
            (code: .busy, isFatal: false), (code: .abuse, isFatal: true), (code: .handshakeTimeout, isFatal: false),
        ]
        for (code, isFatal) in codes {
            let goAway = GoAway(code: code, retryAfter: 1234, text: "why")
            var bytes: [UInt8] = []
            bytes.append(goAway)
            var sender = Sender()
            try sender.add(1)
            try sender.connect()
            try sender.receive(bytes)
            sender.expectActions(.goAway(goAway, isFatal: isFatal))
            #expect(sender.session.requests.count == 1)
        }
    }

    @Test func `results after GOAWAY are still accepted`() throws {
        var goAway: [UInt8] = []
        goAway.append(GoAway(code: .shuttingDown, retryAfter: 5000))
        var sender = Sender()
        try sender.add(2)
        try sender.connectWelcomed()
        try sender.receive(goAway + resultFrame(2, .delivered()) + resultFrame(1, .retry(.shuttingDown, after: 1000)))
        #expect(sender.actions.count == 3)
        #expect(sender.session.requests.count == 0)
    }

    // MARK: Protocol errors

    @Test(arguments: Vectors.refused(by: "sender").indices)
    func `every refusal vector for senders gives a protocol error with its GOAWAY code`(_ index: Int) throws {
        let vector = Vectors.refused(by: "sender")[index]
        let bytes = try #require(Hex.decode(vector.bytes))
        for size in [Int.max, 1] {
            var sender = Sender()
            try sender.connect()
            if vector.identified { try sender.receive(welcomeFrame()) }
            sender.actions = []
            let error = #expect(throws: ProtocolError.self, "\(vector.name)") { try sender.receive(bytes, every: size) }
            #expect(error?.code.rawValue == vector.goaway, "\(vector.name)")
            #expect(error?.text.isEmpty == false, "\(vector.name)")
            #expect(sender.actions.isEmpty, "\(vector.name)")
        }
    }

    @Test func `the vectors contain refusals for senders`() {
        #expect(!Vectors.refused(by: "sender").isEmpty)
    }

    @Test func `results before a protocol error are still reported`() throws {
        var sender = Sender()
        try sender.add(1)
        try sender.connect()
        let bytes = welcomeFrame() + resultFrame(1, .delivered()) + [0, 0, 0, 0]
        #expect(throws: ProtocolError.self) { try sender.receive(bytes) }
        let expected: [SenderSession.Action] = [
            .welcomed(makeWelcome()), .result(SubmissionResult(request: 1, outcome: .delivered())),
        ]
        #expect(sender.actions == expected)
        #expect(try sender.connect().isEmpty)
    }

    @Test func `an oversized frame is rejected as soon as its length arrives`() throws {
        var sender = Sender()
        try sender.connect()
        let error = #expect(throws: ProtocolError.self) { try sender.receive([0xFF, 0xFF, 0xFF, 0xFF]) }
        #expect(error?.code == .frameTooLarge)
    }
}

// MARK: - Sites

extension SenderSessionTests {
    private func key() throws -> Ed25519.PrivateKey {
        try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: 5, count: 32)))
    }

    private func authenticatedFrame(_ result: SiteAuthenticationResult) -> [UInt8] {
        var output: [UInt8] = []
        output.append(result)
        return output
    }

    @Test func `a site authenticates after WELCOME, and then submits without a proof`() throws {
        let address = try #require(OnionAddress(publicKey: [UInt8](repeating: 5, count: 32)))
        let label = address.label
        let onion = try #require(SignedOnion(publicKey: address.publicKey))
        for (node, expected) in [
            (Endpoint.tcp(host: "\(label).onion", port: 7077), onion),
            (.tcp(host: "www.\(label.uppercased()).Onion", port: 7077), onion),
            (.tcp(host: "127.0.0.1", port: 7077), SignedOnion.none),
        ] {
            var sender = Sender(site: SiteIdentity(try key(), at: node))
            try sender.add(20)
            #expect(try sender.connect().isEmpty)
            try sender.receive(welcomeFrame(.siteKeys, puzzle: makePuzzle(16)))
            let sent = sender.actions.compactMap { if case .send(let bytes) = $0 { bytes } else { nil } }
            var decoder = FrameDecoder(maximumLength: 8192)
            decoder.append(sent.flatMap(\.self))
            guard case .authentication(let authentication) = try Message(try #require(try decoder.next())) else {
                Issue.record("no AUTH")
                return
            }
            #expect(authentication.key.elementsEqual(try key().publicKey))
            #expect(authentication.isValid(seed: makePuzzle(16).seed, onion: expected))
            #expect(try sender.flush().isEmpty)
            // Nothing is in flight, but a node that stays silent now has to be noticed.
            #expect(!sender.session.isInFlight && sender.session.isOwedAnswer)
            try sender.receive(authenticatedFrame(.accepted("desk")))
            #expect(!sender.session.isOwedAnswer)
            #expect(try sender.flush() == numbers(1...20))
            #expect(sender.searches.isEmpty)
        }
    }

    @Test func `a node that refuses a site's key gets no submission`() throws {
        var sender = Sender(site: SiteIdentity(try key(), at: .tcp(host: "127.0.0.1", port: 7077)))
        try sender.add(1)
        try sender.connect()
        try sender.receive(welcomeFrame(.siteKeys) + authenticatedFrame(.rejected))
        #expect(sender.actions.last == .siteRefused)
        #expect(try sender.flush().isEmpty)
    }

    @Test func `a node without site keys serves a site like any sender`() throws {
        var sender = Sender(site: SiteIdentity(try key(), at: .tcp(host: "127.0.0.1", port: 7077)))
        try sender.add(2)
        try sender.connect()
        try sender.receive(welcomeFrame())
        #expect(try sender.flush() == [1, 2])
        // AUTHED without AUTH changes nothing.
        try sender.receive(authenticatedFrame(.rejected))
        try sender.add(1)
        #expect(try sender.flush() == [3])
    }
}

// MARK: - Proof of work

extension SenderSessionTests {
    @Test func `early submissions carry no proof and stay in flight if WELCOME requires one`() throws {
        var sender = Sender()
        try sender.add(2)
        #expect(try sender.connect() == [1, 2])
        try sender.receive(welcomeFrame(puzzle: makePuzzle(16)))
        #expect(try sender.flush().isEmpty)
        #expect(sender.proofs.isEmpty)
        sender.expectActions(.welcomed(makeWelcome(puzzle: makePuzzle(16))))
        try sender.receive(resultFrame(1, .delivered()))
        #expect(sender.session.requests.count == 1)
    }

    @Test func `a submission waits for its proof while proof of work is required`() throws {
        var sender = try Sender(puzzle: makePuzzle(16))
        try sender.add(1)
        #expect(try sender.flush().isEmpty)
        let digest = try makeEnvelope(0).digest
        sender.expectActions(
            .solve(request: 1, digest: digest, puzzle: makePuzzle(16), until: sender.now + .seconds(60)))
        #expect(try sender.flush().isEmpty)
        #expect(try sender.solve(1) == [1])
        #expect(makePuzzle(16).isValid(try #require(sender.proofs[1]), for: digest))
        #expect(sender.actions.count == 1)
        try sender.receive(resultFrame(1, .delivered()))
        #expect(sender.actions.last == .result(SubmissionResult(request: 1, outcome: .delivered())))
        #expect(sender.session.requests.count == 0)
    }

    @Test(arguments: [Reason.proofRequired, .proofWrong])
    func `a submission refused for its proof is solved and resent with the same digest`(_ reason: Reason) throws {
        var sender = Sender()
        try sender.add(1)
        try sender.connect()
        let puzzle = makePuzzle(32)
        try sender.receive(
            welcomeFrame(puzzle: makePuzzle(16)) + puzzleFrame(puzzle) + resultFrame(1, .retry(reason, after: 500)))
        sender.actions = []
        #expect(try sender.flush().isEmpty)
        let digest = try makeEnvelope(0).digest
        sender.expectActions(.solve(request: 1, digest: digest, puzzle: puzzle, until: sender.now + .seconds(60)))
        #expect(try sender.solve(1) == [1])
        #expect(puzzle.isValid(try #require(sender.proofs[1]), for: digest))
        try sender.receive(resultFrame(1, .delivered()))
        #expect(sender.actions.last == .result(SubmissionResult(request: 1, outcome: .delivered())))
    }

    @Test func `only RETRY with a reason about the proof starts a search`() throws {
        var sender = Sender()
        try sender.add(2)
        try sender.connect()
        try sender.receive(welcomeFrame(puzzle: makePuzzle(16)))
        sender.actions = []
        let rejected = Outcome.rejected(.proofRequired)
        let busy = Outcome.retry(.nodeBusy, after: 100)
        try sender.receive(resultFrame(1, rejected) + resultFrame(2, busy))
        sender.expectActions(
            .result(SubmissionResult(request: 1, outcome: rejected)),
            .result(SubmissionResult(request: 2, outcome: busy)))
    }

    @Test func `a changed effort restarts the search within the same work limit`() throws {
        for effort: UInt32 in [64, 8] {
            var sender = try Sender(puzzle: makePuzzle(16))
            try sender.add(1)
            try sender.flush()
            sender.actions = []
            sender.now = sender.now + .seconds(20)
            try sender.receive(puzzleFrame(makePuzzle(effort)))
            #expect(try sender.flush().isEmpty)
            let digest = try makeEnvelope(0).digest
            let until = sender.now + .seconds(40)
            sender.expectActions(
                .stopSolving(1), .solve(request: 1, digest: digest, puzzle: makePuzzle(effort), until: until))
            #expect(try sender.solve(1) == [1])
            #expect(sender.proofs[1]?.effort == effort)
        }
    }

    @Test func `a repeated puzzle changes nothing`() throws {
        var sender = try Sender(puzzle: makePuzzle(16))
        try sender.add(1)
        try sender.flush()
        sender.actions = []
        var later = makePuzzle(16)
        later.lifetime = 5
        try sender.receive(puzzleFrame(later))
        try sender.flush()
        #expect(sender.actions.isEmpty)
    }

    @Test func `a search continues under the previous seed, and its proof is sent`() throws {
        var sender = try Sender(puzzle: makePuzzle(16))
        try sender.add(1)
        try sender.flush()
        sender.actions = []
        try sender.receive(puzzleFrame(makePuzzle(16, seed: 8)))
        #expect(try sender.flush().isEmpty)
        #expect(sender.actions.isEmpty)
        #expect(try sender.solve(1) == [1])
        #expect(sender.proofs[1]?.seedPrefix == [7, 7, 7, 7])
    }

    @Test func `a search for an expired seed restarts`() throws {
        var sender = try Sender(puzzle: makePuzzle(16))
        try sender.add(1)
        try sender.flush()
        sender.actions = []
        try sender.receive(puzzleFrame(makePuzzle(16, seed: 8)) + puzzleFrame(makePuzzle(16, seed: 9)))
        #expect(try sender.flush().isEmpty)
        #expect(sender.actions.first == .stopSolving(1))
        #expect(sender.searches[1]?.puzzle == makePuzzle(16, seed: 9))
    }

    @Test func `a proof for an expired seed or for too little effort is not sent`() throws {
        let forgotten = puzzleFrame(makePuzzle(16, seed: 8)) + puzzleFrame(makePuzzle(16, seed: 9))
        for change in [forgotten, puzzleFrame(makePuzzle(17))] {
            var sender = try Sender(puzzle: makePuzzle(16))
            try sender.add(1)
            try sender.flush()
            let proof = try sender.find(1)
            try sender.receive(change)
            #expect(try sender.flush().isEmpty)
            #expect(sender.searches[1] != nil)
            #expect(try sender.solve(1) == [1])
            #expect(sender.proofs[1] != proof)
        }
    }

    @Test func `once proof of work is no longer required, the submission goes out without a proof`() throws {
        var sender = try Sender(puzzle: makePuzzle(16))
        try sender.add(1)
        try sender.flush()
        sender.actions = []
        try sender.receive(puzzleFrame(makePuzzle(0)))
        #expect(try sender.flush() == [1])
        sender.expectActions(.stopSolving(1))
        #expect(sender.proofs[1] == nil)
    }

    @Test func `a proof for an expired seed is dropped if no work is required`() throws {
        var sender = try Sender(puzzle: makePuzzle(16))
        try sender.add(1)
        try sender.flush()
        try sender.solve(1)
        try sender.connect()
        try sender.receive(welcomeFrame(puzzle: makePuzzle(0, seed: 8)))
        #expect(try sender.flush() == [1])
        #expect(sender.proofs[1] == nil)
    }

    @Test func `at most two searches run at a time, oldest submissions first`() throws {
        var sender = try Sender(puzzle: makePuzzle(16))
        try sender.add(4)
        #expect(try sender.flush().isEmpty)
        #expect(Set(sender.searches.keys) == [1, 2])
        #expect(try sender.solve(2) == [2])
        #expect(Set(sender.searches.keys) == [1, 3])
        #expect(try sender.solve(3) == [3])
        #expect(try sender.solve(1) == [1])
        #expect(try sender.solve(4) == [4])
        #expect(sender.searches.isEmpty)
    }

    @Test func `no search runs for a submission beyond the in-flight limit`() throws {
        var sender = try Sender(puzzle: makePuzzle(16), inFlight: 1)
        try sender.add(2)
        try sender.flush()
        #expect(Set(sender.searches.keys) == [1])
        try sender.solve(1)
        #expect(sender.searches.isEmpty)
        try sender.receive(resultFrame(1, .delivered()))
        try sender.flush()
        #expect(Set(sender.searches.keys) == [2])
    }

    // MARK: Limits

    @Test func `a work limit of zero sends without a proof and explains the node's refusal`() throws {
        var sender = try Sender(puzzle: makePuzzle(16), workLimit: .zero)
        try sender.add(1)
        #expect(try sender.flush() == [1])
        #expect(sender.proofs.isEmpty)
        try sender.receive(resultFrame(1, .retry(.proofRequired, after: 700)))
        #expect(try sender.flush().isEmpty)
        sender.expectRetry(1, .proofRequired, after: 700, effort: 16)
    }

    @Test func `a search that times out ends with the node's refusal`() throws {
        var sender = Sender()
        try sender.add(1)
        try sender.connect()
        try sender.receive(welcomeFrame(puzzle: makePuzzle(16)) + resultFrame(1, .retry(.proofWrong, after: 700)))
        try sender.flush()
        sender.actions = []
        try sender.timeOut(1)
        sender.expectRetry(1, .proofWrong, after: 700, effort: 16)
        #expect(try sender.connect().isEmpty)
    }

    @Test func `a search that times out before the first send ends with RETRY 203`() throws {
        var sender = try Sender(puzzle: makePuzzle(16))
        try sender.add(3)
        try sender.flush()
        sender.actions = []
        try sender.timeOut(1)
        #expect(Set(sender.searches.keys) == [2, 3])
        sender.actions.removeAll { if case .solve = $0 { true } else { false } }
        sender.expectRetry(1, .proofRequired, after: 0, effort: 16, pending: 2)
    }

    @Test func `a sender does not begin work above its largest effort`() throws {
        for (effort, isRefused) in [(100, false), (101, true)] as [(UInt32, Bool)] {
            var session = SenderSession(doesWork: true, maximumEffort: 100)
            _ = session.connected(agent: "")
            var actions: [SenderSession.Action] = []
            try session.received(welcomeFrame(puzzle: makePuzzle(effort)).span.bytes, &actions)
            _ = session.add(
                PendingSubmission(Submission(request: 0, envelope: try makeEnvelope(1)), workLimit: .seconds(60)))
            let kinds = session.flush(now: MonotonicTime(nanoseconds: 0)).map { action -> String in
                switch action {
                case .solve: "solve"
                case .result(let result): "\(result.outcome.reason.rawValue)"
                default: "other"
                }
            }
            #expect(kinds == [isRefused ? "203" : "solve"])
        }
    }

    @Test func `the work limit covers all searches of a submission`() throws {
        var sender = try Sender(puzzle: makePuzzle(16))
        try sender.add(2)
        try sender.flush()
        sender.now = sender.now + .seconds(59)
        try sender.solve(1)
        // Waiting for the node does not count as work.
        sender.now = sender.now + .seconds(100)
        try sender.receive(resultFrame(1, .retry(.proofWrong, after: 1)))
        try sender.flush()
        #expect(sender.searches[1]?.until == sender.now + .seconds(1))
        sender.now = sender.now + .seconds(1)
        #expect(try sender.solve(1) == [1])
        sender.actions = []
        try sender.receive(resultFrame(1, .retry(.proofWrong, after: 700)))
        sender.expectRetry(1, .proofWrong, after: 700, effort: 16, pending: 1)
    }

    @Test func `a node that keeps changing the puzzle cannot exceed the work limit`() throws {
        var sender = try Sender(puzzle: makePuzzle(16))
        try sender.add(1)
        try sender.flush()
        var changes = 0
        while sender.session.requests.count > 0, changes < 1000 {
            changes += 1
            sender.now = sender.now + .seconds(1)
            try sender.receive(puzzleFrame(makePuzzle(16 + UInt32(changes))))
            try sender.flush()
        }
        #expect(changes == 60)
        #expect(sender.searches.isEmpty)
        sender.actions.removeAll { if case .result = $0 { false } else { true } }
        sender.expectRetry(1, .proofRequired, after: 0, effort: 76)
    }

    @Test func `a proof refusal without a required effort is final`() throws {
        for reason in [Reason.proofRequired, .proofWrong] {
            var sender = Sender()
            try sender.add(2)
            try sender.connectWelcomed()
            let outcome = Outcome.retry(reason, after: 700, text: "why")
            // Before WELCOME the node has not required a proof, either.
            try sender.receive(resultFrame(1, outcome) + welcomeFrame() + resultFrame(2, outcome))
            #expect(try sender.flush().isEmpty)
            sender.expectActions(
                .result(SubmissionResult(request: 1, outcome: outcome)), .welcomed(makeWelcome()),
                .result(SubmissionResult(request: 2, outcome: outcome)))
            #expect(sender.session.requests.count == 0)
        }
    }

    @Test func `a submission is resent for its proof at most eight times`() throws {
        var sender = Sender()
        try sender.add(1)
        try sender.connect()
        try sender.receive(welcomeFrame(puzzle: makePuzzle(4)))
        sender.actions = []
        let refusal = Outcome.retry(.proofWrong, after: 700, text: "why")
        for _ in 1...8 {
            try sender.receive(resultFrame(1, refusal))
            #expect(try sender.flush().isEmpty)
            #expect(try sender.solve(1) == [1])
        }
        sender.actions.removeAll { if case .solve = $0 { true } else { false } }
        #expect(sender.actions.isEmpty)
        try sender.receive(resultFrame(1, refusal))
        #expect(try sender.flush().isEmpty)
        sender.expectActions(.result(SubmissionResult(request: 1, outcome: refusal)))
        #expect(sender.session.requests.count == 0)
    }

    @Test func `a search that waits for others uses up no work`() throws {
        var session = SenderSession(doesWork: true)
        _ = session.connected(agent: "")
        var actions: [SenderSession.Action] = []
        func puzzle(_ effort: UInt32, at seconds: Int64, begins: Bool) throws -> Duration? {
            let now = MonotonicTime(nanoseconds: 0) + .seconds(seconds)
            try session.received(puzzleFrame(makePuzzle(effort)).span.bytes, &actions)
            for case .solve(let request, _, _, let until) in session.flush(now: now) {
                if begins { session.searchBegan(request, now: now) }
                return until - now
            }
            return nil
        }
        try session.received(welcomeFrame().span.bytes, &actions)
        _ = session.add(
            PendingSubmission(Submission(request: 0, envelope: try makeEnvelope(1)), workLimit: .seconds(60)))
        #expect(try puzzle(16, at: 0, begins: false) == .seconds(60))
        // Fifty seconds in the queue do not count, ten of search do.
        #expect(try puzzle(17, at: 50, begins: true) == .seconds(60))
        #expect(try puzzle(18, at: 60, begins: true) == .seconds(50))
    }

    @Test func `removing a submission stops its search and starts the next`() throws {
        var sender = try Sender(puzzle: makePuzzle(16))
        try sender.add(3)
        try sender.flush()
        sender.actions = []
        sender.session.remove(1)
        #expect(try sender.flush().isEmpty)
        #expect(sender.actions.first == .stopSolving(1))
        #expect(Set(sender.searches.keys) == [2, 3])
        // A proof that comes too late belongs to no submission.
        sender.session.solved(1, Proof(seedPrefix: [7, 7, 7, 7], effort: 16, nonce: 1), now: sender.now)
        #expect(sender.session.searchEnded(1).isEmpty)
        #expect(try sender.flush().isEmpty)
        #expect(sender.session.requests.count == 2)
    }

    @Test func `a submission lacks its proof from the refusal until it goes out`() throws {
        var sender = Sender()
        try sender.add(1)
        #expect(!sender.session.lacksProof(1))
        try sender.connect()
        try sender.receive(welcomeFrame(puzzle: makePuzzle(16)))
        #expect(!sender.session.lacksProof(1))
        try sender.receive(resultFrame(1, .retry(.proofRequired, after: 1)))
        #expect(sender.session.lacksProof(1))
        try sender.flush()
        #expect(sender.session.lacksProof(1))
        try sender.solve(1)
        #expect(!sender.session.lacksProof(1))
        try sender.receive(resultFrame(1, .retry(.proofRequired, after: 1)))
        sender.session.disconnected()
        #expect(!sender.session.lacksProof(1))
    }

    // MARK: Reconnecting

    @Test func `a valid proof is reused on the next connection after WELCOME`() throws {
        for puzzle in [makePuzzle(16), makePuzzle(9)] {
            var sender = try Sender(puzzle: makePuzzle(16))
            try sender.add(1)
            try sender.flush()
            try sender.solve(1)
            let proof = try #require(sender.proofs[1])
            sender.session.disconnected()
            sender.actions = []
            #expect(try sender.connect().isEmpty)
            try sender.receive(welcomeFrame(puzzle: puzzle))
            #expect(try sender.flush() == [1])
            #expect(sender.proofs[1] == proof)
            sender.expectActions(.welcomed(makeWelcome(puzzle: puzzle)))
        }
    }

    @Test func `a proof that is invalid on the next connection is recomputed`() throws {
        for puzzle in [makePuzzle(16, seed: 8), makePuzzle(17)] {
            var sender = try Sender(puzzle: makePuzzle(16))
            try sender.add(1)
            try sender.flush()
            try sender.solve(1)
            #expect(try sender.connect().isEmpty)
            try sender.receive(welcomeFrame(puzzle: puzzle))
            #expect(try sender.flush().isEmpty)
            #expect(sender.searches[1]?.puzzle == puzzle)
            #expect(try sender.solve(1) == [1])
            #expect(puzzle.isValid(try #require(sender.proofs[1]), for: try makeEnvelope(0).digest))
        }
    }

    @Test func `the previous seed of another connection does not count`() throws {
        var sender = try Sender(puzzle: makePuzzle(16))
        try sender.add(1)
        try sender.flush()
        try sender.solve(1)
        try sender.receive(puzzleFrame(makePuzzle(16, seed: 8)))
        #expect(try sender.connect().isEmpty)
        try sender.receive(welcomeFrame(puzzle: makePuzzle(16, seed: 8)))
        #expect(try sender.flush().isEmpty)
        #expect(sender.searches[1]?.puzzle == makePuzzle(16, seed: 8))
    }

    @Test func `a submission that needs no proof goes out early, ahead of one that needs it`() throws {
        var sender = try Sender(puzzle: makePuzzle(16))
        try sender.add(1)
        try sender.flush()
        try sender.add(1)
        #expect(try sender.connect() == [2])
        #expect(try sender.flush().isEmpty)
    }

    @Test func `a search continues while disconnected, and its proof goes out on the next connection`() throws {
        var sender = try Sender(puzzle: makePuzzle(16))
        try sender.add(1)
        try sender.flush()
        sender.session.disconnected()
        sender.actions = []
        #expect(try sender.flush().isEmpty)
        #expect(try sender.connect().isEmpty)
        #expect(try sender.solve(1).isEmpty)
        #expect(sender.actions.isEmpty)
        try sender.receive(welcomeFrame(puzzle: makePuzzle(16)))
        #expect(try sender.flush() == [1])
        #expect(sender.proofs[1] != nil)
    }

    @Test func `a search that WELCOME invalidates restarts`() throws {
        var sender = try Sender(puzzle: makePuzzle(16))
        try sender.add(1)
        try sender.flush()
        #expect(try sender.connect().isEmpty)
        try sender.receive(welcomeFrame(puzzle: makePuzzle(16, seed: 8)))
        sender.actions = []
        #expect(try sender.flush().isEmpty)
        #expect(sender.actions.first == .stopSolving(1))
        #expect(sender.searches[1]?.puzzle == makePuzzle(16, seed: 8))
    }

    @Test func `nothing goes out after GOAWAY, including proofs`() throws {
        var sender = try Sender(puzzle: makePuzzle(16))
        try sender.add(2)
        try sender.flush()
        var goAway: [UInt8] = []
        goAway.append(GoAway(code: .shuttingDown))
        try sender.receive(goAway)
        #expect(try sender.solve(1).isEmpty)
        #expect(try sender.solve(2).isEmpty)
        #expect(try sender.connect().isEmpty)
        try sender.receive(welcomeFrame(puzzle: makePuzzle(16)))
        #expect(try sender.flush() == [1, 2])
    }

    @Test(arguments: 0..<40 as Range<UInt64>)
    func `under random node behaviour each submission ends once and carries the required proof`(
        _ seed: UInt64
    ) throws {
        var random = SplitMix64(seed: seed)
        var sender = try Sender(puzzle: makePuzzle(4))
        var node = Set<UInt32>()
        var puzzle = makePuzzle(4)
        var seeds = [puzzle.seed]
        var ended: [UInt32: Int] = [:]
        var added = 0

        func checkSent(_ requests: [UInt32]) throws {
            for request in requests {
                #expect(node.insert(request).inserted, "the request is already in flight")
                guard puzzle.effort > 0 else { continue }
                let proof = try #require(sender.proofs[request])
                #expect(proof.effort >= puzzle.effort)
                let isKnown = seeds.suffix(2).contains { $0.starts(with: proof.seedPrefix) }
                #expect(isKnown)
            }
        }
        func tally() {
            for case .result(let result) in sender.actions where result.outcome.isFinal {
                ended[result.request, default: 0] += 1
            }
            sender.actions = []
        }
        for _ in 0..<400 {
            sender.now = sender.now + .milliseconds(Int64(random.below(3000)))
            switch random.below(8) {
            case 0 where added < 30:
                added += 1
                try sender.add(1)
            case 1:
                puzzle = makePuzzle(UInt32(random.below(4)) * 2, seed: UInt8(random.below(4)))
                if puzzle.seed != seeds.last { seeds.append(puzzle.seed) }
                try sender.receive(puzzleFrame(puzzle))
            case 2, 3:
                guard let request = sender.searches.keys.min() else { break }
                try checkSent(try sender.solve(request))
            case 4:
                guard let request = sender.searches.keys.min() else { break }
                sender.now = try #require(sender.searches[request]).until
                try sender.timeOut(request)
            case 5, 6:
                guard let request = node.min() else { break }
                node.remove(request)
                let outcomes: [Outcome] = [
                    .delivered(), .retry(.proofRequired, after: 1), .retry(.proofWrong, after: 1),
                ]
                try sender.receive(resultFrame(request, outcomes[random.below(3)]))
            case 7 where random.below(5) == 0:
                node = []
                seeds = [puzzle.seed]
                sender.session.disconnected()
                node.formUnion(try sender.connect())
                try sender.receive(welcomeFrame(puzzle: puzzle))
            default: break
            }
            try checkSent(try sender.flush())
            tally()
        }
        // Finally the node accepts all submissions.
        while sender.session.requests.count > 0 {
            if let request = sender.searches.keys.min() {
                try checkSent(try sender.solve(request))
            } else {
                let request = try #require(node.min(), "neither in flight nor being solved")
                node.remove(request)
                try sender.receive(resultFrame(request, .delivered()))
                try checkSent(try sender.flush())
            }
            tally()
        }
        #expect(ended.count == added)
        #expect(ended.values.allSatisfy { $0 == 1 })
    }
}

// MARK: - Helpers

private func numbers(_ range: ClosedRange<UInt32>) -> [UInt32] { Array(range) }

/// Drives a session and records what it sends and the actions that it requests.
private struct Sender {
    var session: SenderSession
    /// The actions other than sending.
    var actions: [SenderSession.Action] = []
    var now = MonotonicTime(nanoseconds: 1_000_000_000)
    private(set) var hellos: [Hello] = []
    /// The bytes sent last.
    private(set) var output: [UInt8] = []
    /// The proof sent with each request when it was last sent.
    private(set) var proofs: [UInt32: Proof] = [:]
    /// The running searches.
    private(set) var searches: [UInt32: (digest: Digest256, puzzle: Puzzle, until: MonotonicTime)] = [:]
    private var submissions: [UInt32: [UInt8]] = [:]

    private let workLimit: Duration

    init(workLimit: Duration = .seconds(60), site: SiteIdentity? = nil) {
        self.workLimit = workLimit
        session = SenderSession(doesWork: workLimit > .zero, site: site)
    }

    @discardableResult mutating func add(_ count: Int) throws -> [UInt32] {
        var requests: [UInt32] = []
        for _ in 0..<count {
            let envelope = try makeEnvelope(requests.count)
            requests.append(
                session.add(PendingSubmission(Submission(request: 0, envelope: envelope), workLimit: workLimit)))
        }
        return requests
    }

    /// - Returns: the requests that went out.
    @discardableResult mutating func connect(agent: String = "") throws -> [UInt32] {
        let hello = session.connected(agent: agent)
        return try flush(after: hello)
    }

    /// Connects to a node that sends WELCOME at once; the action is not recorded.
    /// - Returns: the requests that went out.
    @discardableResult mutating func connectWelcomed() throws -> [UInt32] {
        let sent = try connect()
        let before = actions
        try receive(welcomeFrame())
        actions = before
        return sent
    }

    /// - Returns: the requests that went out.
    @discardableResult mutating func flush(after first: [UInt8] = []) throws -> [UInt32] {
        var bytes = first
        for action in session.flush(now: now) {
            switch action {
            case .send(let more): bytes += more
            case .solve(let request, let digest, let puzzle, let until):
                #expect(searches[request] == nil, "two searches run for one request")
                searches[request] = (digest, puzzle, until)
                session.searchBegan(request, now: now)
                actions.append(action)
            case .stopSolving(let request):
                #expect(searches.removeValue(forKey: request) != nil, "a search was stopped that did not run")
                actions.append(action)
            default: actions.append(action)
            }
        }
        #expect(searches.count <= 2)
        return try record(bytes)
    }

    /// Creates a connected sender whose WELCOME requires this puzzle.
    init(puzzle: Puzzle, inFlight: UInt16 = 64, workLimit: Duration = .seconds(60)) throws {
        self.init(workLimit: workLimit)
        try connect()
        try receive(welcomeFrame(inFlight: inFlight, puzzle: puzzle))
        actions = []
    }

    /// Finds the proof of a running search.
    mutating func find(_ request: UInt32) throws -> Proof {
        let search = searches.removeValue(forKey: request)
        let (digest, puzzle, _) = try #require(search)
        let proof = try #require(puzzle.solve(for: digest, tries: .max))
        session.solved(request, proof, now: now)
        return proof
    }

    /// Finds the proof of a running search.
    /// - Returns: the requests that went out.
    @discardableResult mutating func solve(_ request: UInt32) throws -> [UInt32] {
        _ = try find(request)
        return try flush()
    }

    /// Lets a running search reach its deadline.
    mutating func timeOut(_ request: UInt32) throws {
        let search = searches.removeValue(forKey: request)
        now = try #require(search).until
        actions += session.searchEnded(request)
        try flush()
    }

    /// Expects exactly these actions so far.
    func expectActions(_ expected: SenderSession.Action..., sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(actions == expected, sourceLocation: sourceLocation)
    }

    /// Expects only that a submission has ended with RETRY because the required work exceeds the limit.
    func expectRetry(
        _ request: UInt32, _ reason: Reason, after: UInt32, effort: UInt32, pending: Int = 0,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let text = "the node requires more proof of work than the sender's limit allows: effort \(effort)"
        let result = SubmissionResult(request: request, outcome: .retry(reason, after: after, text: text))
        #expect(actions == [.result(result)], sourceLocation: sourceLocation)
        #expect(session.requests.count == pending, sourceLocation: sourceLocation)
    }

    mutating func receive(_ bytes: [UInt8], every size: Int = .max) throws {
        var start = 0
        while start < bytes.count {
            let end = start + min(size, bytes.count - start)
            let piece = Array(bytes[start..<end])
            start = end
            try session.received(piece.span.bytes, &actions)
        }
    }

    private mutating func record(_ sent: [UInt8]) throws -> [UInt32] {
        output = sent
        var requests: [UInt32] = []
        var decoder = FrameDecoder(maximumLength: 65_536)
        decoder.append(sent)
        while let frame = try decoder.next() {
            switch try Message(frame) {
            case .hello(let hello): hellos.append(hello)
            case .submit(let fields):
                var submission = try fields.checked(format: .pipe)
                let request = submission.request
                proofs[request] = submission.proof
                submission.proof = nil
                var bytes: [UInt8] = []
                bytes.append(submission)
                if let before = submissions[request], before != bytes {
                    Issue.record("request \(request) was resent with different bytes")
                }
                submissions[request] = bytes
                requests.append(request)
            default: Issue.record("a sender does not send frames of type \(frame.type)")
            }
        }
        if decoder.isWithinFrame { Issue.record("a partial frame was sent") }
        return requests
    }
}
