// SPDX-License-Identifier: Apache-2.0

import Admission
import EventLoop
import NodeConfiguration
import TNP
import TestSupport
import Testing

@testable import Ingress

/// A node with one listener, which gives each submission an outcome at once, from within the call.
private final class Host: SenderHost {
    var listener: Listener!
    var connections: [IngressConnection] = []
    /// The numbers of the submissions.
    var delivered: [UInt32] = []
    var violations = 0
    var ended = 0
    let scratch = IngressScratch()
    var appResolver: AppResolver { preconditionFailure("for HTTP only") }
    var signedOnions: [SignedOnion] { preconditionFailure("for HTTP only") }
    var registrationPuzzle: Puzzle { preconditionFailure("for HTTP only") }

    init(on loop: EventLoop) throws {
        let rules = IngressSession.Rules(
            circuitIDs: false, onions: [], maximumFrame: 8192, maximumInFlight: 64, handshakeTimeout: .seconds(30),
            idleTimeout: .seconds(600), frameTimeout: .seconds(30), readTimeout: .seconds(30),
            control: Rate(burst: 1000, perMinute: 60), apps: [(name: "bisq", format: .pipe)], routes: ["bisq/iOS"],
            siteMode: .off, keepsHandles: false)
        listener = try Listener(.tcp(host: "127.0.0.1", port: 0), on: loop) { [unowned self] stream in
            connections.append(IngressConnection(stream, number: 1, rules: rules, host: self))
            stream.resumeReading()
        }
    }

    func deliver(_ submission: Submission, app: String, format: EnvelopeFormat, for connection: any SenderConnection) {
        delivered.append(submission.request)
        connection.finished(submission.request, .retry(.nodeBusy, after: 1000))
    }

    func welcome(under rules: IngressSession.Rules) -> Welcome {
        Welcome(
            maximumFrame: 8192, maximumInFlight: 64, idleTimeout: 600, serverTime: 0,
            puzzle: Puzzle(seed: [UInt8](repeating: 7, count: 16), effort: 0, lifetime: 3600), routes: rules.routes)
    }

    func countViolations(_ connection: any SenderConnection, _ faults: Int) { violations += faults }
    func ended(_ connection: any SenderConnection) { ended += 1 }
    func assign(_ connection: any SenderConnection, toCircuit circuit: UInt32) -> GoAway? { nil }
    func identify(_ connection: any SenderConnection, by authentication: SiteAuthentication, seed: [UInt8]) -> Site? {
        nil
    }
    func refusal(of connection: any SenderConnection, site credential: Bytes?, right: Site.Right) -> Outcome? { nil }
    func responded(_ status: Int) {}
    func identified(_ connection: any SenderConnection) {}
    func deliver(_ submission: SubmissionByHandle, for connection: any SenderConnection) {}
    func perform(_ request: HandleRequest, for connection: any SenderConnection) {}
}

/// A sender that records the frames it receives.
private final class Sender: ByteStreamHandler {
    var frames: [UInt8] = []
    var end: StreamError?
    private var decoder = FrameDecoder(maximumLength: 8192)

    func stream(_ stream: ByteStream, received bytes: RawSpan) {
        decoder.append(bytes)
        while let frame = try? decoder.next() { frames.append(frame.type) }
    }

    func stream(_ stream: ByteStream, ended reason: StreamError) { end = reason }
}

@Suite(.tags(.sockets)) struct IngressConnectionTests {
    private let loop = EventLoop(name: "test")

    /// Sends bytes to a host, in one piece, and waits until the connection has ended.
    private func send(_ bytes: [UInt8], check: @Sendable (Host, Sender) -> Void) async throws {
        try await LoopDomain(loop).run { domain in
            let (host, sender) = (try Host(on: domain.loop), Sender())
            let stream = try await domain.loop.dial(host.listener.endpoint, timeout: .seconds(60))
            stream.handler = sender
            stream.resumeReading()
            stream.write(bytes)
            for _ in 0..<6000 where sender.end == nil || host.ended == 0 {
                await domain.loop.sleep(for: .milliseconds(10))
            }
            check(host, sender)
            host.listener.close()
            stream.close()
        }
    }

    private func frames(_ messages: (inout [UInt8]) throws -> Void) rethrows -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(Hello())
        try messages(&bytes)
        return bytes
    }

    private func submission(_ request: UInt32) throws -> Submission {
        Submission(
            request: request,
            envelope: try Envelope(
                magic: .iOS, deviceToken: Array("d45161df3d172837".utf8)[...], iv: Array("0123456789abcdef".utf8)[...],
                ciphertext: [UInt8](repeating: UInt8(request), count: 32)[...], format: .pipe))
    }

    @Test func `outcomes that come at once neither close a connection early nor hide a violation`() async throws {
        let bytes = try frames {
            $0.append(try submission(1))
            $0.append(try submission(2))
            // A second HELLO.
            $0.append(Hello())
        }
        try await send(bytes) { host, sender in
            #expect(host.delivered == [1, 2])
            #expect(host.violations == 1)
            #expect(host.ended == 1)
            #expect(sender.frames == [FrameType.welcome, .goAway].map(\.rawValue))
        }
    }

    @Test func `the last outcome after the sender's GOAWAY closes the connection`() async throws {
        let bytes = try frames {
            $0.append(try submission(1))
            $0.append(GoAway(code: .shuttingDown, text: "the sender leaves"))
        }
        try await send(bytes) { host, sender in
            #expect(host.delivered == [1])
            #expect(host.violations == 0)
            #expect(host.ended == 1)
            #expect(sender.frames == [FrameType.welcome, .result].map(\.rawValue))
        }
    }
}
