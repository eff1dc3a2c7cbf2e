import Cryptography
import Foundation
import Testing

@testable import TNP
@testable import TocsinClient

@Suite struct SenderSessionTests {
    // MARK: What goes out

    @Test func `HELLO comes first and what is pending follows at once`() throws {
        var sender = Sender()
        try sender.add(3)
        let requests = try sender.connect(agent: "test")
        #expect(requests == [1, 2, 3])
        #expect(sender.hellos == [Hello(lowestVersion: 1, highestVersion: 1, agent: "test")])
        #expect(sender.output[4] == FrameType.hello.rawValue)
        #expect(sender.session.pendingCount == 3)
        #expect(try sender.flush().isEmpty)
    }

    @Test func `with nothing pending HELLO goes out alone`() throws {
        var sender = Sender()
        let requests = try sender.connect()
        #expect(requests.isEmpty)
        #expect(sender.hellos == [Hello()])
    }

    @Test func `what is added on a connection goes out once`() throws {
        var sender = Sender()
        try sender.connect()
        try sender.add(2)
        #expect(try sender.flush() == [1, 2])
        #expect(try sender.flush().isEmpty)
        try sender.add(1)
        #expect(try sender.flush() == [3])
    }

    @Test func `each submission has a request number of its own`() throws {
        var sender = Sender()
        let first = try sender.add(3)
        try sender.connect()
        try sender.told(resultFrame(2, .delivered()))
        let second = try sender.add(3)
        #expect(Set(first + second).count == 6)
    }

    @Test func `a resend after a reconnect has the same bytes`() throws {
        var sender = Sender()
        try sender.add(5)
        try sender.connect()
        let before = sender.output
        try sender.told(welcomeFrame())
        let requests = try sender.connect()
        #expect(requests == [1, 2, 3, 4, 5])
        #expect(sender.output == before)
    }

