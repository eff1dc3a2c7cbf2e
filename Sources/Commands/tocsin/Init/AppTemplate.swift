// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console

/// An app with a known configuration. `tocsin init` and the files in Docs/examples use these templates.
enum AppTemplate: String, CaseIterable, ExpressibleByArgument {
    case bisq1 = "bisq-1"
    case haveno
    case bisqConnect = "bisq-connect"
    /// Any other app, for instance your own build.
    case own

    /// The description in the list from which the operator chooses.
    var summary: String {
        switch self {
        case .bisq1: "the phones of Bisq 1, in place of today's relay"
        case .haveno: "the phones of Haveno, which uses Bisq 1's protocol with its own magics"
        case .bisqConnect: "the phones of Bisq Connect, whose notifications Bisq 2 sends"
        case .own: "the phones of your own app"
        }
    }

    /// The app's name in the node; `nil` if the operator has to choose it.
    var name: String? {
        switch self {
        case .bisq1: "bisq"
        case .haveno: "haveno"
        case .bisqConnect: "bisq-connect"
        case .own: nil
        }
    }

    /// The bundle id of the app in Apple's store; `nil` if none is known.
    var topic: String? {
        switch self {
        case .bisq1: "bisqremote.joachimneumann.com"
        case .bisqConnect: "bisq.mobile.client.BisqConnect"
        case .haveno, .own: nil
        }
    }

    /// The value of `format`, and the comment behind it.
    var format: (value: String, note: String) {
        switch self {
        case .bisq1, .haveno: ("pipe", "the phone receives magic|iv|Base64")
        case .bisqConnect:
            ("sealed", "the phone receives the Base64 of nonce, ciphertext and tag, without a magic")
        case .own:
            ("sealed", "what the phones open; \"pipe\" is magic|iv|Base64, as with Bisq 1")
        }
    }

    /// The comments behind the listening addresses: which senders connect there.
    var endpointNotes: (tnp: String, http: String) {
        switch self {
        case .bisq1:
            (
                "desktops that speak TNP, Tocsin's own protocol",
                "today's desktops, from the onion's ports 80 and 8021"
            )
        case .haveno:
            ("desktops that speak TNP, Tocsin's own protocol", "today's desktops, from the onion's port 80")
        case .bisqConnect:
            ("senders that speak TNP, Tocsin's own protocol", "today's Bisq 2, from the onion's port 8021")
        case .own:
            ("senders that speak TNP, Tocsin's own protocol", "desktops that use today's Bisq 1 or Bisq 2 HTTP API")
        }
    }

    /// The lines of `[app.apns]` after the credential.
    /// - Parameter hasMagic: whether the app's notifications begin with a magic.
    func apnsLines(hasMagic: Bool) -> [String] {
        switch self {
        case .bisq1: bisqAppleLines("Bisq", "the app has no extension to decrypt the notification before it is shown")
        case .haveno: bisqAppleLines("Haveno", "as for Bisq 1: Haveno's app is a fork of Bisq 1's")
        case .bisqConnect:
            [
                TOMLLine.noted(
                    "alert = \"New notification\"", "shown if the app's extension cannot decrypt the notification"),
                "content_available = \"request\"",
                TOMLLine.noted(
                    "mutable_content = \"request\"",
                    "follows isMutableContent: the extension decrypts the notification before it is shown"),
            ]
        case .own:
            (hasMagic
                ? [TOMLLine.noted("message_magic = \"BisqMessageiOS\"", "the magic that the app expects first")] : [])
                + [
                    TOMLLine.noted("alert = \"New notification\"", "shown until the app has decrypted the notification")
                ]
        }
    }

    /// The lines for Bisq 1's app or a fork of it.
    private func bisqAppleLines(_ brand: String, _ note: String) -> [String] {
        [
            "message_magic = \"\(brand)MessageiOS\"", "alert = \"\(brand) notification\"",
            "content_available = \"request\"", TOMLLine.noted("mutable_content = \"never\"", note),
        ]
    }

    /// The lines of `[app.upstream]` after the address.
    var upstreamLines: [String] {
        switch self {
        case .bisq1, .bisqConnect: []
        case .haveno:
            [
                TOMLLine.noted("message_magic_ios = \"HavenoMessageiOS\"", "by which the HTTP endpoint knows the app"),
                "message_magic_android = \"HavenoMessageAndroid\"",
            ]
        case .own:
            [
                TOMLLine.noted("message_magic_ios = \"BisqMessageiOS\"", "by which the HTTP endpoint knows the app"),
                "message_magic_android = \"BisqMessageAndroid\"",
            ]
        }
    }

    /// The lines of `[app.fcm]` after the credential.
    /// - Parameter hasMagic: whether the app's notifications begin with a magic.
    func fcmLines(hasMagic: Bool) -> [String] {
        switch self {
        case .bisq1:
            [
                "message_magic = \"BisqMessageAndroid\"",
                TOMLLine.noted(
                    "data_only = false",
                    "versions of the app before 1.3.4 show nothing without a notification block"),
                "title = \"Bisq\"", "body = \"Notification\"",
            ]
        case .haveno:
            [
                "message_magic = \"HavenoMessageAndroid\"", "data_only = false", "title = \"Haveno\"",
                "body = \"Notification\"",
            ]
        case .bisqConnect:
            [
                TOMLLine.noted(
                    "data_only = true",
                    "the app shows its own; with a notification block, Android would show that instead")
            ]
        case .own:
            (hasMagic
                ? [TOMLLine.noted("message_magic = \"BisqMessageAndroid\"", "the magic that the app expects first")]
                : []) + [
                    TOMLLine.noted("data_only = false", "true if the app shows its own notification"),
                    "title = \"Notification\"", "body = \"New notification\"",
                ]
        }
    }
}

/// Formats lines of TOML.
enum TOMLLine {
    private static let noteColumn = 29

    /// A line followed by a comment.
    static func noted(_ line: String, _ note: String) -> String {
        "\(Terminal.padded(line, noteColumn - 2))  # \(note)"
    }

    /// `key = "value"`, with the value quoted.
    static func string(_ key: String, _ value: String) -> String { "\(key) = \(quoted(value))" }

    /// A basic string, with quotation marks, backslashes and control characters escaped.
    static func quoted(_ text: String) -> String {
        var output = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": output += "\\\(scalar)"
            case "\u{0}"..<"\u{20}", "\u{7F}":
                let digits = String(scalar.value, radix: 16)
                output += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: output.unicodeScalars.append(scalar)
            }
        }
        return output + "\""
    }
}
