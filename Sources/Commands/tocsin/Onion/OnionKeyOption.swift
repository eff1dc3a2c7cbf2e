// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import EventLoop
import Tor

/// The options `--onion-key` and `--tor-control`, for sending to a closed onion.
struct OnionKeyOption: ParsableArguments {
    @Option(
        help: """
            The file with the key to a closed onion, as created by its operator with tocsin onion authorize. tor has \
            the key only while the notification is sent.
            """, completion: .file())
    var onionKey: String?

    @Option(help: "tor's control port, for --onion-key; it must accept this user's cookie authentication.")
    var torControl: String = "unix:/run/tor/control"

    func validate() throws {
        guard Endpoint(torControl)?.isLocal == true else {
            throw ValidationError("--tor-control must be like unix:/run/tor/control or 127.0.0.1:9051")
        }
    }

    /// The key that tor needs to reach the node; `nil` if the option is not given.
    /// - Parameter nodes: the nodes to reach; the key must be for one of them.
    /// - Throws: the exit code, after printing what is wrong with the key.
    func temporaryKey(for nodes: [Endpoint], on loop: EventLoop) throws -> TemporaryOnionKey? {
        guard let onionKey, let control = Endpoint(torControl) else { return nil }
        let key = try failing(with: .configuration) { try OnionKey(file: onionKey) }
        let isForNode = nodes.contains { node in
            if case .tcp(let host, _) = node { OnionAddress(host) == key.address } else { false }
        }
        guard isForNode else { throw fail("\(onionKey) is the key to \(key.address), not to \(nodes[0])", .usage) }
        return TemporaryOnionKey(key, control: control, on: loop)
    }
}
