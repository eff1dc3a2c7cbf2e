// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// What a phone with Bisq Connect tells its user's own Bisq 2 node, in the place of a pairing token. The public key
/// that it also gives is left out: only where there is no symmetric key is anything sealed for that. Prints as
/// `<redacted>`.
package struct DeviceRegistration: Sendable, Redacted {
    /// Which system the phone runs, in the words of the registration.
    package enum Platform: String, Sendable {
        case iOS = "IOS"
        case android = "ANDROID"
    }

    package let deviceID: String
    package let platform: Platform
    /// The phone's model, for people.
    package let descriptor: String
    /// What Apple or Google know the phone's app by.
    package let deviceToken: String
    /// 44 characters that stand for the 32 bytes of an AES-256 key.
    package let symmetricKeyBase64: String
}
