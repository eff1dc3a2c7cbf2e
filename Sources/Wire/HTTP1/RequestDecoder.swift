// SPDX-License-Identifier: Apache-2.0

import CLLHTTP

/// Decodes one request: checks every line of the head with ``LineCheck``, then passes it to llhttp. Buffers only
/// the parts of the request.
struct RequestDecoder {
    /// Maximum empty lines skipped before a request: some clients send one after a body (RFC 9112 §2.2).
    static let maximumEmptyLines = 4

    /// The start of the HTTP/2 preface; no method starts with it.
    private static let preface = Array("PRI".utf8)

    /// The ASCII bytes of `HTTP/` as a number.
    private static let protocolName: UInt64 = 0x48_5454_502F

    private enum Phase { case start, requestLine, fields, body }

    private let limits: HTTPLimits
    private var phase = Phase.start
    private var parser = ParserCall.parser
    private var parts: RequestParts
    private var lines = LineCheck()
    private var emptyLines = 0
    /// Bytes of the head so far, and how many of its first bytes match the HTTP/2 preface.
    private var headCount = 0
    private var prefaceCount = 0
    /// The last eight bytes of the request line, without its line end.
    private var lineTail: UInt64 = 0
    private var chunks: ChunkCheck?

    init(limits: HTTPLimits) {
        self.limits = limits
        parts = RequestParts(limits: limits)
    }

    /// Whether a request has begun but is not complete.
    var hasBegun: Bool { phase != .start && !parts.isComplete }

    /// The complete request, and whether the connection may persist after it; `nil` until then.
    var completed: (request: HTTPRequest, keepsAlive: Bool)? {
        parts.isComplete ? (parts.request, parts.keepsAlive) : nil
    }

    /// Consumes bytes up to the end of the request.
    /// - Returns: the number of bytes consumed: all of them, unless the request is complete.
    mutating func append(_ bytes: RawSpan) throws(HTTPRequestError) -> Int {
        try bytes.withUnsafeBytes { (bytes) throws(HTTPRequestError) -> Int in
            var taken = 0
            if phase == .start { taken = try skipEmptyLines(bytes) }
            if phase == .requestLine || phase == .fields {
                taken += try consumeHead(UnsafeRawBufferPointer(rebasing: bytes[taken...]))
            }
            if phase == .body, !parts.isComplete, taken < bytes.count {
                taken += try feed(UnsafeRawBufferPointer(rebasing: bytes[taken...]))
            }
            return taken
        }
    }

    /// Whether to send `100 Continue`: true once, if the head has arrived and none of the body has.
    mutating func takeContinue() -> Bool {
        phase == .body && parts.takeContinue()
    }

    private mutating func skipEmptyLines(_ bytes: UnsafeRawBufferPointer) throws(HTTPRequestError) -> Int {
        for (taken, byte) in bytes.enumerated() {
            if (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte), !lines.isEnding {
                phase = .requestLine
                return taken
            }
            guard byte == UInt8(ascii: "\r") || lines.isEnding, emptyLines < Self.maximumEmptyLines else {
                throw .notHTTP(firstByte: byte)
            }
            switch lines.check(byte) {
            case .continues: break
            case .emptyLine: emptyLines += 1
            case .endOfLine, .broken: throw .malformed
            }
        }
        return bytes.count
    }

    private mutating func consumeHead(_ bytes: UnsafeRawBufferPointer) throws(HTTPRequestError) -> Int {
        var (fed, index) = (0, 0)
        while index < bytes.count {
            // Once the HTTP/2 preface is ruled out, bytes within a line are skipped together, except for the last one
            // and the one that reaches the limit.
            let limit = min(bytes.count - 1, index + limits.head - 1 - headCount)
            if headCount >= 3, index < limit {
                let plain = lines.plainBytes(in: UnsafeRawBufferPointer(rebasing: bytes[index..<limit]))
                skip(UnsafeRawBufferPointer(rebasing: bytes[index..<index + plain]))
                index += plain
            }
            let byte = bytes[index]
            let step = lines.check(byte)
            let fault = headFault(at: byte, step)
            index += 1
            guard fault != nil || step != .continues || index == bytes.count else { continue }
            // The bytes before the fault may contain an earlier one, which takes precedence.
            let end = fault == nil || fault == .headTooLarge ? index : index - 1
            try feedHead(UnsafeRawBufferPointer(rebasing: bytes[fed..<end]))
            fed = end
            if let fault { throw fault }
            if step == .endOfLine, phase == .requestLine {
                guard parser.http_major == 1 else { throw .version }
                // llhttp also accepts requests of RTSP and Icecast.
                guard lineTail >> 24 == Self.protocolName else { throw .malformed }
                phase = .fields
            } else if step == .emptyLine {
                guard parts.hasHead else { throw .malformed }
                phase = .body
                if parts.isChunked { chunks = ChunkCheck(trailers: limits.head - headCount) }
                return fed
            }
        }
        return fed
    }

    /// Counts bytes within a line.
    private mutating func skip(_ bytes: UnsafeRawBufferPointer) {
        headCount += bytes.count
        guard phase == .requestLine else { return }
        for byte in bytes.suffix(8) { lineTail = lineTail << 8 | UInt64(clamping: byte) }
    }

    private mutating func headFault(at byte: UInt8, _ step: LineCheck.Step) -> HTTPRequestError? {
        if step == .broken { return .malformed }
        if headCount == prefaceCount, prefaceCount < 3, byte == Self.preface[prefaceCount] { prefaceCount += 1 }
        headCount += 1
        if phase == .requestLine, step == .continues, !lines.isEnding {
            lineTail = lineTail << 8 | UInt64(clamping: byte)
        }
        if headCount == 3, prefaceCount == 3 { return .version }
        return headCount >= limits.head && step != .emptyLine ? .headTooLarge : nil
    }

    private mutating func feedHead(_ bytes: UnsafeRawBufferPointer) throws(HTTPRequestError) {
        guard !bytes.isEmpty else { return }
        guard try feed(bytes) == bytes.count else { throw .malformed }
    }

    // MARK: The parser

    /// Passes bytes to the parser.
    /// - Returns: the number of bytes it consumed.
    private mutating func feed(_ bytes: UnsafeRawBufferPointer) throws(HTTPRequestError) -> Int {
        // The parts are moved, not copied, so that their arrays grow in place.
        var call = ParserCall(parts: parts, chunks: chunks)
        parts = RequestParts(limits: limits)
        let taken = call.execute(&parser, bytes)
        (parts, chunks) = (call.parts, call.chunks)
        if let fault = call.chunkFault ?? parts.fault { throw fault }
        switch llhttp_get_errno(&parser) {
        case HPE_OK, HPE_PAUSED, HPE_PAUSED_UPGRADE: return taken
        case HPE_INVALID_VERSION: throw .version
        case HPE_INVALID_TRANSFER_ENCODING: throw .transferCoding
        default: throw .malformed
        }
    }
}
