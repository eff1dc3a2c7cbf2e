// SPDX-License-Identifier: Apache-2.0

/// A frame with its meaning.
public enum Message: Sendable {
    case hello(Hello)
    case welcome(Welcome)
    case submit(SubmissionFields)
    case result(SubmissionResult)
    /// 8 opaque bytes, to be sent back in a pong.
    case ping(Bytes)
    case pong(Bytes)
    case puzzle(Puzzle)
    case goAway(GoAway)
    /// A frame of a type that is to be skipped.
    case skipped

    /// Bytes in a PING and a PONG.
    public static let pingLength = 8

    /// Reads a frame.
    /// - Throws: ``ProtocolError`` for an unknown type below 0x80 and for a payload that does not parse.
    public init(_ frame: Frame) throws(ProtocolError) {
        switch FrameType(rawValue: frame.type) {
        case .hello: self = .hello(try Hello(payload: frame.payload))
        case .welcome: self = .welcome(try Welcome(payload: frame.payload))
        case .submit: self = .submit(try SubmissionFields(payload: frame.payload))
        case .result: self = .result(try SubmissionResult(payload: frame.payload))
        case .ping: self = .ping(try Message.opaque(frame.payload))
        case .pong: self = .pong(try Message.opaque(frame.payload))
        case .puzzle:
            var reader = ByteReader(frame.payload, of: "PUZZLE")
            let puzzle = try Puzzle(from: &reader)
            try reader.finish()
            self = .puzzle(puzzle)
        case .goAway: self = .goAway(try GoAway(payload: frame.payload))
        case nil:
            guard frame.type >= FrameType.firstSkippable else {
                throw .malformed("a frame of unknown type \(frame.type)")
            }
            self = .skipped
        }
    }

    private static func opaque(_ payload: Bytes) throws(ProtocolError) -> Bytes {
        guard payload.count == pingLength else { throw .malformed("PING and PONG carry 8 bytes") }
        return payload
    }
}

/// Writes frames into a buffer that is sent as one.
extension [UInt8] {
    public mutating func append(_ hello: Hello) { hello.encode(into: &self) }
    public mutating func append(_ welcome: Welcome) { welcome.encode(into: &self) }
    public mutating func append(_ submission: Submission) { submission.encode(into: &self) }
    public mutating func append(_ result: SubmissionResult) { result.encode(into: &self) }
    public mutating func append(_ goAway: GoAway) { goAway.encode(into: &self) }
    /// A PUZZLE frame.
    public mutating func append(_ puzzle: Puzzle) { appendFrame(.puzzle) { puzzle.encodePayload(into: &$0) } }
    /// A PING frame; `opaque` is 8 bytes.
    public mutating func append(ping opaque: Bytes) { appendFrame(.ping) { $0 += opaque } }
    /// A PONG frame; `opaque` is 8 bytes.
    public mutating func append(pong opaque: Bytes) { appendFrame(.pong) { $0 += opaque } }
}
