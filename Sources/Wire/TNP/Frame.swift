// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// The types of frames (PROTOCOL §1).
public enum FrameType: UInt8, Sendable, CaseIterable {
    /// HELLO: the sender's first frame.
    case hello = 0x01
    /// WELCOME: the node's answer to HELLO.
    case welcome = 0x02
    /// SUBMIT: an envelope for the node to deliver.
    case submit = 0x03
    /// RESULT: the outcome of a SUBMIT.
    case result = 0x04
    /// PING: asks the peer for a PONG.
    case ping = 0x05
    /// PONG: the answer to a PING.
    case pong = 0x06
    /// PUZZLE: the proof of work that the node requires from now on.
    case puzzle = 0x07
    /// GOAWAY: the announcement that the connection ends.
    case goAway = 0x08
    /// REGISTER: asks for a handle for a phone.
    case register = 0x10
    /// REGISTERED: the answer to REGISTER, ROTATE and FORGET.
    case registered = 0x11
    /// ROTATE: puts another device token behind a handle.
    case rotate = 0x12
    /// FORGET: ends a handle.
    case forget = 0x13
    /// AUTH: a site proves who it is.
    case authenticate = 0x14
    /// AUTHED: the answer to AUTH.
    case authenticated = 0x15

    /// The receiver skips unknown types from this value up.
    public static let firstSkippable: UInt8 = 0x80
}

/// One frame as received: `length u32 ‖ type u8 ‖ payload` (PROTOCOL §1).
public struct Frame: Equatable, Sendable, Redacted {
    /// The type's number, known or not.
    public let type: UInt8
    /// The bytes after the type.
    public let payload: Bytes

    /// The number of bytes before the payload: `length` and `type`.
    public static let headerLength = 5
    /// The largest `length` that the node accepts before WELCOME.
    public static let maximumLengthBeforeWelcome = 256
    /// The default of the largest `length` that the node accepts after WELCOME.
    public static let defaultMaximumLength = 8192

    /// Creates a frame.
    public init(type: UInt8, payload: Bytes) {
        self.type = type
        self.payload = payload
    }
}

extension [UInt8] {
    /// Appends a frame; `writePayload` appends its payload.
    mutating func appendFrame(_ type: FrameType, _ writePayload: (inout [UInt8]) -> Void) {
        let start = count
        append(bigEndian: UInt32(0))
        append(type.rawValue)
        writePayload(&self)
        let length = UInt32(count - start - 4)
        withUnsafeMutableBytes { $0.storeBytes(of: length.bigEndian, toByteOffset: start, as: UInt32.self) }
    }
}

/// Splits a byte stream, which may arrive in pieces of any size, into frames. Buffers at most one unfinished frame beyond
/// the bytes of one `append`, and rejects a frame that is too long as soon as its length is known.
public struct FrameDecoder: Sendable {
    /// The largest `length` that the decoder accepts from now on.
    public var maximumLength: Int
    private var buffer: [UInt8] = []
    private var head = 0
    /// The decoder frees an empty buffer with a larger capacity than this, in bytes, so that idle connections use
    /// little memory.
    private static let keptCapacity = 32 * 1024

    /// Creates a decoder for the beginning of a stream.
    /// - Parameter maximumLength: the largest `length` that the decoder accepts, at least 1.
    public init(maximumLength: Int) { self.maximumLength = maximumLength }

    /// Whether the decoder holds bytes of a frame that ``next()`` has not returned yet.
    public var isWithinFrame: Bool { head < buffer.count }

    /// Whether the next bytes look like tor's PROXY line rather than a frame.
    public var startsWithProxyLine: Bool { buffer[head...].starts(with: "PROX".utf8) }

    /// Appends the next bytes of the stream.
    public mutating func append(_ bytes: RawSpan) {
        compact()
        bytes.withUnsafeBytes { buffer.append(copying: $0) }
    }

    /// Appends the next bytes of the stream.
    public mutating func append(_ bytes: some Collection<UInt8>) {
        compact()
        buffer.append(contentsOf: bytes)
    }

    /// Returns the next whole frame, or `nil` if it needs more bytes.
    /// - Throws: ``ProtocolError`` for a length of 0 or above ``maximumLength``; the rest of the stream cannot be read.
    public mutating func next() throws(ProtocolError) -> Frame? {
        guard buffer.count - head >= 4 else { return nil }
        let length =
            Int(buffer[head]) << 24 | Int(buffer[head + 1]) << 16 | Int(buffer[head + 2]) << 8 | Int(buffer[head + 3])
        guard length > 0 else { throw .malformed("a frame of length 0") }
        guard length <= maximumLength else {
            throw ProtocolError(
                code: .frameTooLarge, text: "a frame of \(length) bytes exceeds the limit of \(maximumLength)")
        }
        guard buffer.count - head >= 4 + length else { return nil }
        let start = head + Frame.headerLength
        let end = head + 4 + length
        // A copy: slices of the buffer would keep all of it, and make the next `append` copy it.
        let frame = Frame(type: buffer[head + 4], payload: Array(buffer[start..<end])[...])
        head = end
        if head == buffer.count { compact() }
        return frame
    }

    private mutating func compact() {
        guard head > 0 else { return }
        if head == buffer.count {
            buffer.removeAll(keepingCapacity: buffer.capacity <= Self.keptCapacity)
        } else {
            buffer.removeFirst(head)
        }
        head = 0
    }
}
