// SPDX-License-Identifier: Apache-2.0

/// A notification that a push service has accepted for a phone.
package struct ReceivedNotification: Sendable {
    /// The alert that the phone's system can show without the app.
    package struct Banner: Sendable, Equatable {
        package let title: String?
        /// The body, or the `loc-key` in its place: iOS shows the key itself if the app has no text for it, and none of
        /// the simulated apps has.
        package let text: String

        package init(title: String? = nil, text: String) {
            self.title = title
            self.text = text
        }
    }

    /// The push service, and for APNs its environment.
    package let platform: Device.Platform
    /// The device token that it was sent to.
    package let deviceToken: String
    /// The text of the field `encrypted`, or the body of Web Push in Base64; empty if there is none.
    package let encrypted: String
    /// The banner; `nil` for a data message.
    package let banner: Banner?
    /// Whether it requests a sound: from the system if there is a banner, else from the app.
    package let hasSound: Bool
    /// Whether it wakes the app in the background; APNs only.
    package let isContentAvailable: Bool
    /// Whether the app's extension may change it before it is shown; APNs only.
    package let isMutableContent: Bool
    /// Whether it is delivered immediately, regardless of the phone's battery.
    package let isUrgent: Bool
    /// The `apns-id`, the name of the FCM message, or the number of the Web Push message.
    package let id: String
    package let collapseID: String?
    /// The stream of the request on its connection.
    package var stream: Int32 = 0

    /// The text shown before the app opens the envelope; `nil` for a data message.
    package var alert: String? { banner?.text }
}
