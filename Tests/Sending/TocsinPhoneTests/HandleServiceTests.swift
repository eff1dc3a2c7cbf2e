// SPDX-License-Identifier: Apache-2.0

import Foundation
import Synchronization
import TestSupport
import Testing

@testable import TocsinPhone

/// The phone's requests about handles, at a node that answers from a script.
@Suite(.tags(.computing)) struct HandleServiceTests {
    /// A node with these answers, one after another; the last one repeats.
    private final class Node: Sendable {
        private let answers: Mutex<[(Int, String)]>
        private let seen = Mutex<[HandleService.Request]>([])

        init(_ answers: [(Int, String)]) { self.answers = Mutex(answers) }

        var requests: [HandleService.Request] { seen.withLock { $0 } }

        func answer(_ request: HandleService.Request) -> (status: Int, body: [UInt8]) {
            seen.withLock { $0.append(request) }
            let (status, body) = answers.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] }
            return (status, Array(body.utf8))
        }
    }

    private static let host = NodeHost("127.0.0.1")!
    private static let entry = HandleService.Entry(PhoneHandle([UInt8](repeating: 1, count: 32))!, at: host)
    private static let digits = String(repeating: "ab", count: 32)
    private static let accepted = (200, #"{"handle":"\#(digits)"}"#)
    private let phone = PhonePairing(.android, deviceToken: String(repeating: "t", count: 64), descriptor: "a|b\n")

    private static func refused(_ status: Int, _ outcome: String, _ reason: Int, after: Int = 0) -> (Int, String) {
        (status, #"{"outcome":"\#(outcome)","reason":\#(reason),"retryAfterMillis":\#(after),"text":"why"}"#)
    }

    private static func challenge(onion: String = String(repeating: "0", count: 64), effort: Int = 50) -> (Int, String)
    {
        (
            200,
            #"{"seed":"\#(String(repeating: "09", count: 16))","effort":\#(effort),"lifetime":60,"onion":"\#(onion)"}"#
        )
    }

    /// Sequence numbers, and how long the service has waited each time.
    private final class Waits: Sendable {
        private let state = Mutex<(UInt64, [Duration])>((0, []))
        func next() -> UInt64 {
            state.withLock { state in
                state.0 += 1
                return state.0
            }
        }
        func add(_ duration: Duration) { state.withLock { $0.1.append(duration) } }
        var all: [Duration] { state.withLock { $0.1 } }
    }

    private func service(at node: Node, _ waits: Waits) -> HandleService {
        HandleService(
            owner: HandleOwner(), sequence: { waits.next() }, wait: { waits.add($0) },
            transport: { _, request in node.answer(request) })
    }

    @Test func `a REGISTER without a proof asks for the challenge, and is sent again with one`() async throws {
        let node = Node([Self.refused(503, "RETRY", 203), Self.challenge(), Self.accepted])
        let handle = try await service(at: node, Waits()).register(phone, at: Self.host)
        #expect(handle.text == "handle:\(Self.digits)")
        let (first, challenge, second) = (node.requests[0], node.requests[1], node.requests[2])
        #expect(challenge.method == "GET" && challenge.path == "/v1/handles/challenge" && challenge.body.isEmpty)
        #expect(first.method == "POST" && first.path == "/v1/handles")
        // The proof is a field of 16 bytes more; everything else stays.
        #expect(second.body.count == first.body.count + 3 + 16)
    }

    @Test func `RETRY is obeyed, a few times`() async throws {
        let waits = Waits()
        let node = Node([Self.refused(429, "RETRY", 201, after: 700), Self.refused(503, "RETRY", 202), Self.accepted])
        _ = try await service(at: node, waits).register(phone, at: Self.host)
        #expect(waits.all == [.milliseconds(700), .milliseconds(250)])
        let stubborn = Node([Self.refused(503, "RETRY", 202, after: 1)])
        await #expect(throws: PhoneError.self) {
            try await service(at: stubborn, Waits()).register(phone, at: Self.host)
        }
        #expect(stubborn.requests.count == 6)
    }

    @Test func `a node that is full is asked again, and one that asks for an hour is not`() async throws {
        let full = Node([(503, #"{"status":503,"error":"too many connections"}"#), (429, "<html>"), Self.accepted])
        _ = try await service(at: full, Waits()).register(phone, at: Self.host)
        #expect(full.requests.count == 3)
        let hour = Node([Self.refused(503, "RETRY", 202, after: 3_600_000)])
        await #expect(throws: PhoneError.self) { try await service(at: hour, Waits()).register(phone, at: Self.host) }
        #expect(hour.requests.count == 1)
    }

    @Test func `a hostile node gets no endless work over TNP`() throws {
        let call = try HandleCall(.register(phone, app: ""), sequence: 1, at: Self.host, by: HandleOwner())
        var welcome = [UInt8](repeating: 0, count: 45)
        (welcome[2], welcome[40]) = (1 << 4, 1)
        let frame = FrameType.frame(FrameType.welcome, welcome)
        var twice = HandleExchange(call)
        _ = try twice.receive(frame)
        #expect(throws: PhoneError.self) { try twice.receive(frame) }
        let again = FrameType.frame(FrameType.registered, [0, 0, 0, 1, 3, 0, 203, 0, 0, 0, 0])
        var endless = HandleExchange(call)
        _ = try endless.receive(frame)
        #expect(throws: PhoneError.self) { for _ in 0..<5 { _ = try endless.receive(again) } }
        var early = HandleExchange(call)
        #expect(throws: PhoneError.self) { try early.receive(again) }
    }

    @Test func `what is stored is checked when it is read`() throws {
        let (encoder, decoder) = (JSONEncoder(), JSONDecoder())
        var pairing = PhonePairing(endpoint: "https://push.example/x", receiver: WebPushReceiver(), descriptor: "x")
        pairing.handle = PhoneHandle(Self.digits)
        let again = try decoder.decode(PhonePairing.self, from: try encoder.encode(pairing))
        #expect(again.text == pairing.text && again.deviceToken == pairing.deviceToken)
        #expect(again.receiver?.secretText == pairing.receiver?.secretText)
        let owner = HandleOwner()
        #expect(try decoder.decode(HandleOwner.self, from: try encoder.encode(owner)).publicKey == owner.publicKey)
        let entry = HandleService.Entry(PhoneHandle(Self.digits)!, at: Self.host, senderKeys: [owner.publicKey])
        #expect(try decoder.decode(HandleService.Entry.self, from: try encoder.encode(entry)) == entry)
        for (text, type) in [
            (#"{"seed":[1,2]}"#, HandleOwner.self as any Decodable.Type), (#""ab""#, PhoneHandle.self),
            (#""x:80""#, NodeHost.self), (#"{"privateKey":[1],"secret":[]}"#, WebPushReceiver.self),
        ] { #expect(throws: (any Error).self) { try decoder.decode(type, from: Data(text.utf8)) } }
    }

    @Test func `hosts and lengths are checked before something is signed`() throws {
        let onion = "bisqpushv56wo32w2dv7xacvvcrnow6gud5vkvftwsgevczmspzvqgad.onion"
        #expect(
            NodeHost(onion)?.onionKey.count == 32
                && NodeHost("www.\(onion.uppercased())")?.onionKey == NodeHost(onion)?.onionKey)
        for wrong in ["", "\(onion):80", "abc.onion", "\u{13}.onion", "a b", "http://a"] {
            #expect(NodeHost(wrong) == nil)
        }
        let long = PhonePairing(.android, deviceToken: String(repeating: "t", count: 1025), descriptor: "x")
        #expect(throws: PhoneError.self) {
            try HandleCall(.register(long, app: ""), sequence: 1, at: Self.host, by: HandleOwner())
        }
        let keys = [[UInt8]](repeating: [UInt8](repeating: 0, count: 32), count: 9)
        #expect(throws: PhoneError.self) {
            try HandleCall(.register(phone, app: ""), senderKeys: keys, sequence: 1, at: Self.host, by: HandleOwner())
        }
    }

    @Test func `all handles are rotated, also past one that the node does not know`() async throws {
        let node = Node([Self.accepted, Self.refused(410, "GONE", 310), Self.accepted])
        let handles = (1...3).map { PhoneHandle([UInt8](repeating: $0, count: 32))! }
        let entries = [
            HandleService.Entry(handles[0], at: Self.host), HandleService.Entry(handles[1], at: Self.host),
            HandleService.Entry(handles[2], at: Self.host, senderKeys: [[UInt8](repeating: 5, count: 32)]),
        ]
        let failures = await service(at: node, Waits()).rotate(entries, to: phone)
        #expect(Array(failures.keys) == [entries[1]])
        #expect(node.requests.map(\.method) == ["PUT", "PUT", "PUT"])
        #expect(node.requests.map(\.path) == handles.map { "/v1/handles/\(Text.hex($0.bytes))" })
        #expect(node.requests[2].body.count == node.requests[0].body.count + 3 + 32)
    }

    @Test func `a handle that the node does not know is forgotten`() async throws {
        let node = Node([Self.refused(410, "GONE", 310)])
        try await service(at: node, Waits()).forget(Self.entry)
        #expect(node.requests.map(\.method) == ["DELETE"])
        let other = Node([Self.refused(400, "REJECTED", 311)])
        await #expect(throws: PhoneError.self) {
            try await service(at: other, Waits()).forget(Self.entry)
        }
    }

    @Test func `an answer of anything else is an error that says so`() async throws {
        for answer in [
            (404, "not found"), (502, "<html>"), (200, "{}"), (200, #"{"handle":"ab"}"#), (500, ""),
            (400, #"{"outcome":"MAYBE"}"#),
        ] {
            let error = await #expect(throws: PhoneError.self) {
                try await service(at: Node([answer]), Waits()).register(phone, at: Self.host)
            }
            guard case .badAnswer = error else {
                Issue.record("\(answer)")
                continue
            }
        }
        // A node that names another onion, or asks for too much.
        for challenge in [Self.challenge(onion: Self.digits), Self.challenge(effort: 1 << 30), (503, "")] {
            let node = Node([Self.refused(503, "RETRY", 203), challenge])
            await #expect(throws: PhoneError.self) {
                try await service(at: node, Waits()).register(phone, at: Self.host)
            }
            #expect(node.requests.count == 2)
        }
    }

    @Test func `pairing tokens are written as they are read, and a descriptor cannot break them`() throws {
        #expect(phone.text.hasPrefix("android|a b |"))
        let again = try PhonePairing(phone.text)
        #expect(again.text == phone.text && again.format == .sealed && again.senderKey == phone.senderKey)
        var byHandle = phone
        byHandle.handle = PhoneHandle(Self.digits)
        #expect(byHandle.text.hasSuffix("|handle:\(Self.digits)"))
        #expect(try PhonePairing(byHandle.text).handle == byHandle.handle)
        let web = PhonePairing(endpoint: "https://push.example/x", receiver: WebPushReceiver(), descriptor: "browser")
        #expect(web.text.split(separator: "|").count == 6)
        #expect(try PhonePairing(web.text, receiver: web.receiver).text == web.text)
        for wrong in [
            "", "iOS|x|key|token", "iOS|x|\(String(repeating: "k", count: 32))|", web.text, "\(phone.text)|x",
            "iOS|x|\(String(repeating: "k", count: 32))|handle:ab",
        ] { #expect(throws: PhoneError.self) { try PhonePairing(wrong) } }
        for value in ["\(phone)", "\(byHandle.handle!)", "\(web.receiver!)", "\(HandleOwner())"] {
            #expect(value.hasSuffix("redacted>"))
        }
    }
}
