// SPDX-License-Identifier: Apache-2.0

/// Encodes and parses the client side of HTTP CONNECT (RFC 9110 §9.3.6) over HTTP/1.1 (RFC 9112). No I/O.
enum HTTPConnect {
    /// Maximum size of a response head, in bytes.
    static let maxResponseSize = 16 * 1024
    /// Maximum number of lines in a response head, including the status line and the empty line.
    static let maxLines = 100
    /// Maximum number of characters of an error status line that are reported.
    static let maxReasonLength = 100

    private static let version = Array("HTTP/1.".utf8)
    private static let notHTTP = StreamError.proxy("not an HTTP proxy")

    /// The request for a tunnel to a host, whose name the proxy resolves. `nil` unless `host` is 1 to 255 printable
    /// ASCII characters: any other byte could end the line and start another.
    static func request(host: String, port: UInt16) -> [UInt8]? {
        guard (1...255).contains(host.utf8.count), host.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            return nil
        }
        let authority = "\(Endpoint.tcp(host: host, port: port))"
        return Array("CONNECT \(authority) HTTP/1.1\r\nHost: \(authority)\r\n\r\n".utf8)
    }

    /// Checks the status line of a response, without its line end.
    /// - Throws: ``StreamError/proxy(_:)`` with the status and reason in printable ASCII, unless the status is 2xx.
    static func check(statusLine line: [UInt8]) throws(StreamError) {
        // HTTP/1.1 200 Connection established
        // 0      7 9   12
        guard line.count >= 12, line.starts(with: version), isDigit(line[7]), line[8] == UInt8(ascii: " "),
            line[9..<12].allSatisfy(isDigit), line.count == 12 || line[12] == UInt8(ascii: " ")
        else { throw notHTTP }
        guard line[9] == UInt8(ascii: "2") else {
            let refusal = line[9...].filter { (0x20...0x7E).contains($0) }.prefix(maxReasonLength)
            throw .proxy(String(decoding: refusal, as: UTF8.self))
        }
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    /// A proxy's response, parsed byte by byte since the bytes after the empty line belong to the tunnel. Header fields
    /// are only counted: after a 2xx response, even those that describe a body have no meaning (RFC 9110 §9.3.6).
    struct Response {
        private var line: [UInt8] = []
        private var length = 0
        private var lines = 0

        /// Takes the next byte.
        /// - Returns: whether it completed the response: the tunnel is open.
        /// - Throws: ``StreamError/proxy(_:)`` if the proxy refuses or does not speak HTTP/1, if possible before the
        ///   line is complete; ``StreamError/tooLong``.
        mutating func consume(_ byte: UInt8) throws(StreamError) -> Bool {
            length += 1
            guard length <= HTTPConnect.maxResponseSize else { throw .tooLong }
            guard byte == UInt8(ascii: "\n") else {
                line.append(byte)
                let version = HTTPConnect.version
                if lines == 0, line.count <= version.count, !version.starts(with: line) { throw HTTPConnect.notHTTP }
                return false
            }
            lines += 1
            guard lines <= HTTPConnect.maxLines else { throw .tooLong }
            if line.last == UInt8(ascii: "\r") { line.removeLast() }
            defer { line.removeAll(keepingCapacity: true) }
            if lines == 1 {
                try HTTPConnect.check(statusLine: line)
                return false
            }
            return line.isEmpty
        }
    }
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
        var answer = HTTPConnect.Response()
        while true {
            let byte = try await read(exactly: 1)[0]
            if try answer.consume(byte) { return }
        }
    }
}
