// SPDX-License-Identifier: Apache-2.0

import TNP

/// An app that gets notifications.
package enum PhoneApp: String, Sendable, CaseIterable {
    /// The app of Bisq 1.
    case bisq
    /// The app of Haveno, which has Bisq 1's code and words of its own.
    case haveno
    /// The app of Bisq 2.
    case bisqConnect
    /// An app that somebody has built for their own node: paired as Bisq 1's are, its key and envelopes those of Bisq
    /// Connect.
    case own

    /// How its envelopes are sealed.
    package var format: EnvelopeFormat {
        switch self {
        case .bisq, .haveno: .pipe
        case .bisqConnect, .own: .sealed
        }
    }

    /// What stands before the first `|` of a `pipe` app's envelopes; nil for `sealed` ones.
    package func messageMagic(_ magic: Magic) -> String? {
        let system = magic == .android ? "Android" : "iOS"
        return switch self {
        case .bisq: "BisqMessage\(system)"
        case .haveno: "HavenoMessage\(system)"
        case .bisqConnect, .own: nil
        }
    }

    /// Whether a desktop learns of its phones by a pairing token. Bisq Connect registers with its user's node instead.
    package var pairs: Bool { self != .bisqConnect }

    /// Its bundle id at Apple. Haveno has published none.
    package var topic: String {
        switch self {
        case .bisq: "bisqremote.joachimneumann.com"
        case .haveno: "haveno.example"
        case .bisqConnect: "bisq.mobile.client.BisqConnect"
        case .own: "own.example"
        }
    }

    /// Its project at Google.
    package var projectID: String {
        switch self {
        case .bisq: "bisqnotifications"
        case .haveno: "havenonotifications"
        // In truth one with Bisq 1's; here another, so that a node that mixes projects up is found out.
        case .bisqConnect: "bisqconnect"
        case .own: "example-own"
        }
    }

    /// The file in the stand-ins' directory by which a node comes to the project.
    package var serviceAccountFile: String {
        switch self {
        case .bisq: "service-account.json"
        case .haveno: "service-account-haveno.json"
        case .bisqConnect: "service-account-connect.json"
        case .own: "service-account-own.json"
        }
    }
}
