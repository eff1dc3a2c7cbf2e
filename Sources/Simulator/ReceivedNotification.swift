// SPDX-License-Identifier: Apache-2.0

/// A notification that Apple or Google have taken for a phone.
public struct ReceivedNotification: Sendable {
    /// What the phone's system can show by itself.
    public struct Banner: Sendable, Equatable {
        public let title: String?
        /// The body; or, where it has a `loc-key` instead, that key: iOS shows it as it stands where the app has no
        /// text for it, and none of the simulator's apps has.
        public let text: String

        /// - Parameters: as the properties of the same names.
        public init(title: String? = nil, text: String) {
            self.title = title
            self.text = text
        }
    }

    /// Which service, and which environment of it.
    public let platform: Device.Platform
    public let deviceToken: String
    /// The text under the key `encrypted`; empty where there is none.
    public let encrypted: String
    /// nil for data only.
    public let banner: Banner?
    /// Whether it asks for a sound: of the system where there is a banner, else of the app.
    public let hasSound: Bool
    /// Whether the app is to be woken in the background; Apple's only.
    public let isContentAvailable: Bool
    /// Whether the app's extension may change it before it is shown; Apple's only.
    public let isMutableContent: Bool
    /// Whether it is delivered at once, whatever that costs the phone's battery.
    public let isUrgent: Bool
    /// `apns-id`, or the name of Google's message.
    public let id: String
    public let collapseID: String?

    /// What is shown before the app opens it; nil for data only.
    public var alert: String? { banner?.text }
}
