// SPDX-License-Identifier: Apache-2.0

import EventLoop

@testable import HTTP1
@testable import Time

/// A printable copy of a request: the production type prints as redacted.
struct Seen: Equatable, Sendable, CustomStringConvertible {
    var method: String
    var target: String
    var minorVersion: Int
    var headers: [String]
    var body: String

    init(
        _ method: String, _ target: String, _ minorVersion: Int = 1, headers: [String] = ["host: h"], body: String = ""
    ) {
        self.method = method
        self.target = target
        self.minorVersion = minorVersion
        self.headers = headers
        self.body = body
    }

    init(_ request: HTTPRequest) {
        self.init(
            request.method, String(decoding: request.target, as: UTF8.self), request.minorVersion,
            headers: request.headers.map { "\($0.name): \($0.value)" },
            body: String(decoding: request.body, as: UTF8.self))
    }

    var description: String { "\(method) \(target) 1.\(minorVersion) \(headers) [\(body)]" }
}

extension MonotonicTime {
    static func seconds(_ seconds: Double) -> Self { MonotonicTime(nanoseconds: UInt64((1000 + seconds) * 1e9)) }
}

/// Drives a session and records its requests, output and errors.
struct Client {
    var session: HTTPSession
    var seen: [Seen] = []
    var output = ""
    var fault: HTTPRequestError?
    var isClosed = false
    /// The response sent to each request as soon as it is handed out; `nil` leaves the request unanswered.
    var answer: HTTPResponse? = HTTPResponse(status: 200, body: Array("ok".utf8))
    var now = MonotonicTime.seconds(0)

    init(_ limits: HTTPLimits = HTTPLimits()) { session = HTTPSession(limits: limits, now: .seconds(0)) }

    /// Creates a client and sends `text` in pieces of this size.
    init(_ limits: HTTPLimits = HTTPLimits(), sending text: String, inPiecesOf size: Int = .max) {
        self.init(limits)
        send(text, inPiecesOf: size)
    }

    mutating func send(_ text: String, inPiecesOf size: Int = .max) { send(Array(text.utf8), inPiecesOf: size) }

    mutating func send(_ bytes: [UInt8], inPiecesOf size: Int = .max) {
        var start = 0
        while start < bytes.count {
            let end = start + min(size, bytes.count - start)
            var effects = HTTPSession.Effects()
            session.received(Array(bytes[start..<end]).span.bytes, now: now, &effects)
            take(effects)
            start = end
        }
    }

    mutating func respond(_ response: HTTPResponse) {
        var effects = HTTPSession.Effects()
        session.respond(response, now: now, &effects)
        take(effects)
    }

    mutating func stream(_ head: HTTPResponse) {
        var effects = HTTPSession.Effects()
        session.stream(head, &effects)
        take(effects)
    }

    mutating func piece(_ text: String, unsent: Int = 0) {
        var effects = HTTPSession.Effects()
        session.send(Array(text.utf8), unsent: unsent, &effects)
        take(effects)
    }

    mutating func drain() {
        var effects = HTTPSession.Effects()
        session.drain(&effects)
        take(effects)
    }

    mutating func timeReached(_ seconds: Double) {
        now = .seconds(seconds)
        var effects = HTTPSession.Effects()
        session.timeReached(now, &effects)
        take(effects)
    }

    private mutating func take(_ effects: HTTPSession.Effects) {
        output += String(decoding: effects.output, as: UTF8.self)
        if let fault = effects.fault { self.fault = fault }
        if effects.closes { isClosed = true }
        precondition(effects.requests.count <= 1, "one request at a time")
        precondition(effects.requests.isEmpty || session.isAnswering, "a handed-out request awaits no response")
        precondition(effects.fault == nil || (effects.closes && effects.requests.isEmpty), "an error must close")
        seen += effects.requests.map(Seen.init)
        if !effects.requests.isEmpty, let answer { respond(answer) }
    }
}
