// SPDX-License-Identifier: Apache-2.0

import CHTTPParser

/// One call of http-parser, and the state that its callbacks use during the call.
///
/// The parser stores no pointer to the bytes, and its `data` pointer to this value is set for the call only. It can
/// therefore be copied and kept between calls like any other value.
struct ParserCall {
    var parts: RequestParts
    /// The check of a chunked body's framing; `nil` for other bodies.
    var chunks: ChunkCheck?
    /// The error in the framing around chunk data.
    private(set) var chunkFault: HTTPRequestError?
    /// The first unchecked byte that is not chunk data. Valid during the call.
    private var unchecked: UnsafePointer<UInt8>?

    init(parts: RequestParts, chunks: ChunkCheck?) {
        self.parts = parts
        self.chunks = chunks
    }

    /// Passes bytes to the parser. Skips an empty buffer, which the parser would take for the end of the stream.
    /// - Returns: the number of bytes it consumed.
    mutating func execute(_ parser: inout http_parser, _ bytes: UnsafeRawBufferPointer) -> Int {
        guard let start = bytes.baseAddress, !bytes.isEmpty else { return 0 }
        let octets = start.assumingMemoryBound(to: UInt8.self)
        unchecked = octets
        defer { unchecked = nil }
        var settings = Self.settings()
        // The callbacks reach this value through `parser.data`; nothing else uses it before the parser returns.
        let taken = withUnsafeMutablePointer(to: &self) { call in
            parser.data = UnsafeMutableRawPointer(call)
            defer { parser.data = nil }
            return http_parser_execute(&parser, &settings, start.assumingMemoryBound(to: CChar.self), bytes.count)
        }
        check(upTo: octets + min(taken, bytes.count))
        return taken
    }

    /// Checks the framing around chunk data, up to `end`.
    private mutating func check(upTo end: UnsafePointer<UInt8>) {
        guard chunks != nil, var next = unchecked else { return }
        do throws(HTTPRequestError) {
            while next < end {
                try chunks?.take(next.pointee)
                next += 1
            }
        } catch {
            chunkFault = chunkFault ?? error
        }
        unchecked = end
    }

    private mutating func data(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let start = bytes.baseAddress, !bytes.isEmpty else { return true }
        check(upTo: start)
        chunks?.dataConsumed()
        unchecked = start + bytes.count
        return chunkFault == nil && parts.data(bytes)
    }

    private static func settings() -> http_parser_settings {
        var settings = http_parser_settings()
        settings.on_url = { notify($0, $1, $2) { $0.parts.target($1) } }
        settings.on_header_field = { notify($0, $1, $2) { $0.parts.fieldName($1) } }
        settings.on_header_value = { notify($0, $1, $2) { $0.parts.fieldValue($1) } }
        settings.on_headers_complete = { notify($0) { $0.parts.headEnded($1) } }
        settings.on_chunk_header = { notify($0) { $0.parts.chunk(of: $1.pointee.content_length) } }
        settings.on_body = { notify($0, $1, $2) { $0.data($1) } }
        settings.on_message_complete = {
            // The bytes that follow belong to the next request: the parser stops here.
            if let parser = $0 { http_parser_pause(parser, 1) }
            return notify($0) { call, _ in call.parts.ended() }
        }
        return settings
    }
}

/// Passes an event to the current call; the parser continues if `event` returns true.
private func notify(
    _ parser: UnsafeMutablePointer<http_parser>?, _ event: (inout ParserCall, UnsafePointer<http_parser>) -> Bool
) -> Int32 {
    // Errors are -1, because 1 and 2 have special meanings as results of on_headers_complete.
    guard let parser, let call = parser.pointee.data?.assumingMemoryBound(to: ParserCall.self) else { return -1 }
    return event(&call.pointee, parser) ? 0 : -1
}

/// Passes an event with bytes to the current call.
private func notify(
    _ parser: UnsafeMutablePointer<http_parser>?, _ start: UnsafePointer<CChar>?, _ count: Int,
    _ event: (inout ParserCall, UnsafeBufferPointer<UInt8>) -> Bool
) -> Int32 {
    notify(parser) { call, _ in
        let octets = start.map { UnsafeRawPointer($0).assumingMemoryBound(to: UInt8.self) }
        return event(&call, UnsafeBufferPointer(start: octets, count: octets == nil ? 0 : count))
    }
}
