// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import TNP

extension EnvelopeFormat: ExpressibleByArgument {}

/// Through which node a notification goes, and how, for all commands that send one.
struct DeliveryOptions: ParsableArguments {
    @Option(help: "The node: its onion address and port.")
    var node: String

    @Option(help: "tor's SOCKS port.")
    var tor: String = "127.0.0.1:9050"

    @Flag(help: "Connect without tor.")
    var direct = false

    @Option(help: "The node's app profile. Default: its first.")
    var app: String = ""

    @Option(help: "Seconds that Apple or Google may keep it for a phone that is off; 0: now or never.")
    var ttl: UInt32 = Envelope.longestTTL

    @Flag(help: "Be content when the node has stored it, where it can: it goes on trying until the ttl is over.")
    var queue = false

    @Option(help: "Seconds to go on trying.")
    var timeout: Int = 120

    @Option(help: "Seconds to compute, at most, where the node asks for proof of work; 0: never.")
    var maxWork: Int = 60

    @Flag(help: "Do not sign: a phone that is bound to a sender key is not rung.")
    var noKey = false

    @Option(
        help: """
            How the phone's app opens notifications: pipe (Bisq 1, Haveno: AES-CBC) or sealed (Bisq Connect: AES-GCM). \
            Default: sealed where the pairing token's key is Base64 of 32 bytes, else pipe.
            """)
    var format: EnvelopeFormat?

    @OptionGroup var onionKey: OnionKeyOption

    func validate() throws {
        guard !direct || onionKey.onionKey == nil else {
            throw ValidationError("--onion-key is for an onion, which --direct does not reach")
        }
        guard maxWork >= 0 else { throw ValidationError("--max-work must not be negative") }
    }
}
