// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import Tor

/// `--onion-key` and `--tor-control`, for a sender to a closed onion.
struct OnionKeyOption: ParsableArguments {
    @Option(
        help: """
            The file with the key to a closed onion, as its operator made it by tocsin onion authorize. tor is lent the \
            key while the notification is handed over.
            """, completion: .file())
    var onionKey: String?

    @Option(help: "tor's control port, by which it is lent the key; it must let this user in by its cookie.")
    var torControl: String = "unix:/run/tor/control"

    func validate() throws {
        guard Endpoint(torControl)?.isLocal == true else {
            throw ValidationError("--tor-control must be like unix:/run/tor/control or 127.0.0.1:9051")
        }
    }

    /// The loan to make before the node is dialled, and to take back afterwards; nil where no key is named.
    /// - Parameter node: the onion that is to be reached.
    /// - Throws: an exit status, after saying what is wrong with the key.
    func loan(for node: Endpoint, on loop: EventLoop) throws -> TemporaryOnionKey? {
        guard let onionKey, let control = Endpoint(torControl) else { return nil }
        let key: OnionKey
        do throws(OnionFileError) {
            key = try OnionKey(file: onionKey)
        } catch {
            throw fail("\(error)", ExitStatus.configuration)
        }
        guard case .tcp(let host, _) = node, OnionAddress(host) == key.address else {
            throw fail("\(onionKey) is the key to \(key.address), not to \(node)", ExitStatus.usage)
        }
        return TemporaryOnionKey(key, control: control, on: loop)
    }
}