    @Test func `a resend keeps what was asked and signed`() throws {
        let key = try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: 5, count: 32)))
        let envelope = try makeEnvelope(1)
        var session = SenderSession()
        let request = session.add {
            Submission(
                request: $0, envelope: envelope, acceptQueued: true,
                signature: SenderSignature(of: envelope.digest, by: key))
        }
        let before = session.connected(agent: "")
        let after = session.connected(agent: "")
        #expect(before == after)
        var expected: [UInt8] = []
        expected.append(Hello())
        expected.append(
            Submission(
                request: request, envelope: envelope, acceptQueued: true,
                signature: SenderSignature(of: envelope.digest, by: key)))
        #expect(before == expected)
    }

    @Test func `only what has no final result is sent again`() throws {
        var sender = Sender()
        try sender.add(4)
        try sender.connect()
        try sender.told(welcomeFrame() + resultFrame(2, .delivered()) + resultFrame(4, .rejected(.payloadRefused)))
        let requests = try sender.connect()
        #expect(requests == [1, 3])
    }

    @Test func `what did not go out before goes out after a reconnect`() throws {
        var sender = Sender()
        try sender.add(20)
        #expect(try sender.connect() == numbers(1...16))
        for request in UInt32(1)...10 { try sender.told(resultFrame(request, .delivered())) }
        #expect(try sender.connect() == numbers(11...20))
    }

    @Test func `half a frame of the lost connection is forgotten`() throws {
        var sender = Sender()
        try sender.connect()
        try sender.told(Array(welcomeFrame().prefix(20)))
        try sender.connect()
        try sender.told(welcomeFrame())
        sender.expectActions(.welcomed(makeWelcome()))
    }

    // MARK: How much goes out

    @Test func `sixteen go out before WELCOME and then as many as it says`() throws {
        var sender = Sender()
        try sender.add(40)
        #expect(try sender.connect() == numbers(1...16))
        #expect(try sender.flush().isEmpty)
        try sender.told(welcomeFrame(inFlight: 20))
        #expect(try sender.flush() == [17, 18, 19, 20])
        #expect(try sender.flush().isEmpty)
        try sender.told(resultFrame(7, .delivered()) + resultFrame(3, .gone(since: nil)))
        #expect(try sender.flush() == [21, 22])
        #expect(try sender.flush().isEmpty)
    }

    @Test func `everything goes out where WELCOME allows it`() throws {
        var sender = Sender()
        try sender.add(40)
        try sender.connect()
        try sender.told(welcomeFrame(inFlight: 64))
        #expect(try sender.flush() == numbers(17...40))
    }

    @Test func `a WELCOME that allows fewer than went out early holds the rest back`() throws {
        var sender = Sender()
        try sender.add(20)
        try sender.connect()
        try sender.told(welcomeFrame(inFlight: 4))
        for request in UInt32(1)...12 {
            #expect(try sender.flush().isEmpty)
            try sender.told(resultFrame(request, .delivered()))
        }
        #expect(try sender.flush().isEmpty)
        try sender.told(resultFrame(13, .delivered()))
        #expect(try sender.flush() == [17])
    }

    @Test func `a new connection starts with sixteen again`() throws {
        var sender = Sender()
        try sender.add(40)
        try sender.connect()
        try sender.told(welcomeFrame(inFlight: 64))
        try sender.flush()
        #expect(sender.session.welcome != nil)
        #expect(try sender.connect() == numbers(1...16))
        #expect(sender.session.welcome == nil)
    }

    @Test func `what came too early for the node waits and goes out again`() throws {
        var sender = Sender()
        try sender.add(3)
        try sender.connect()
        try sender.told(welcomeFrame(inFlight: 2))
        sender.actions = []
        try sender.told(resultFrame(3, .retry(.tooManyInFlight, after: 1000)))
        #expect(sender.actions.isEmpty)
        #expect(sender.session.pendingCount == 3)
        #expect(try sender.flush().isEmpty)
        try sender.told(resultFrame(1, .delivered()))
        #expect(try sender.flush() == [3])
    }

    @Test func `of what came too early the oldest goes out first`() throws {
        var sender = Sender()
        try sender.add(5)
        try sender.connect()
        try sender.told(welcomeFrame(inFlight: 2))
        for request in UInt32(3)...5 { try sender.told(resultFrame(request, .retry(.tooManyInFlight, after: 1000))) }
        try sender.told(resultFrame(1, .delivered()) + resultFrame(2, .delivered()))
        #expect(try sender.flush() == [3, 4])
        try sender.told(resultFrame(3, .delivered()))
        #expect(try sender.flush() == [5])
    }

    // MARK: Results

    @Test func `a final result ends the submission`() throws {
        let outcomes: [Outcome] = [
            .delivered(id: "x"), .rejected(.badDeviceToken, text: "no"), .retry(.providerThrottles, after: 2500),
            .gone(since: 1_700_000_000_000),
        ]
        var sender = Sender()
        try sender.add(4)
        try sender.connect()
        for (index, outcome) in outcomes.enumerated() {
            try sender.told(resultFrame(UInt32(index + 1), outcome))
            #expect(sender.session.pendingCount == 3 - index)
        }
        let expected: [SenderSession.Action] = outcomes.enumerated().map { index, outcome in
            SenderSession.Action.result(SubmissionResult(request: UInt32(index + 1), outcome: outcome))
        }
        #expect(sender.actions == expected)
        #expect(try sender.connect().isEmpty)
    }

    @Test func `results come in any order and in any pieces`() throws {
        for size in [Int.max, 1, 3, 7] {
            var sender = Sender()
            try sender.add(3)
            try sender.connect()
            let bytes = welcomeFrame() + resultFrame(3, .delivered()) + resultFrame(1, .delivered())
            try sender.told(bytes, every: size)
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
        try sender.connect()
        for outcome in [Outcome.delivered(), Outcome(.queued), .retry(.tooManyInFlight, after: 1)] {
            try sender.told(resultFrame(99, outcome))
        }
        #expect(sender.actions.isEmpty)
        #expect(sender.session.pendingCount == 1)
        #expect(try sender.flush().isEmpty)
    }

    @Test func `a second final result is ignored`() throws {
        var sender = Sender()
        try sender.add(2)
        try sender.connect()
        try sender.told(resultFrame(1, .delivered()) + resultFrame(1, .gone(since: nil)))
        sender.expectActions(.result(SubmissionResult(request: 1, outcome: .delivered())))
        #expect(sender.session.pendingCount == 1)
    }

    @Test func `QUEUED is told and keeps the submission pending`() throws {
        var sender = Sender()
        try sender.add(1)
        try sender.connect()
        try sender.told(resultFrame(1, Outcome(.queued)))
        sender.expectActions(.result(SubmissionResult(request: 1, outcome: Outcome(.queued))))
        #expect(sender.session.pendingCount == 1)
        #expect(try sender.connect() == [1])
        try sender.told(resultFrame(1, .delivered()))
        #expect(sender.actions.count == 2)
        #expect(sender.session.pendingCount == 0)
    }

    @Test func `QUEUED keeps its place on the connection`() throws {
        var sender = Sender()
        try sender.connect()
        try sender.told(welcomeFrame(inFlight: 1))
        try sender.add(2)
        #expect(try sender.flush() == [1])
        try sender.told(resultFrame(1, Outcome(.queued)))
        #expect(try sender.flush().isEmpty)
        try sender.told(resultFrame(1, .delivered()))
        #expect(try sender.flush() == [2])
    }

    @Test func `what is given up before it went out never goes out`() throws {
        var sender = Sender()
        try sender.add(18)
        try sender.connect()
        sender.session.remove(17)
        #expect(sender.session.pendingCount == 17)
        try sender.told(welcomeFrame(inFlight: 64))
        #expect(try sender.flush() == [18])
    }

    @Test func `what is given up keeps its place until the node answers`() throws {
        var sender = Sender()
        try sender.connect()
        try sender.told(welcomeFrame(inFlight: 1))
        sender.actions = []
        try sender.add(2)
        #expect(try sender.flush() == [1])
        sender.session.remove(1)
        #expect(try sender.flush().isEmpty)
        try sender.told(resultFrame(1, .delivered()))
        #expect(sender.actions.isEmpty)
        #expect(try sender.flush() == [2])
    }

    @Test func `what is given up is not sent again`() throws {
        var sender = Sender()
        try sender.add(3)
        try sender.connect()
        sender.session.remove(2)
        #expect(try sender.connect() == [1, 3])
    }

    // MARK: What a node should not do

    @Test func `a result for what has not gone out does no harm`() throws {
        var sender = Sender()
        try sender.add(18)
        try sender.connect()
        try sender.told(resultFrame(17, .delivered()) + resultFrame(18, .retry(.tooManyInFlight, after: 1)))
        try sender.told(welcomeFrame(inFlight: 64))
        let requests = try sender.flush()
        let isRight = requests == [17, 18] || requests == [18]
        #expect(isRight, "\(requests)")
        #expect(try sender.flush().isEmpty)
    }

    @Test func `too many in flight, said twice, does no harm`() throws {
        var sender = Sender()
        try sender.add(2)
        try sender.connect()
        try sender.told(welcomeFrame(inFlight: 1))
        let tooMany = resultFrame(2, .retry(.tooManyInFlight, after: 1))
        try sender.told(tooMany + tooMany + resultFrame(1, .delivered()))
        #expect(try sender.flush() == [2])
        try sender.told(resultFrame(2, .delivered()))
        #expect(try sender.flush().isEmpty)
    }

    @Test func `a final result after too many in flight does no harm`() throws {
        var sender = Sender()
        try sender.add(1)
        try sender.connect()
        try sender.told(resultFrame(1, .retry(.tooManyInFlight, after: 1)) + resultFrame(1, .delivered()))
        let requests = try sender.flush()
        let isRight = requests == [1] || requests.isEmpty
        #expect(isRight, "\(requests)")
        #expect(try sender.flush().isEmpty)
    }

    // MARK: Other frames

    @Test func `WELCOME is told and kept`() throws {
        var sender = Sender()
        try sender.connect()
        try sender.told(welcomeFrame(inFlight: 3))
        sender.expectActions(.welcomed(makeWelcome(inFlight: 3)))
        #expect(sender.session.welcome == makeWelcome(inFlight: 3))
    }

    @Test func `a WELCOME with all the routes there can be is read`() throws {
        var welcome = makeWelcome()
        welcome.routes = (0..<255).map { number in
            let route = "\(number)/"
            return route + String(repeating: "a", count: 255 - route.count)
        }
        var bytes: [UInt8] = []
        bytes.append(welcome)
        #expect(bytes.count > 65_000)
        var sender = Sender()
        try sender.connect()
        try sender.told(bytes, every: 4096)
        sender.expectActions(.welcomed(welcome))
    }

    @Test func `PING is answered with the same eight bytes`() throws {
        var ping: [UInt8] = []
        ping.append(ping: [1, 2, 3, 4, 5, 6, 7, 0xFF])
        var pong: [UInt8] = []
        pong.append(pong: [1, 2, 3, 4, 5, 6, 7, 0xFF])
        var sender = Sender()
        try sender.connect()
        try sender.told(ping)
        sender.expectActions(.send(pong))
    }

    @Test func `PONG, PUZZLE and unknown types from 0x80 ask for nothing`() throws {
        var bytes: [UInt8] = []
        bytes.append(pong: [1, 2, 3, 4, 5, 6, 7, 8])
        bytes.append(Puzzle(seed: [UInt8](repeating: 1, count: 16), effort: 5, lifetime: 60))
        bytes += [0, 0, 0, 2, 0x80, 1]
        bytes += [0, 0, 0, 1, 0xFF]
        var sender = Sender()
        try sender.connect()
        try sender.told(bytes)
        #expect(sender.actions.isEmpty)
    }

    @Test func `after some GOAWAYs it is worth coming back and after others it is not`() throws {
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
            try sender.told(bytes)
            sender.expectActions(.goAway(goAway, isFatal: isFatal))
            #expect(sender.session.pendingCount == 1)
        }
    }

    @Test func `a node that leaves still gives its results`() throws {
        var goAway: [UInt8] = []
        goAway.append(GoAway(code: .shuttingDown, retryAfter: 5000))
        var sender = Sender()
        try sender.add(2)
        try sender.connect()
        try sender.told(goAway + resultFrame(2, .delivered()) + resultFrame(1, .retry(.shuttingDown, after: 1000)))
        #expect(sender.actions.count == 3)
        #expect(sender.session.pendingCount == 0)
    }

    // MARK: Faults

    @Test(arguments: SenderVectors.refusedBySender.indices)
    func `what the vectors refuse is a fault of the node`(_ index: Int) throws {
        let vector = SenderVectors.refusedBySender[index]
        let bytes = try #require(Hex.decode(vector.bytes))
        for size in [Int.max, 1] {
            var sender = Sender()
            try sender.connect()
            if vector.greeted { try sender.told(welcomeFrame()) }
            sender.actions = []
            let error = #expect(throws: ProtocolError.self, "\(vector.name)") { try sender.told(bytes, every: size) }
            #expect(error?.code.rawValue == vector.goaway, "\(vector.name)")
            #expect(error?.text.isEmpty == false, "\(vector.name)")
            #expect(sender.actions.isEmpty, "\(vector.name)")
        }
    }

    @Test func `the vectors hold refusals for a sender`() {
        #expect(!SenderVectors.refusedBySender.isEmpty)
    }

    @Test func `what came before a fault is still told`() throws {
        var sender = Sender()
        try sender.add(1)
        try sender.connect()
        let bytes = welcomeFrame() + resultFrame(1, .delivered()) + [0, 0, 0, 0]
        #expect(throws: ProtocolError.self) { try sender.told(bytes) }
        let expected: [SenderSession.Action] = [
            .welcomed(makeWelcome()), .result(SubmissionResult(request: 1, outcome: .delivered())),
        ]
        #expect(sender.actions == expected)
        #expect(try sender.connect().isEmpty)
    }

    @Test func `a frame without measure is refused as soon as its length is there`() throws {
        var sender = Sender()
        try sender.connect()
        let error = #expect(throws: ProtocolError.self) { try sender.told([0xFF, 0xFF, 0xFF, 0xFF]) }
        #expect(error?.code == .frameTooLarge)
    }
}

