// SPDX-License-Identifier: Apache-2.0

import CLLHTTP

/// Decodes the responses of one connection with llhttp, one after the other. Keeps status and header fields;
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
    static let (maximumHead, maximumBody) = (16_384, 65_536)
    /// The most bytes until the end of a final response, which interim responses may precede and whose body may be
    /// chunked.
    static let maximumExchange = 2 * (maximumHead + maximumBody)

    /// Allocated, because the callbacks read it while llhttp writes to it.
    private let parser = UnsafeMutablePointer<llhttp_t>.allocate(capacity: 1)
    private var response = HTTPClientResponse()
    private var name: [UInt8] = []
    private var value: [UInt8] = []
    private var headBytes = 0
    private var bodyBytes = 0
    /// All bytes since the last final response, whatever they are: interim responses, chunks, trailers.
    private var exchangeBytes = 0
    private var isTooLarge = false
    private var completed: HTTPClientResponse?

    init() { llhttp_init(parser, HTTP_RESPONSE, Self.settings) }

    deinit { parser.deallocate() }

    /// Decodes bytes.
    /// - Returns: the final response, if they complete one; `nil` if not.
    /// - Throws: ``Fault``, also if the bytes complete a second final response.
    func append(_ bytes: RawSpan) throws(Fault) -> HTTPClientResponse? {
        exchangeBytes += bytes.byteCount
        guard exchangeBytes <= Self.maximumExchange else { throw .tooLarge }
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
    func connectionClosed() -> HTTPClientResponse? {
        parser.pointee.data = Unmanaged.passUnretained(self).toOpaque()
        _ = llhttp_finish(parser)
        return completed
    }

    private func execute(_ start: UnsafePointer<CChar>, _ count: Int) -> Bool {
        parser.pointee.data = Unmanaged.passUnretained(self).toOpaque()
        return llhttp_execute(parser, start, count) == HPE_OK && parser.pointee.upgrade == 0
    }

    // MARK: Events

    private func append(_ bytes: UnsafeBufferPointer<UInt8>, toName isName: Bool) -> Bool {
        headBytes += bytes.count
        guard headBytes <= Self.maximumHead else {
            isTooLarge = true
            return false
        }
        if isName { name += bytes } else { value += bytes }
        return true
    }

    private func fieldEnded() -> Bool {
        // llhttp accepts an empty name, which RFC 9110 §5.1 forbids.
        guard !name.isEmpty else { return false }
        response.fields.append(
            (String(decoding: name, as: UTF8.self).lowercased(), String(decoding: value, as: UTF8.self)))
        name.removeAll(keepingCapacity: true)
        value.removeAll(keepingCapacity: true)
        return true
    }

    private func discard(_ count: Int) -> Bool {
        bodyBytes += count
        isTooLarge = isTooLarge || bodyBytes > Self.maximumBody
        return !isTooLarge
    }

    private func messageEnded() -> Bool {
        // Interim responses (RFC 9110 §15.2) precede the final one; a second final one answers no request.
        let status = Int(clamping: parser.pointee.status_code)
        if status >= 200 {
            guard completed == nil else { return false }
            response.status = status
            response.keepsAlive = cllhttp_keeps_alive(parser) != 0
            completed = response
            (headBytes, bodyBytes, exchangeBytes) = (0, 0, 0)
        }
        response = HTTPClientResponse()
        return true
    }

    private static func of(_ parser: UnsafeMutablePointer<llhttp_t>?) -> ResponseDecoder? {
        parser?.pointee.data.map { Unmanaged<ResponseDecoder>.fromOpaque($0).takeUnretainedValue() }
    }

    private static func bytes(_ start: UnsafePointer<CChar>?, _ count: Int) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(
            start: start.map { UnsafeRawPointer($0).assumingMemoryBound(to: UInt8.self) },
            count: start == nil ? 0 : count)
    }

    // `unsafe`, because it is a pointer; the value is made once, and llhttp only reads it.
    nonisolated(unsafe) private static let settings: UnsafePointer<llhttp_settings_t> = {
        let settings = UnsafeMutablePointer<llhttp_settings_t>.allocate(capacity: 1)
        llhttp_settings_init(settings)
        settings.pointee.on_header_field = {
            ResponseDecoder.of($0)?.append(ResponseDecoder.bytes($1, $2), toName: true) == true ? 0 : cllhttp_fail
        }
        settings.pointee.on_header_value = {
            ResponseDecoder.of($0)?.append(ResponseDecoder.bytes($1, $2), toName: false) == true ? 0 : cllhttp_fail
        }
        settings.pointee.on_header_value_complete = {
            ResponseDecoder.of($0)?.fieldEnded() == true ? 0 : cllhttp_fail
        }
        settings.pointee.on_body = { ResponseDecoder.of($0)?.discard($2) == true ? 0 : cllhttp_fail }
        settings.pointee.on_message_complete = { ResponseDecoder.of($0)?.messageEnded() == true ? 0 : cllhttp_fail }
        return UnsafePointer(settings)
    }()
}
