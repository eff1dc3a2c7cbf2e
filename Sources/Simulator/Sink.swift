// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import HTTP2

/// An HTTP/2 server that answers every complete request with 200: the target of benchmarks.
package actor Sink {
    private nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    private var server: Server?

    private final class Handler: RequestHandler {
        func handle(_ request: ServerRequest, on connection: ServerConnection) {
            connection.respond(to: request.stream, Response(status: 200))
        }
    }

    /// Creates a sink that does not listen yet.
    package init(on loop: EventLoop) { self.loop = loop }

    /// Listens on this port of 127.0.0.1; 0 selects a free port.
    /// - Returns: the address, and the authority that signed the certificate, in PEM form.
    package func start(port: UInt16) throws -> (endpoint: Endpoint, authority: [UInt8]) {
        let authority = CertificateAuthority(name: "Tocsin sink")
        let identity = authority.issue(subject: "sink", purpose: .server(names: ["127.0.0.1", "localhost"]))
        let context = try TLSContext.server(identity: identity, applicationProtocol: "h2")
        let server = try Server(
            on: .tcp(host: "127.0.0.1", port: port), loop: loop, tls: context, handler: Handler())
        self.server = server
        return (server.endpoint ?? .tcp(host: "127.0.0.1", port: port), authority.pem)
    }

    /// Stops the server and closes its connections.
    package func stop() {
        server?.close()
        server = nil
    }
}