// MARK: - Helpers

/// The parts of Tests/Vectors/tnp1.json that concern a sender.
struct SenderVectors: Decodable {
    struct Refused: Decodable {
        let name: String
        let bytes: String
        let reader: String
        let greeted: Bool
        let goaway: UInt16
    }
    struct Sealing: Decodable {
        let name: String
        let format: String
        let key: String
        let iv: String
        let plaintext: String
        let ciphertext: String
        let delivered: String
    }

    let refused: [Refused]
    let sealing: [Sealing]

    static let all: SenderVectors = {
        let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Vectors/tnp1.json")
        do {
            return try JSONDecoder().decode(SenderVectors.self, from: Data(contentsOf: file))
        } catch {
            fatalError("the vectors cannot be read: \(error)")
        }
    }()
    static let refusedBySender = all.refused.filter { $0.reader == "sender" }
}

private func numbers(_ range: ClosedRange<UInt32>) -> [UInt32] { Array(range) }

private func makeEnvelope(_ number: Int) throws -> Envelope {
    let iv = Array(String(1_000_000_000_000_000 + number).utf8)
    return try Envelope(
        magic: .iOS, deviceToken: Array("d45161df3d172837".utf8)[...], iv: iv[...],
        ciphertext: [UInt8](repeating: 0x41, count: 32)[...], format: .pipe)
}

