// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// The registration that a phone with Bisq Connect sends to its user's own Bisq 2 node, instead of a pairing token. The
/// public key of the real registration is left out: nodes use it only if there is no symmetric key. Prints as
/// `<redacted>`.
package struct DeviceRegistration: Sendable, Redacted {
    /// The phone's operating system, with the values used in registrations.
    package enum Platform: String, Sendable {
        case iOS = "IOS"
        case android = "ANDROID"
    }

    /// 32 hexadecimal digits that identify the phone.
    package let deviceID: String
    package let platform: Platform
    /// The phone's model, for display.
    package let descriptor: String
    /// The device token at APNs or FCM.
    package let deviceToken: String
    /// The AES-256 key: 32 bytes as 44 characters of Base64.
    package let symmetricKeyBase64: String
}
