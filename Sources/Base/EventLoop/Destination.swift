// SPDX-License-Identifier: Apache-2.0

/// A server, and how to connect to it.
package struct Destination: Sendable {
    /// Host and port, or a unix socket. A certificate must be valid for the host, or for `localhost`.
    package var endpoint: Endpoint
    /// The TLS settings; `nil` for connections without TLS.
    package var tls: TLSContext?
    /// The proxy to connect through; `nil` for direct connections.
    package var proxy: Proxy?
    /// The addresses that may be dialled; ignored with a proxy.
    package var addresses: AddressPolicy
    /// The timeout of the whole dial: name lookup, connecting, proxy and TLS handshake.
    package var timeout: Duration

    package init(
        _ endpoint: Endpoint, tls: TLSContext? = nil, through proxy: Proxy? = nil, addresses: AddressPolicy = .any,
        timeout: Duration = .seconds(10)
    ) {
        self.endpoint = endpoint
        self.tls = tls
        self.proxy = proxy
        self.addresses = addresses
        self.timeout = timeout
    }

    /// The same server with other TLS settings.
    package func with(_ tls: TLSContext?) -> Destination {
        var destination = self
        destination.tls = tls
        return destination
    }
}

extension EventLoop {
    /// Connects to a server, as ``dial(_:through:tls:addresses:timeout:isolation:)`` does.
    /// - Throws: ``StreamError``.
    package func dial(
        _ destination: Destination, isolation: isolated (any Actor)? = #isolation
    ) async throws(StreamError) -> ByteStream {
        try await dial(
            destination.endpoint, through: destination.proxy, tls: destination.tls, addresses: destination.addresses,
            timeout: destination.timeout)
    }

    /// Connects to a server.
    /// - Parameter done: called once, on the loop and after this has returned.
    package func dial(
        _ destination: Destination, _ done: @escaping @Sendable (Result<ByteStream, StreamError>) -> Void
    ) {
        Task(executorPreference: self) {
            let result: Result<ByteStream, StreamError>
            do throws(StreamError) {
                result = .success(try await self.dial(destination))
            } catch {
                result = .failure(error)
            }
            done(result)
        }
    }
}