private func makeWelcome(inFlight: UInt16 = 64) -> Welcome {
    Welcome(
        maximumFrame: 8192, maximumInFlight: inFlight, idleTimeout: 600, serverTime: 1_760_000_000_123,
        puzzle: Puzzle(seed: [UInt8](repeating: 7, count: 16), effort: 0, lifetime: 3600), routes: ["bisq/iOS"])
}

private func welcomeFrame(inFlight: UInt16 = 64) -> [UInt8] {
    var output: [UInt8] = []
    output.append(makeWelcome(inFlight: inFlight))
    return output
}

private func resultFrame(_ request: UInt32, _ outcome: Outcome) -> [UInt8] {
    var output: [UInt8] = []
    output.append(SubmissionResult(request: request, outcome: outcome))
    return output
}

/// A node's view of a session: what it sends, and what follows from what it is told.
private struct Sender {
    var session = SenderSession()
    var actions: [SenderSession.Action] = []
    private(set) var hellos: [Hello] = []
    /// The bytes that went out last.
    private(set) var output: [UInt8] = []
    private var payloads: [UInt32: [UInt8]] = [:]

    @discardableResult mutating func add(_ count: Int) throws -> [UInt32] {
        var requests: [UInt32] = []
        for _ in 0..<count {
            let envelope = try makeEnvelope(requests.count)
            requests.append(session.add { Submission(request: $0, envelope: envelope) })
        }
        return requests
    }

