// SPDX-License-Identifier: Apache-2.0

extension EventLoop {
    /// The number of addresses that the system's hosts file and name servers currently give for a host.
    /// - Throws: ``StreamError/unknownHost(_:)``.
    package func addressCount(of host: String, isolation: isolated (any Actor)? = #isolation) async throws(StreamError)
        -> Int
    {
        preconditionOnLoop()
        return try await resolve(host, port: 0).count
    }
}
