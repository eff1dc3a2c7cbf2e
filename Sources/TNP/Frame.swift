// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// The types of frames (PROTOCOL §1).
public enum FrameType: UInt8, Sendable, CaseIterable {
    case hello = 0x01
    case welcome = 0x02
    case submit = 0x03
    case result = 0x04
    case ping = 0x05
    case pong = 0x06
    case puzzle = 0x07
    case goAway = 0x08

    /// Types from here on that are not known are skipped.
    public static let firstSkippable: UInt8 = 0x80
}

/// One frame as it came: `length u32 ‖ type u8 ‖ payload` (PROTOCOL §1).
public struct Frame: Equatable, Sendable, Redacted {
    /// The type's number, known or not.
    public let type: UInt8
    /// What follows the type.
    public let payload: Bytes

    /// Bytes before the payload.
    public static let headerLength = 5
    /// The largest `length` before WELCOME.
    public static let maximumLengthBeforeWelcome = 256
    /// The largest `length` afterwards, where WELCOME says nothing else.
    public static let defaultMaximumLength = 8192

    /// - Parameters:
    ///   - type: the type's number.
    ///   - payload: what follows it.
    public init(type: UInt8, payload: Bytes) {
        self.type = type
        self.payload = payload
    }
}

extension [UInt8] {
    /// Appends a frame whose payload `writePayload` appends.
    mutating func appendFrame(_ type: FrameType, _ writePayload: (inout [UInt8]) -> Void) {
        let start = count
        append(bigEndian: UInt32(0))
        append(type.rawValue)
        writePayload(&self)
        let length = UInt32(count - start - 4)
        for index in 0..<4 { self[start + index] = UInt8(truncatingIfNeeded: length >> (24 - 8 * index)) }
    }
}

/// Finds frames in a stream that may come in any pieces. Holds at most one unfinished frame beyond what one `append`
/// brought, and refuses a frame that is too long as soon as its length is known.
public struct FrameDecoder: Sendable {
    /// The largest `length` that is taken from now on.
    public var maximumLength: Int
    private var buffer: [UInt8] = []
    private var head = 0
    /// A buffer that grew beyond this is given back when it is empty, so that idle connections cost little.
    private static let keptCapacity = 32 * 1024

    /// - Parameter maximumLength: the largest `length` taken, 1 or more.
    public init(maximumLength: Int) { self.maximumLength = maximumLength }

    /// Whether a frame has begun and not yet ended.
    public var isWithinFrame: Bool { head < buffer.count }

    /// Whether what comes next looks like tor's PROXY line rather than a frame.
    public var startsWithProxyLine: Bool { buffer[head...].starts(with: "PROX".utf8) }

    /// Takes the next bytes of the stream.
    public mutating func append(_ bytes: RawSpan) {
        compact()
        bytes.withUnsafeBytes { buffer.append(contentsOf: $0) }
    }

    /// Takes the next bytes of the stream.
    public mutating func append(_ bytes: some Collection<UInt8>) {
        compact()
        buffer.append(contentsOf: bytes)
    }

    /// The next whole frame, or nil where more bytes are needed.
    /// - Throws: ``ProtocolError`` for a length of 0 or above ``maximumLength``; the stream cannot be read on.
    public mutating func next() throws(ProtocolError) -> Frame? {
        guard buffer.count - head >= 4 else { return nil }
        let length =
            Int(buffer[head]) << 24 | Int(buffer[head + 1]) << 16 | Int(buffer[head + 2]) << 8 | Int(buffer[head + 3])
        guard length > 0 else { throw .malformed("a frame of length 0") }
        guard length <= maximumLength else {
            throw ProtocolError(
                code: .frameTooLarge, text: "a frame of \(length) bytes where \(maximumLength) are allowed")
        }
        guard buffer.count - head >= 4 + length else { return nil }
        let start = head + Frame.headerLength
        let end = head + 4 + length
        // A copy of its own: what is made of the frame may outlive the buffer.
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
