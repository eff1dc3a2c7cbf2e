// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import TNP
import TocsinClient

extension EnvelopeFormat: ExpressibleByArgument {}
extension TextSchema: ExpressibleByArgument {}

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
        help: ArgumentHelp(
            """
            A file with the pairing token that this phone had before it was paired anew with the same device token. The \
            node then accepts the new pairing's sender key in place of the old one's.
            """, valueName: "file"))
    var oldPairing: String?

    @Option(
        help: """
            The format that the phone's app decrypts: pipe (Bisq 1, Haveno: AES-CBC) or sealed (Bisq Connect: \
            AES-GCM). Default: sealed if the key in the pairing token is Base64 of 32 bytes, else pipe.
            """)
    var format: EnvelopeFormat?

    @Option(
        help: """
            Which fields the notification's text has: bisq (what Bisq's and Haveno's apps read) or tocsin (what an app of \
            your own reads).
            """)
    var schema: TextSchema = .bisq

    func validate() throws {
        if noKey, oldPairing != nil { throw ValidationError("--old-pairing needs a signature: omit --no-key") }
    }

    /// The sender key of the earlier pairing with the same phone; `nil` if none is given.
    /// - Throws: the exit code, after printing the error.
    func earlierKey(of pairing: PairingToken) throws -> Ed25519.PrivateKey? {
        guard let oldPairing else { return nil }
        let earlier = try PairingArgument.parse(TextArgument.text("@" + oldPairing))
        guard pairing.isForSamePhone(as: earlier) else {
            throw fail("\(oldPairing) is a pairing with another device token", .usage)
        }
        return Ed25519.PrivateKey(ofSenderFor: earlier)
    }
}
