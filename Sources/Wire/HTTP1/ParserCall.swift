// SPDX-License-Identifier: Apache-2.0

import CLLHTTP

/// One call of llhttp, and the state that its callbacks use during the call.
///
/// The parser stores no pointer to the bytes beyond the call, and its `data` pointer to this value is set for the call
/// only. Between calls the parser can be copied and kept like any other value.
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

    /// A parser at the start of a request.
    static var parser: llhttp_t {
        var parser = llhttp_t()
        llhttp_init(&parser, HTTP_REQUEST, settings)
        return parser
    }

    /// Passes bytes to the parser.
    /// - Returns: the number of bytes it consumed.
    mutating func execute(_ parser: inout llhttp_t, _ bytes: UnsafeRawBufferPointer) -> Int {
        guard let start = bytes.baseAddress, !bytes.isEmpty else { return 0 }
        let octets = start.assumingMemoryBound(to: UInt8.self)
        unchecked = octets
        defer { unchecked = nil }
        // The callbacks reach this value through `parser.data`; nothing else uses it before the parser returns.
        let result = withUnsafeMutablePointer(to: &self) { call in
            parser.data = UnsafeMutableRawPointer(call)
            defer { parser.data = nil }
            return llhttp_execute(&parser, start.assumingMemoryBound(to: CChar.self), bytes.count)
        }
        // Where the parser stopped, if it has not consumed everything.
        let end = result == HPE_OK ? nil : llhttp_get_error_pos(&parser).map { UnsafeRawPointer($0) - start }
        let taken = end.map { min(max(0, $0), bytes.count) } ?? bytes.count
        check(upTo: octets + taken)
        return taken
    }

    /// Checks the framing around chunk data, up to `end`.
    private mutating func check(upTo end: UnsafePointer<UInt8>) {
        guard chunks != nil, var next = unchecked else { return }
        do throws(HTTPRequestError) {
            while next < end {
                try chunks?.check(next.pointee)
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

    // `unsafe`, because it is a pointer; the value is made once, and llhttp only reads it.
    nonisolated(unsafe) private static let settings: UnsafePointer<llhttp_settings_t> = {
        let settings = UnsafeMutablePointer<llhttp_settings_t>.allocate(capacity: 1)
        llhttp_settings_init(settings)
        settings.pointee.on_url = { notify($0, $1, $2) { $0.parts.target($1) } }
        settings.pointee.on_header_field = { notify($0, $1, $2) { $0.parts.fieldName($1) } }
        settings.pointee.on_header_value = { notify($0, $1, $2) { $0.parts.fieldValue($1) } }
        settings.pointee.on_header_value_complete = { notify($0) { call, _ in call.parts.fieldEnded() } }
        settings.pointee.on_headers_complete = { notify($0) { $0.parts.headEnded($1) } }
        settings.pointee.on_chunk_header = { notify($0) { $0.parts.chunk(of: $1.pointee.content_length) } }
        settings.pointee.on_body = { notify($0, $1, $2) { $0.data($1) } }
        // The bytes that follow belong to the next request: the parser stops here.
        settings.pointee.on_message_complete = {
            notify($0) { call, _ in call.parts.ended() } == 0 ? cllhttp_pause : cllhttp_fail
        }
        return UnsafePointer(settings)
    }()
}

/// Passes an event to the current call; the parser continues if `event` returns true.
private func notify(
    _ parser: UnsafeMutablePointer<llhttp_t>?, _ event: (inout ParserCall, UnsafePointer<llhttp_t>) -> Bool
) -> Int32 {
    guard let parser, let call = parser.pointee.data?.assumingMemoryBound(to: ParserCall.self) else {
        return cllhttp_fail
    }
    return event(&call.pointee, parser) ? 0 : cllhttp_fail
}

/// Passes an event with bytes to the current call.
private func notify(
    _ parser: UnsafeMutablePointer<llhttp_t>?, _ start: UnsafePointer<CChar>?, _ count: Int,
    _ event: (inout ParserCall, UnsafeBufferPointer<UInt8>) -> Bool
) -> Int32 {
    notify(parser) { call, _ in
        let octets = start.map { UnsafeRawPointer($0).assumingMemoryBound(to: UInt8.self) }
        return event(&call, UnsafeBufferPointer(start: octets, count: octets == nil ? 0 : count))
    }
}
