// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

/// The options of all commands that connect to a node as a sender: which node, and how.
struct ConnectionOptions: ParsableArguments {
    @Option(
        name: .customLong("node"),
        help: "The node's onion address and port. Repeat it for further nodes; the first one is preferred.")
    var nodes: [String]

    @Option(help: "tor's SOCKS port.")
    var tor: String = "127.0.0.1:9050"

    @Flag(help: "Connect without tor.")
    var direct = false

    @Option(help: "Seconds until the command gives up.")
    var timeout: Int = 120

    @Option(help: "Maximum seconds of computing if the node requires proof of work; 0: none.")
    var maxWork: Int = 60

    @Option(
        help: """
            The file with a site's key, as created by tocsin site key: the node then applies the rate of this site, \
            and requires no proof of work.
            """, completion: .file())
    var siteKey: String?

    @OptionGroup var onionKey: OnionKeyOption

    func validate() throws {
        guard !nodes.isEmpty else { throw ValidationError("--node is required") }
        guard !direct || onionKey.onionKey == nil else {
            throw ValidationError("--onion-key requires an onion, which --direct cannot reach")
        }
        guard maxWork >= 0 else { throw ValidationError("--max-work must not be negative") }
    }
}
