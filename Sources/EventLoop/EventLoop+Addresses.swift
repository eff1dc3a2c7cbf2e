// SPDX-License-Identifier: Apache-2.0

extension EventLoop {
    /// How many addresses a host has now, by the system's hosts file and name servers.
    /// - Throws: ``StreamError/unknownHost(_:)``.
    package func addressCount(of host: String, isolation: isolated (any Actor)? = #isolation) async throws(StreamError)
        -> Int
    {
        preconditionOnLoop()
        return try await resolve(host, port: 0).count
    }
}
