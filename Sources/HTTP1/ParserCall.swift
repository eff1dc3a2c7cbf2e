// SPDX-License-Identifier: Apache-2.0

import CHTTPParser

/// One call of the parser, and what its callbacks reach while it lasts.
///
/// The parser keeps two pointers: `data`, to this value, which is set for the call only, and none to the bytes. So it
/// can be copied and kept between calls like any other value.
struct ParserCall {
    var parts: RequestParts
    /// Where the body comes in chunks.
    var chunks: ChunkCheck?
    /// What is wrong around the chunks.
    private(set) var chunkFault: HTTPRequestError?
    /// From where on bytes that are no data have not been looked at. Valid during the call.
    private var unchecked: UnsafePointer<UInt8>?

    init(parts: RequestParts, chunks: ChunkCheck?) {
        self.parts = parts
        self.chunks = chunks
    }

    /// Gives bytes (not none: that would mean the end of the stream) to the parser.
    /// - Returns: how many it took.
    mutating func execute(_ parser: inout http_parser, _ bytes: UnsafeRawBufferPointer) -> Int {
        guard let start = bytes.baseAddress, !bytes.isEmpty else { return 0 }
        let octets = start.assumingMemoryBound(to: UInt8.self)
        unchecked = octets
        defer { unchecked = nil }
        var settings = Self.settings()
        // The parser has its own pointer to this value, and nothing else touches it before the parser returns.
        let taken = withUnsafeMutablePointer(to: &self) { call in
            parser.data = UnsafeMutableRawPointer(call)
            defer { parser.data = nil }
            return http_parser_execute(&parser, &settings, start.assumingMemoryBound(to: CChar.self), bytes.count)
        }
        check(upTo: octets + min(taken, bytes.count))
        return taken
    }

    /// Looks at what surrounds the data of chunks, up to `end`.
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
        chunks?.dataPassed()
        unchecked = start + bytes.count
        return chunkFault == nil && parts.data(bytes)
    }

    private static func settings() -> http_parser_settings {
        var settings = http_parser_settings()
        settings.on_url = { tell($0, $1, $2) { $0.parts.target($1) } }
        settings.on_header_field = { tell($0, $1, $2) { $0.parts.fieldName($1) } }
        settings.on_header_value = { tell($0, $1, $2) { $0.parts.fieldValue($1) } }
        settings.on_headers_complete = { tell($0) { $0.parts.headEnded($1) } }
        settings.on_chunk_header = { tell($0) { $0.parts.chunk(of: $1.pointee.content_length) } }
        settings.on_body = { tell($0, $1, $2) { $0.data($1) } }
        settings.on_message_complete = {
            // What follows is another request's: the parser stops here.
            if let parser = $0 { http_parser_pause(parser, 1) }
            return tell($0) { call, _ in call.parts.ended() }
        }
        return settings
    }
}

/// Tells the call that the parser belongs to; the parser goes on where `event` says so.
private func tell(
    _ parser: UnsafeMutablePointer<http_parser>?, _ event: (inout ParserCall, UnsafePointer<http_parser>) -> Bool
) -> Int32 {
    // -1: of what on_headers_complete may return, 1 and 2 have meanings of their own.
    guard let parser, let call = parser.pointee.data?.assumingMemoryBound(to: ParserCall.self) else { return -1 }
    return event(&call.pointee, parser) ? 0 : -1
}

/// The same for events that come with bytes.
private func tell(
    _ parser: UnsafeMutablePointer<http_parser>?, _ start: UnsafePointer<CChar>?, _ count: Int,
    _ event: (inout ParserCall, UnsafeBufferPointer<UInt8>) -> Bool
) -> Int32 {
    tell(parser) { call, _ in
        let octets = start.map { UnsafeRawPointer($0).assumingMemoryBound(to: UInt8.self) }
        return event(&call, UnsafeBufferPointer(start: octets, count: octets == nil ? 0 : count))
    }
}
