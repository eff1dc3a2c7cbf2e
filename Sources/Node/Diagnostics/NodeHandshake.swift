// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP

/// Exchanges HELLO and WELCOME with a node to test that it answers.
enum NodeHandshake {
    /// Why there is no WELCOME.
    struct Failure: Error, Equatable, CustomStringConvertible {
        let description: String
    }

    /// Sends HELLO and waits for WELCOME. Must be called on the loop.
    /// - Parameter timeout: the timeout for the connection, and again for the answer.
    /// - Throws: `StreamError`, or ``Failure`` if the server is not a node or answers with GOAWAY.
    static func exchange(
        with endpoint: Endpoint, through proxy: Proxy?, on loop: EventLoop, timeout: Duration,
        isolation: isolated (any Actor)? = #isolation
    ) async throws -> Welcome {
        let stream = try await loop.dial(endpoint, through: proxy, timeout: timeout)
        defer { stream.close() }
        let timer = Timer(on: loop, after: timeout) { stream.fail(.timedOut) }
        defer { timer.stop() }
        let reader = StreamReader(stream, limit: Frame.defaultMaximumLength)
        var hello: [UInt8] = []
        hello.append(Hello())
        stream.write(hello)
        let header = try await reader.read(exactly: 4)
        let length = header.reduce(0) { $0 << 8 | Int($1) }
        guard (1...Frame.defaultMaximumLength).contains(length) else { throw foreign }
        let body = try await reader.read(exactly: length)
        guard let message = try? Message(Frame(type: body[0], payload: body[1...])) else { throw foreign }
        switch message {
        case .welcome(let welcome): return welcome
        case .goAway(let goAway):
            throw Failure(description: "the node answers with GOAWAY \(goAway.code.rawValue): \(goAway.text)")
        default: throw foreign
        }
    }

    private static let foreign = Failure(description: "the server at this address is not a Tocsin node")
}
