// SPDX-License-Identifier: Apache-2.0

import Console
import EventLoop
import Tor

/// Where a node is reached, as it stands on the command line.
enum NodeAddress {
    /// Reads `--node`. An onion address that cannot be one is refused here: tor would look for it for a long time.
    /// - Throws: the exit code, after saying what is wrong.
    static func endpoint(_ text: String, direct: Bool) throws -> Endpoint {
        guard let endpoint = Endpoint(text) else {
            throw fail("--node must be like ADDRESS.onion:7077, not \(text)", ExitStatus.usage)
        }
        guard case .tcp(let host, _) = endpoint, host.lowercased().hasSuffix(".onion") else { return endpoint }
        guard !direct else {
            throw fail(
                "--direct does not reach an onion: leave it out, or name the node's own address", ExitStatus.usage)
        }
        // A subdomain is the service's own business.
        let label = host.dropLast(".onion".count).split(separator: ".").last.map(String.init) ?? ""
        guard OnionAddress(label) != nil else {
            throw fail(
                "\(host) is no onion address: it has \(OnionAddress.labelLength) letters and digits before .onion, the last of "
                    + "which check the others. Copy it again", ExitStatus.usage)
        }
        return endpoint
    }
}
