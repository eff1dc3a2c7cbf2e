// SPDX-License-Identifier: Apache-2.0

import CLLHTTP

/// The parts of a request that the parser has reported so far, checked against the limits as they arrive. No I/O, and
/// no pointer that outlives a call.
struct RequestParts {
    let limits: HTTPLimits
    /// Why the request is rejected.
    private(set) var fault: HTTPRequestError?
    private(set) var hasHead = false
    private(set) var isComplete = false
    private(set) var keepsAlive = false
    /// Whether the client waits for `100 Continue` before it sends the body.
    private var expectsContinue = false
    private(set) var isChunked = false

    private var method = ""
    private var minorVersion = 1
    private var target: [UInt8] = []
    private var headers: [(name: String, value: String)] = []
    private var body: [UInt8] = []
    /// The field that is being received.
    private var name: [UInt8] = []
    private var value: [UInt8] = []

    init(limits: HTTPLimits) { self.limits = limits }

    /// The request; valid once ``isComplete`` is true.
    var request: HTTPRequest {
        HTTPRequest(method: method, target: target, minorVersion: minorVersion, headers: headers, body: body)
    }

    /// Whether to send `100 Continue`; true once.
    mutating func takeContinue() -> Bool {
        defer { expectsContinue = false }
        return expectsContinue
    }

    // MARK: Parser callbacks; each returns whether parsing may continue

    mutating func target(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard target.count + bytes.count <= limits.target else { return fail(.targetTooLong) }
        target += bytes
        return true
    }

    mutating func fieldName(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        if name.isEmpty, !hasHead, headers.count >= limits.fields { return fail(.headTooLarge) }
        name += bytes
        return true
    }

    mutating func fieldValue(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        // Trailers are dropped.
        if !hasHead { value += bytes }
        return true
    }

    mutating func fieldEnded() -> Bool {
        // llhttp accepts an empty name, which RFC 9110 §5.1 forbids.
        guard !name.isEmpty else { return fail(.malformed) }
        if !hasHead { addField() }
        name.removeAll(keepingCapacity: true)
        value.removeAll(keepingCapacity: true)
        return true
    }

    private mutating func addField() {
        func isSpace(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        let trimmed = value.drop(while: isSpace)
        let end = trimmed.lastIndex { !isSpace($0) }.map { $0 + 1 } ?? trimmed.startIndex
        let letters = UInt8(ascii: "A")...UInt8(ascii: "Z")
        let lowerCased = String(decoding: name.lazy.map { letters.contains($0) ? $0 | 0x20 : $0 }, as: UTF8.self)
        headers.append((name: lowerCased, value: String(decoding: trimmed[..<end], as: UTF8.self)))
    }

    mutating func headEnded(_ parser: UnsafePointer<llhttp_t>) -> Bool {
        (name, value) = ([], [])
        hasHead = true
        method = String(cString: cllhttp_method(parser))
        minorVersion = min(Int(clamping: parser.pointee.http_minor), 1)
        isChunked = cllhttp_is_chunked(parser) != 0
        let isUpgrade = parser.pointee.upgrade != 0
        keepsAlive = cllhttp_keeps_alive(parser) != 0 && !isUpgrade
        if fault != nil { return false }
        do throws(HTTPRequestError) {
            try checkTarget()
            try checkFields()
            let length = parser.pointee.content_length
            if !isChunked, length > UInt64(clamping: limits.body) { throw .bodyTooLarge }
            return true
        } catch {
            return fail(error)
        }
    }

    mutating func chunk(of length: UInt64) -> Bool {
        expectsContinue = false
        return length <= UInt64(clamping: limits.body - body.count) || fail(.bodyTooLarge)
    }

    mutating func data(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard body.count + bytes.count <= limits.body else { return fail(.bodyTooLarge) }
        body += bytes
        // The client did not wait for `100 Continue`.
        expectsContinue = false
        return true
    }

    mutating func ended() -> Bool {
        isComplete = true
        return true
    }

    private mutating func fail(_ fault: HTTPRequestError) -> Bool {
        self.fault = fault
        return false
    }

    // MARK: Checks that the parser does not make

    private mutating func checkTarget() throws(HTTPRequestError) {
        // The loop does not end early, so that the compiler can vectorise it.
        var others: UInt8 = 0
        for byte in target { others |= byte &- 0x21 < 0x5E && byte != UInt8(ascii: "#") ? 0 : 1 }
        guard !target.isEmpty, others == 0 else { throw .malformed }
        guard method != "CONNECT", target[0] != UInt8(ascii: "/"), target[0] != UInt8(ascii: "*") else { return }
        // RFC 9112 §3.2.2: a server accepts the absolute form, too. The parser has checked "scheme://".
        let colon = target.firstIndex(of: UInt8(ascii: ":")) ?? 0
        let authority = target.dropFirst(colon + 3)
        // llhttp accepts an absolute form without a host.
        guard let first = authority.first, first != UInt8(ascii: "/"), first != UInt8(ascii: "?") else {
            throw .malformed
        }
        let afterHost = authority.drop { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
        target = afterHost.first == UInt8(ascii: "/") ? Array(afterHost) : [UInt8(ascii: "/")] + afterHost
    }

    private mutating func checkFields() throws(HTTPRequestError) {
        func values(_ name: String) -> some Sequence<String> { headers.lazy.filter { $0.name == name }.map(\.value) }
        func count(_ name: String) -> Int { headers.count { $0.name == name } }
        // RFC 9112 §3.2: exactly one Host, optional in HTTP/1.0.
        let hosts = count("host")
        guard hosts == 1 || (hosts == 0 && minorVersion == 0) else { throw .malformed }
        let codings = count("transfer-encoding")
        if codings > 0 {
            // RFC 9112 §6.1: two ways to delimit the body are ambiguous, and HTTP/1.0 has no chunked coding.
            guard minorVersion == 1, count("content-length") == 0 else { throw .malformed }
            guard codings == 1, values("transfer-encoding").allSatisfy({ $0.lowercased() == "chunked" }), isChunked
            else { throw .transferCoding }
        }
        // RFC 9110 §10.1.1: a server ignores Expect in HTTP/1.0 requests.
        guard minorVersion == 1 else { return }
        guard values("expect").allSatisfy({ $0.lowercased() == "100-continue" }) else { throw .expectation }
        expectsContinue = count("expect") > 0
    }
}
