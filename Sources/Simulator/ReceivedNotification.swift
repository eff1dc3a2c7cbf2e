// SPDX-License-Identifier: Apache-2.0

/// A notification that Apple or Google have taken for a phone.
package struct ReceivedNotification: Sendable {
    /// What the phone's system can show by itself.
    package struct Banner: Sendable, Equatable {
        package let title: String?
        /// The body; or, where it has a `loc-key` instead, that key: iOS shows it as it stands where the app has no
        /// text for it, and none of the simulator's apps has.
        package let text: String

        /// - Parameters: as the properties of the same names.
        package init(title: String? = nil, text: String) {
            self.title = title
            self.text = text
        }
    }

    /// Which service, and which environment of it.
    package let platform: Device.Platform
    package let deviceToken: String
    /// The text under the key `encrypted`; empty where there is none.
    package let encrypted: String
    /// nil for data only.
    package let banner: Banner?
    /// Whether it asks for a sound: of the system where there is a banner, else of the app.
    package let hasSound: Bool
    /// Whether the app is to be woken in the background; Apple's only.
    package let isContentAvailable: Bool
    /// Whether the app's extension may change it before it is shown; Apple's only.
    package let isMutableContent: Bool
    /// Whether it is delivered at once, whatever that costs the phone's battery.
    package let isUrgent: Bool
    /// `apns-id`, or the name of Google's message.
    package let id: String
    package let collapseID: String?

    /// What is shown before the app opens it; nil for data only.
    package var alert: String? { banner?.text }
}
