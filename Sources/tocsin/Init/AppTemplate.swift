// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console

/// An app whose configuration is known: what `tocsin init` and the files in Docs/examples are made of.
enum AppTemplate: String, CaseIterable, ExpressibleByArgument {
    case bisq1 = "bisq-1"
    case haveno
    case bisqConnect = "bisq-connect"
    /// Another one, for instance a copy that somebody has built.
    case own

    /// What it is, for whoever has to choose.
    var about: String {
        switch self {
        case .bisq1: "the phones of Bisq 1, in the place of today's relay"
        case .haveno: "the phones of Haveno, which speaks as Bisq 1 does, under magics of its own"
        case .bisqConnect: "the phones of Bisq Connect, whose notifications Bisq 2 sends"
        case .own: "the phones of an app of your own"
        }
    }

    /// The app's name in the node; nil: whoever runs it has to say.
    var name: String? {
        switch self {
        case .bisq1: "bisq"
        case .haveno: "haveno"
        case .bisqConnect: "bisq-connect"
        case .own: nil
        }
    }

    /// The bundle id of the app in Apple's store; nil where there is none that we know of.
    var topic: String? {
        switch self {
        case .bisq1: "bisqremote.joachimneumann.com"
        case .bisqConnect: "bisq.mobile.client.BisqConnect"
        case .haveno, .own: nil
        }
    }

    /// `format` and why.
    var format: (value: String, note: String) {
        switch self {
        case .bisq1, .haveno: ("pipe", "the phone gets magic|iv|Base64")
        case .bisqConnect:
            ("sealed", "the phone gets the Base64 of nonce, ciphertext and tag, without a magic")
        case .own: ("pipe", "the phone gets magic|iv|Base64, as Bisq 1; as Bisq Connect: \"sealed\"")
        }
    }

    /// Who comes through the endpoints.
    var endpointNotes: (tnp: String, http: String) {
        switch self {
        case .bisq1:
            (
                "desktops that speak Tocsin's own protocol",
                "the desktops of today; the onion's ports 80 and 8021 lead here"
            )
        case .haveno:
            ("desktops that speak Tocsin's own protocol", "the desktops of today; the onion's port 80 leads here")
        case .bisqConnect:
            ("senders that speak Tocsin's own protocol", "Bisq 2 of today; the onion's port 8021 leads here")
        case .own:
            ("senders that speak Tocsin's own protocol", "desktops that speak as today's Bisq 1 and Bisq 2 do")
        }
    }

    /// The lines of `[app.apns]` after the credential.
    var appleLines: [String] {
        switch self {
        case .bisq1:
            [
                "message_magic = \"BisqMessageiOS\"", "alert = \"Bisq notification\"",
                "content_available = \"request\"",
                TOMLLine.noted(
                    "mutable_content = \"never\"",
                    "the app has no extension that could open the notification before it is shown"),
            ]
        case .haveno:
            [
                "message_magic = \"HavenoMessageiOS\"", "alert = \"Haveno notification\"",
                "content_available = \"request\"",
                TOMLLine.noted(
                    "mutable_content = \"never\"", "as in the app of Bisq 1, of which Haveno's code is a copy"),
            ]
        case .bisqConnect:
            [
                TOMLLine.noted(
                    "alert = \"New notification\"", "shown where the app's extension cannot open the notification"),
                "content_available = \"request\"",
                TOMLLine.noted(
                    "mutable_content = \"request\"",
                    "as isMutableContent says: the extension opens the notification before it is shown"),
            ]
        case .own:
            [
                TOMLLine.noted("message_magic = \"BisqMessageiOS\"", "what the app reads before the first |"),
                TOMLLine.noted("alert = \"New notification\"", "shown before the app has opened the notification"),
            ]
        }
    }

    /// The lines of `[app.fcm]` after the credential.
    var googleLines: [String] {
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
                    "the app shows its own; with a notification block Android would show that instead")
            ]
        case .own:
            [
                TOMLLine.noted("message_magic = \"BisqMessageAndroid\"", "what the app reads before the first |"),
                TOMLLine.noted("data_only = false", "true where the app shows a notification of its own"),
                "title = \"Notification\"", "body = \"New notification\"",
            ]
        }
    }
}

/// Lines of TOML.
enum TOMLLine {
    private static let noteColumn = 29

    /// A line with a comment behind it.
    static func noted(_ line: String, _ note: String) -> String {
        "\(Terminal.padded(line, noteColumn - 2))  # \(note)"
    }

    /// `key = "value"`
    static func string(_ key: String, _ value: String) -> String { "\(key) = \(quoted(value))" }

    /// A basic string: what would end it or is no text is escaped.
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
