// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import TNP

extension EnvelopeFormat: ExpressibleByArgument {}

/// The options of all commands that send a notification: through which node, and how.
struct DeliveryOptions: ParsableArguments {
    @OptionGroup var connection: ConnectionOptions

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

    @Flag(help: "Do not sign. The node rejects unsigned notifications to a phone that is bound to a sender key.")
    var noKey = false

    @Option(
        help: """
            The format that the phone's app decrypts: pipe (Bisq 1, Haveno: AES-CBC) or sealed (Bisq Connect: \
            AES-GCM). Default: sealed if the key in the pairing token is Base64 of 32 bytes, else pipe.
            """)
    var format: EnvelopeFormat?
}
