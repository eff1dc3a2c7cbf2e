// SPDX-License-Identifier: Apache-2.0

import TNP

/// An app that receives notifications.
package enum PhoneApp: String, Sendable, CaseIterable {
    /// The app of Bisq 1.
    case bisq
    /// The app of Haveno: Bisq 1's code with its own magics.
    case haveno
    /// The app of Bisq 2.
    case bisqConnect
    /// A self-built app for the operator's own node: paired like Bisq 1's app, with the key and envelope format of Bisq
    /// Connect.
    case custom

    /// The format of its envelopes.
    package var format: EnvelopeFormat {
        switch self {
        case .bisq, .haveno: .pipe
        case .bisqConnect, .custom: .sealed
        }
    }

    /// The magic before the first `|` of a `pipe` app's envelopes; `nil` for a `sealed` app.
    package func messageMagic(_ magic: Magic) -> String? {
        let system = magic == .android ? "Android" : "iOS"
        return switch self {
        case .bisq: "BisqMessage\(system)"
        case .haveno: "HavenoMessage\(system)"
        case .bisqConnect, .custom: nil
        }
    }

    /// Whether a desktop learns of the phone by a pairing token. Bisq Connect registers with its user's node instead.
    package var usesPairingToken: Bool { self != .bisqConnect }

    /// The APNs topic, which is the bundle id. Haveno has published none.
    package var topic: String {
        switch self {
        case .bisq: "bisqremote.joachimneumann.com"
        case .haveno: "haveno.example"
        case .bisqConnect: "bisq.mobile.client.BisqConnect"
        case .custom: "own.example"
        }
    }

    package var projectID: String {
        switch self {
        case .bisq: "bisqnotifications"
        case .haveno: "havenonotifications"
        // The real app shares Bisq 1's project. Here it differs, so that tests notice a node that confuses projects.
        case .bisqConnect: "bisqconnect"
        case .custom: "example-own"
        }
    }

    /// The name of the project's service account file in the simulator's directory.
    package var serviceAccountFile: String {
        switch self {
        case .bisq: "service-account.json"
        case .haveno: "service-account-haveno.json"
        case .bisqConnect: "service-account-connect.json"
        case .custom: "service-account-own.json"
        }
    }
}
