// SPDX-License-Identifier: Apache-2.0

/// A decoded frame.
public enum Message: Sendable {
    /// HELLO: the sender's first frame.
    case hello(Hello)
    /// WELCOME: the node's answer to HELLO.
    case welcome(Welcome)
    /// SUBMIT, whose field values are not checked yet.
    case submit(SubmissionFields)
    /// RESULT: the outcome of a SUBMIT.
    case result(SubmissionResult)
    /// PING with 8 opaque bytes, which the receiver returns in a PONG.
    case ping(Bytes)
    /// PONG with the 8 bytes of the PING that it answers.
    case pong(Bytes)
    /// PUZZLE: the proof of work that the node requires from now on.
    case puzzle(Puzzle)
    /// GOAWAY: the announcement that the connection ends.
    case goAway(GoAway)
    /// REGISTER, ROTATE or FORGET, whose field values are not checked yet.
    case handleRequest(HandleRequestFields)
    /// REGISTERED: the answer to REGISTER, ROTATE and FORGET.
    case registered(HandleResult)
    /// AUTH: a site proves that the connection is its own.
    case authentication(SiteAuthentication)
    /// AUTHED: the answer to AUTH.
    case authenticated(SiteAuthenticationResult)
    /// A frame of an unknown type that the receiver skips.
    case skipped

    /// The payload length of PING and PONG, in bytes.
    public static let pingLength = 8

    /// Decodes a frame.
    /// - Throws: ``ProtocolError`` for an unknown type below 0x80 or a payload that does not parse.
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
        case .register: self = .handleRequest(try HandleRequestFields(.register, payload: frame.payload))
        case .rotate: self = .handleRequest(try HandleRequestFields(.rotate, payload: frame.payload))
        case .forget: self = .handleRequest(try HandleRequestFields(.forget, payload: frame.payload))
        case .registered: self = .registered(try HandleResult(payload: frame.payload))
        case .authenticate: self = .authentication(try SiteAuthentication(payload: frame.payload))
        case .authenticated: self = .authenticated(try SiteAuthenticationResult(payload: frame.payload))
        case nil:
            guard frame.type >= FrameType.firstSkippable else {
                throw .malformed("a frame of unknown type \(frame.type)")
            }
            self = .skipped
        }
    }

    private static func opaque(_ payload: Bytes) throws(ProtocolError) -> Bytes {
        guard payload.count == pingLength else { throw .malformed("PING and PONG must carry 8 bytes") }
        return payload
    }
}

/// Encodes frames into a buffer, so that one write can send several.
extension [UInt8] {
    /// Appends a HELLO frame.
    public mutating func append(_ hello: Hello) { hello.encode(into: &self) }
    /// Appends a WELCOME frame.
    public mutating func append(_ welcome: Welcome) { welcome.encode(into: &self) }
    /// Appends a SUBMIT frame.
    public mutating func append(_ submission: Submission) { submission.encode(into: &self) }
    /// Appends a RESULT frame.
    public mutating func append(_ result: SubmissionResult) { result.encode(into: &self) }
    /// Appends a GOAWAY frame.
    public mutating func append(_ goAway: GoAway) { goAway.encode(into: &self) }
    /// Appends a PUZZLE frame.
    public mutating func append(_ puzzle: Puzzle) { appendFrame(.puzzle) { puzzle.encodePayload(into: &$0) } }
    /// Appends a REGISTER, ROTATE or FORGET frame.
    public mutating func append(_ request: HandleRequest) { request.encode(into: &self) }
    /// Appends a REGISTERED frame.
    public mutating func append(_ result: HandleResult) { result.encode(into: &self) }
    /// Appends an AUTH frame.
    public mutating func append(_ authentication: SiteAuthentication) { authentication.encode(into: &self) }
    /// Appends an AUTHED frame.
    public mutating func append(_ result: SiteAuthenticationResult) { result.encode(into: &self) }
    /// Appends a PING frame; `opaque` must be 8 bytes.
    public mutating func append(ping opaque: Bytes) { appendFrame(.ping) { $0 += opaque } }
    /// Appends a PONG frame; `opaque` must be the 8 bytes of the PING.
    public mutating func append(pong opaque: Bytes) { appendFrame(.pong) { $0 += opaque } }
}
