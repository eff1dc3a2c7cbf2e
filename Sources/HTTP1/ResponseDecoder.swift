// SPDX-License-Identifier: Apache-2.0

import CHTTPParser

/// Decodes the responses of one connection with http-parser, one after the other. Keeps status and header fields;
/// discards bodies.
final class ResponseDecoder {
    /// Why a connection cannot be used any more.
    enum Fault: Error, Equatable {
        /// The bytes are no HTTP/1.1 response.
        case malformed
        /// Head or body exceeds its limit.
        case tooLarge
    }

    /// The largest head and the largest body, in bytes.
    static let (largestHead, largestBody) = (16_384, 65_536)
    /// The most bytes until the end of a final response: interim responses may precede it, and chunks have frames.
    static let largestExchange = 2 * (largestHead + largestBody)

    /// Allocated, because the callbacks read it while http-parser writes to it.
    private let parser = UnsafeMutablePointer<http_parser>.allocate(capacity: 1)
    private var response = HTTPClientResponse()
    private var name: [UInt8] = []
    private var value: [UInt8] = []
    private var hasValue = false
    private var headBytes = 0
    private var bodyBytes = 0
    /// All bytes since the last final response, whatever they are: interim responses, chunks, trailers.
    private var exchangeBytes = 0
    private var isTooLarge = false
    private var completed: HTTPClientResponse?

    init() { http_parser_init(parser, HTTP_RESPONSE) }

    deinit { parser.deallocate() }

    /// Consumes bytes.
    /// - Returns: the response that they complete, if they do. A server sends nothing after it, until the next request.
    func append(_ bytes: RawSpan) throws(Fault) -> HTTPClientResponse? {
        exchangeBytes += bytes.byteCount
        guard exchangeBytes <= Self.largestExchange else { throw .tooLarge }
        let isGood = bytes.withUnsafeBytes { bytes -> Bool in
            guard let start = bytes.baseAddress, !bytes.isEmpty else { return true }
            return execute(start.assumingMemoryBound(to: CChar.self), bytes.count)
        }
        if isTooLarge { throw .tooLarge }
        guard isGood else { throw .malformed }
        defer { completed = nil }
        return completed
    }

    /// Learns that the server has closed the connection, which ends a body without a length.
    /// - Returns: the response that this completes, if it does.
    func end() -> HTTPClientResponse? {
        _ = execute(nil, 0)
        return completed
    }

    private func execute(_ start: UnsafePointer<CChar>?, _ count: Int) -> Bool {
        var settings = Self.settings
        parser.pointee.data = Unmanaged.passUnretained(self).toOpaque()
        let taken = http_parser_execute(parser, &settings, start, count)
        return taken == count && chttp_errno(parser) == HPE_OK && chttp_is_upgrade(parser) == 0
    }

    // MARK: Events

    private func append(_ bytes: UnsafeBufferPointer<UInt8>, toName isName: Bool) -> Bool {
        headBytes += bytes.count
        guard headBytes <= Self.largestHead else {
            isTooLarge = true
            return false
        }
        if isName {
            if hasValue { fieldEnded() }
            name += bytes
        } else {
            // A value may be empty.
            hasValue = true
            value += bytes
        }
        return true
    }

    private func fieldEnded() {
        if !name.isEmpty {
            response.fields.append(
                (String(decoding: name, as: UTF8.self).lowercased(), String(decoding: value, as: UTF8.self)))
        }
        hasValue = false
        name.removeAll(keepingCapacity: true)
        value.removeAll(keepingCapacity: true)
    }

    private func discard(_ count: Int) -> Bool {
        bodyBytes += count
        isTooLarge = isTooLarge || bodyBytes > Self.largestBody
        return !isTooLarge
    }

    private func messageEnded() -> Bool {
        fieldEnded()
        // Interim responses (RFC 9110 §15.2) precede the final one; a second final one answers no request.
        let status = Int(parser.pointee.status_code)
        if status >= 200 {
            guard completed == nil else { return false }
            response.status = status
            response.keepsAlive = chttp_keeps_alive(parser) != 0
            completed = response
            (headBytes, bodyBytes, exchangeBytes) = (0, 0, 0)
        }
        response = HTTPClientResponse()
        return true
    }

    private static func of(_ parser: UnsafeMutablePointer<http_parser>?) -> ResponseDecoder? {
        parser?.pointee.data.map { Unmanaged<ResponseDecoder>.fromOpaque($0).takeUnretainedValue() }
    }

    private static func bytes(_ start: UnsafePointer<CChar>?, _ count: Int) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(
            start: start.map { UnsafeRawPointer($0).assumingMemoryBound(to: UInt8.self) },
            count: start == nil ? 0 : count)
    }

    private static var settings: http_parser_settings {
        var settings = http_parser_settings()
        settings.on_header_field = {
            ResponseDecoder.of($0)?.append(ResponseDecoder.bytes($1, $2), toName: true) == true ? 0 : -1
        }
        settings.on_header_value = {
            ResponseDecoder.of($0)?.append(ResponseDecoder.bytes($1, $2), toName: false) == true ? 0 : -1
        }
        settings.on_body = { ResponseDecoder.of($0)?.discard($2) == true ? 0 : -1 }
        settings.on_message_complete = { ResponseDecoder.of($0)?.messageEnded() == true ? 0 : -1 }
        return settings
    }
}
