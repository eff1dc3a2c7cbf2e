// SPDX-License-Identifier: Apache-2.0

import Console
import Cryptography
import EventLoop
import TocsinClient

/// Parses the address of a node on the command line.
enum NodeAddress {
    /// Parses `--node`. Rejects an invalid onion address at once: tor would search for it for a long time.
    /// - Throws: the exit code, after printing the error.
    static func endpoint(_ text: String, direct: Bool) throws -> Endpoint {
        guard let endpoint = Endpoint(text) else {
            throw fail("--node must be like ADDRESS.onion:7077, not \(text)", .usage)
        }
        guard case .tcp(let host, _) = endpoint, host.lowercased().hasSuffix(".onion") else { return endpoint }
        guard !direct else {
            throw fail("--direct cannot reach an onion: omit it, or give the node's own address", .usage)
        }
        guard OnionAddress(host: host) != nil else { throw fail("\(ClientError.invalidOnion(endpoint))", .usage) }
        return endpoint
    }
}