    /// - Returns: the requests that went out.
    @discardableResult mutating func connect(agent: String = "") throws -> [UInt32] {
        let bytes = session.connected(agent: agent)
        return try note(bytes)
    }

    /// - Returns: the requests that went out.
    @discardableResult mutating func flush() throws -> [UInt32] {
        let bytes = session.flush()
        return try note(bytes)
    }

    /// Expects that all that was told has led to these actions.
    func expectActions(_ expected: SenderSession.Action..., sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(actions == expected, sourceLocation: sourceLocation)
    }

    mutating func told(_ bytes: [UInt8], every size: Int = .max) throws {
        var start = 0
        while start < bytes.count {
            let end = start + min(size, bytes.count - start)
            let piece = Array(bytes[start..<end])
            start = end
            try session.received(piece.span.bytes, &actions)
        }
    }

    private mutating func note(_ sent: [UInt8]) throws -> [UInt32] {
        output = sent
        var requests: [UInt32] = []
        var decoder = FrameDecoder(maximumLength: 65_536)
        decoder.append(sent)
        while let frame = try decoder.next() {
            switch try Message(frame) {
            case .hello(let hello): hellos.append(hello)
            case .submit(let fields):
                let payload = Array(frame.payload)
                if let before = payloads[fields.request], before != payload {
                    Issue.record("request \(fields.request) went out with other bytes than before")
                }
                payloads[fields.request] = payload
                requests.append(fields.request)
            default: Issue.record("a sender does not send frames of type \(frame.type)")
            }
        }
        if decoder.isWithinFrame { Issue.record("half a frame went out") }
        return requests
    }
}
