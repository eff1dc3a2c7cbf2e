// SPDX-License-Identifier: Apache-2.0

/// Encodes and parses the client side of HTTP CONNECT (RFC 9110 §9.3.6) over HTTP/1.1 (RFC 9112). No I/O.
enum HTTPConnect {
    /// Maximum size of a response head, in bytes.
    static let maximumResponseSize = 16 * 1024
    /// Maximum number of lines in a response head, including the status line and the empty line.
    static let maximumLines = 100
    /// Maximum number of characters of an error status line that are reported.
    static let maximumReasonLength = 100

    /// What a response begins with, up to the minor version.
    static let version = Array("HTTP/1.".utf8)
    static let notHTTP = StreamError.proxy("not an HTTP proxy")

    /// The request for a tunnel to a host, whose name the proxy resolves. `nil` unless `host` is 1 to 255 printable
    /// ASCII characters: any other byte could end the line and start another.
    static func request(host: String, port: UInt16) -> [UInt8]? {
        guard (1...255).contains(host.utf8.count), host.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            return nil
        }
        let authority = "\(Endpoint.tcp(host: host, port: port))"
        return Array("CONNECT \(authority) HTTP/1.1\r\nHost: \(authority)\r\n\r\n".utf8)
    }

    /// Checks the status line of a response, from the minor version on.
    /// - Throws: ``StreamError/proxy(_:)`` with the status and reason in printable ASCII, unless the status is 2xx.
    static func check(statusLine text: String) throws(StreamError) {
        // 1 200 Connection established
        // 0 2  5
        let line = Array(text.utf8)
        guard line.count >= 5, isDigit(line[0]), line[1] == UInt8(ascii: " "), line[2..<5].allSatisfy(isDigit),
            line.count == 5 || line[5] == UInt8(ascii: " ")
        else { throw notHTTP }
        guard line[2] == UInt8(ascii: "2") else {
            let refusal = line[2...].filter { (0x20...0x7E).contains($0) }.prefix(maximumReasonLength)
            throw .proxy(String(decoding: refusal, as: UTF8.self))
        }
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
}

extension StreamReader {
    /// Asks the HTTP proxy at the other end for a tunnel to `host`.
    /// - Throws: ``StreamError``: the proxy's error status, or why the stream ended.
    func negotiateHTTPConnect(
        host: String, port: UInt16, isolation: isolated (any Actor)? = #isolation
    ) async throws(StreamError) {
        guard let request = HTTPConnect.request(host: host, port: port) else {
            throw .proxy("the host name is not 1 to 255 printable ASCII characters")
        }
        stream.write(request)
        // Byte by byte, so that a server that speaks another protocol is noticed at its first bytes.
        for byte in HTTPConnect.version {
            guard try await read(exactly: 1)[0] == byte else { throw HTTPConnect.notHTTP }
        }
        var room = HTTPConnect.maximumResponseSize - HTTPConnect.version.count
        for number in 1...HTTPConnect.maximumLines {
            let line = try await readLine(atMost: room)
            room = max(0, room - line.utf8.count - 1)
            // Header fields are only counted: after a 2xx response, even those that describe a body have no meaning
            // (RFC 9110 §9.3.6).
            if number == 1 { try HTTPConnect.check(statusLine: line) } else if line.isEmpty { return }
        }
        throw .tooLong
    }
}
