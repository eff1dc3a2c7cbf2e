// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import TNP

extension EnvelopeFormat: ExpressibleByArgument {}

/// The options of all commands that send a notification: through which node, and how.
struct DeliveryOptions: ParsableArguments {
    @Option(
        name: .customLong("node"),
        help: "The node's onion address and port. Repeat it for further nodes; the first one is preferred.")
    var nodes: [String]

    @Option(help: "tor's SOCKS port.")
    var tor: String = "127.0.0.1:9050"

    @Flag(help: "Connect without tor.")
    var direct = false

    @Option(help: "The name of an app of the node. Default: its first app.")
    var app: String = ""

    @Option(
        help: """
            Seconds that Apple or Google may store the notification for a phone that is offline; 0: deliver now or \
            never.
            """)
    var ttl: UInt32 = Envelope.maximumTTL

    @Flag(
        help: """
            Exit as soon as the node has stored the notification, if the node can do that: it then retries until --ttl \
            expires.
            """)
    var queue = false

    @Option(help: "Seconds until the command gives up.")
    var timeout: Int = 120

    @Option(help: "Maximum seconds of computing if the node requires proof of work; 0: none.")
    var maxWork: Int = 60

    @Flag(help: "Do not sign. The node rejects unsigned notifications to a phone that is bound to a sender key.")
    var noKey = false

    @Option(
        help: """
            The format that the phone's app decrypts: pipe (Bisq 1, Haveno: AES-CBC) or sealed (Bisq Connect: \
            AES-GCM). Default: sealed if the key in the pairing token is Base64 of 32 bytes, else pipe.
            """)
    var format: EnvelopeFormat?

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
