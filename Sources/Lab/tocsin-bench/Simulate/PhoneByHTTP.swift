// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP
import Time
import TocsinClient
import TocsinPhone

/// A phone's app that asks for its handle over HTTP, with the library for phones (PROTOCOL §11).
struct PhoneByHTTP: Sendable {
    /// The node could not be reached, or its answer is incomplete.
    struct NoAnswer: Error {}

    /// The name that signatures give the node.
    let node: NodeHost
    let endpoint: Endpoint
    let loop: EventLoop

    private static let timeout = Duration.seconds(60)
    /// The numbers of the reasons for which a REGISTER needs a proof of work (PROTOCOL §4).
    private static let proofReasons = [Int(Reason.proofRequired.rawValue), Int(Reason.proofWrong.rawValue)]

    /// Sends one request, and once more with a proof of work if the node requires one.
    /// - Throws: ``NoAnswer``, or `PhoneError` if the node refuses the request or its answer is malformed.
    func perform(
        _ action: HandleCall.Action, senderKeys: [[UInt8]], by owner: HandleOwner
    ) async throws -> PhoneHandle {
        let call = try HandleCall(
            action, senderKeys: senderKeys, sequence: TocsinClient.nextSequence(), at: node, by: owner)
        do {
            return try await send(call, proof: nil)
        } catch PhoneError.refused(let answer) where Self.proofReasons.contains(answer.reason) {
            let (status, body) = try await answered(to: "GET", "/v1/handles/challenge", [])
            guard status == 200 else { throw PhoneError.badAnswer("the challenge has status \(status)") }
            return try await send(call, proof: try HandleChallenge(body).solve(for: call))
        }
    }

    private func send(_ call: HandleCall, proof: [UInt8]?) async throws -> PhoneHandle {
        let (status, body) = try await answered(to: call.method, call.path, call.body(proof: proof))
        return try HandleAnswer.handle(status: status, body: body)
    }

    private func answered(to method: String, _ path: String, _ body: [UInt8]) async throws -> (Int, [UInt8]) {
        guard let stream = try? await loop.dial(endpoint, timeout: .seconds(30)) else { throw NoAnswer() }
        let head = """
            \(method) \(path) HTTP/1.1\r
            Host: \(node.name)\r
            Content-Type: application/octet-stream\r
            Content-Length: \(body.count)\r
            Connection: close\r
            \r

            """
        let bytes = await StreamReader.answer(to: Array(head.utf8) + body, on: stream, within: Self.timeout, loop)
        stream.close()
        guard let answer = DesktopAnswer(bytes) else { throw NoAnswer() }
        return (answer.status, Array(answer.body.utf8))
    }
}
