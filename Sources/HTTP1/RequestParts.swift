// SPDX-License-Identifier: Apache-2.0

import CHTTPParser

/// What the parser has told of a request so far, held to the limits as it comes. No I/O, and no pointer that outlives
/// a call.
struct RequestParts {
    let limits: HTTPLimits
    /// Why the request is not taken.
    private(set) var fault: HTTPRequestError?
    private(set) var hasHead = false
    private(set) var isWhole = false
    private(set) var keepsAlive = false
    /// Whether the sender waits for `100 Continue` before it sends the body.
    private var expectsContinue = false
    private(set) var isChunked = false

    private var method = ""
    private var minorVersion = 1
    private var target: [UInt8] = []
    private var headers: [(name: String, value: String)] = []
    private var body: [UInt8] = []
    /// The field that is coming in.
    private var name: [UInt8] = []
    private var value: [UInt8] = []
    private var isInValue = false

    init(limits: HTTPLimits) { self.limits = limits }

    /// The request, once it is whole.
    var request: HTTPRequest {
        HTTPRequest(method: method, target: target, minorVersion: minorVersion, headers: headers, body: body)
    }

    /// Whether the sender is to be told to send the body; true once.
    mutating func takeContinue() -> Bool {
        defer { expectsContinue = false }
        return expectsContinue
    }

    // MARK: What the parser calls; each says whether it may go on.

    mutating func target(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard target.count + bytes.count <= limits.target else { return fail(.targetTooLong) }
        target += bytes
        return true
    }

    mutating func fieldName(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        // Trailers are dropped.
        guard !hasHead else { return true }
        if isInValue { endField() }
        if name.isEmpty, headers.count >= limits.fields { return fail(.headTooLarge) }
        name += bytes
        return true
    }

    mutating func fieldValue(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard !hasHead else { return true }
        isInValue = true
        value += bytes
        return true
    }

    private mutating func endField() {
        // The parser takes names with spaces, among them those before the colon, which RFC 9112, 5.1 forbids.
        if name.contains(UInt8(ascii: " ")) { fault = .malformed }
        func isSpace(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        let trimmed = value.drop(while: isSpace)
        let end = trimmed.lastIndex { !isSpace($0) }.map { $0 + 1 } ?? trimmed.startIndex
        headers.append(
            (
                name: String(decoding: name.lazy.map(\.lowerCased), as: UTF8.self),
                value: String(decoding: trimmed[..<end], as: UTF8.self)
            ))
        name.removeAll(keepingCapacity: true)
        value.removeAll(keepingCapacity: true)
        isInValue = false
    }

    mutating func headEnded(_ parser: UnsafePointer<http_parser>) -> Bool {
        if isInValue { endField() }
        (name, value) = ([], [])
        hasHead = true
        method = String(cString: chttp_method(parser))
        minorVersion = min(Int(parser.pointee.http_minor), 1)
        isChunked = chttp_is_chunked(parser) != 0
        let isUpgrade = chttp_is_upgrade(parser) != 0
        keepsAlive = chttp_keeps_alive(parser) != 0 && !isUpgrade
        if fault != nil { return false }
        do throws(HTTPRequestError) {
            try checkTarget()
            try checkFields()
            let length = parser.pointee.content_length
            if !isChunked, length != .max, length > UInt64(limits.body) { throw .bodyTooLarge }
            return true
        } catch {
            return fail(error)
        }
    }

    mutating func chunk(of length: UInt64) -> Bool {
        expectsContinue = false
        return length <= UInt64(limits.body - body.count) || fail(.bodyTooLarge)
    }

    mutating func data(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard body.count + bytes.count <= limits.body else { return fail(.bodyTooLarge) }
        body += bytes
        // It comes without being asked for.
        expectsContinue = false
        return true
    }

    mutating func ended() -> Bool {
        isWhole = true
        return true
    }

    private mutating func fail(_ fault: HTTPRequestError) -> Bool {
        self.fault = fault
        return false
    }

    // MARK: What the parser does not look at

    private mutating func checkTarget() throws(HTTPRequestError) {
        let isVisible = target.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "#") }
        guard !target.isEmpty, isVisible else { throw .malformed }
        guard method != "CONNECT", target[0] != UInt8(ascii: "/"), target[0] != UInt8(ascii: "*") else { return }
        // RFC 9112, 3.2.2: a server takes the absolute form, too. The parser has seen to "scheme://".
        let colon = target.firstIndex(of: UInt8(ascii: ":")) ?? 0
        let afterHost = target.dropFirst(colon + 3).drop { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
        target = afterHost.first == UInt8(ascii: "/") ? Array(afterHost) : [UInt8(ascii: "/")] + afterHost
    }

    private mutating func checkFields() throws(HTTPRequestError) {
        func values(_ name: String) -> [String] { headers.filter { $0.name == name }.map(\.value) }
        // RFC 9112, 3.2.
        let hosts = values("host").count
        guard hosts == 1 || (hosts == 0 && minorVersion == 0) else { throw .malformed }
        let codings = values("transfer-encoding")
        if !codings.isEmpty {
            // RFC 9112, 6.1: two ways to tell where the body ends are one too many, and HTTP/1.0 has no chunks.
            guard minorVersion == 1, values("content-length").isEmpty else { throw .malformed }
            guard codings.count == 1, codings[0].lowercased() == "chunked", isChunked else { throw .transferCoding }
        }
        // RFC 9110, 10.1.1: in HTTP/1.0 it means nothing.
        let expectations = minorVersion == 0 ? [] : values("expect")
        guard expectations.allSatisfy({ $0.lowercased() == "100-continue" }) else { throw .expectation }
        expectsContinue = !expectations.isEmpty
    }
}

extension UInt8 {
    fileprivate var lowerCased: UInt8 { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(self) ? self | 0x20 : self }
}
