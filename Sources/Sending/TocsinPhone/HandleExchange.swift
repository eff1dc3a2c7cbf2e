// SPDX-License-Identifier: Apache-2.0

/// One request of a handle's owner over TNP, for a node without an HTTP endpoint: takes the bytes that arrive, returns those
/// to send. The app has the connection.
public struct HandleExchange: Sendable {
    private let call: HandleCall
    private var received: [UInt8] = []
    private var challenge: HandleChallenge?
    private var requests: UInt32 = 0

    /// The handle, once the node has accepted the request.
    public private(set) var handle: PhoneHandle?

    private static let maximumFrame = 131_072
    private static let maximumRequests: UInt32 = 4
    private static let (featuresOffset, puzzleOffset, puzzleLength) = (1, 21, 24)
    private static let keepsHandles: UInt8 = 1 << 4

    /// Starts an exchange.
    public init(_ call: HandleCall) { self.call = call }

    /// The first bytes to send: HELLO, without an agent.
    public var start: [UInt8] { FrameType.frame(FrameType.hello, Array("TNP".utf8) + [1, 1, 0]) }

    /// Takes bytes that have arrived. It may search for a proof of work, which takes seconds on a slow phone.
    /// - Returns: the bytes to send; ``handle`` is set once the exchange is over.
    /// - Throws: ``PhoneError`` if the node refuses, or does not speak TNP.
    public mutating func receive(_ bytes: [UInt8]) throws(PhoneError) -> [UInt8] {
        received += bytes
        var output: [UInt8] = []
        while handle == nil, received.count >= 5 {
            let length = Int(Text.number(received.prefix(4)))
            guard (1...Self.maximumFrame).contains(length) else { throw .badAnswer("the peer does not speak TNP") }
            guard received.count >= 4 + length else { break }
            let payload = Array(received[5..<4 + length])
            let type = received[4]
            received.removeFirst(4 + length)
            output += try handle(type, payload)
        }
        return output
    }

    private mutating func handle(_ type: UInt8, _ payload: [UInt8]) throws(PhoneError) -> [UInt8] {
        switch type {
        case FrameType.welcome:
            guard requests == 0 else { throw .badAnswer("a second WELCOME") }
            guard payload.count >= Self.puzzleOffset + Self.puzzleLength else {
                throw .badAnswer("WELCOME is too short")
            }
            guard payload[Self.featuresOffset + 1] & Self.keepsHandles != 0 else {
                throw .badAnswer("this node keeps no handles")
            }
            challenge = HandleChallenge(puzzle: payload[Self.puzzleOffset..<Self.puzzleOffset + Self.puzzleLength])
            return try request()
        case FrameType.puzzle:
            challenge = HandleChallenge(puzzle: payload)
            return []
        case FrameType.registered: return try registered(payload)
        case FrameType.goAway: throw .badAnswer("the node has ended the connection")
        default: return []
        }
    }

    private mutating func request() throws(PhoneError) -> [UInt8] {
        guard requests < Self.maximumRequests else { throw .badAnswer("it asks for proof after proof") }
        requests += 1
        guard let challenge else { throw .badAnswer("PUZZLE is too short") }
        let needsProof = call.isRegistration && challenge.effort > 0
        return call.frame(request: requests, proof: needsProof ? try challenge.solve(for: call) : nil)
    }

    private mutating func registered(_ payload: [UInt8]) throws(PhoneError) -> [UInt8] {
        // request u32, outcome u8, reason u16, retry_after u32, and the field 0x0B with the handle
        guard payload.count >= 11 else { throw .badAnswer("REGISTERED is too short") }
        if payload[4] == 0 {
            guard payload.count >= 46, payload[11] == 0x0B, let handle = PhoneHandle(Array(payload[14..<46])) else {
                throw .badAnswer("REGISTERED has no handle")
            }
            self.handle = handle
            return []
        }
        let answer = HandleAnswer(
            outcome: payload[4] == 3 ? .retry : payload[4] == 4 ? .gone : .rejected,
            reason: Int(Text.number(payload[5..<7])), retryAfterMillis: Int(Text.number(payload[7..<11])),
            text: "reason \(Text.number(payload[5..<7])) of the protocol")
        // The node has sent PUZZLE before this answer (PROTOCOL §5).
        guard answer.needsProof, requests > 0, requests < Self.maximumRequests else { throw .refused(answer) }
        return try request()
    }
}
