// SPDX-License-Identifier: Apache-2.0

/// A phone as a push service knows it.
package struct Device: Sendable {
    /// The push service, and for APNs its environment.
    package enum Platform: String, Sendable, Hashable, CaseIterable {
        case apnsProduction = "apns-production"
        case apnsDevelopment = "apns-development"
        case fcm
        case webPush = "web-push"
    }

    /// The state of a device token.
    package enum State: Sendable, Equatable {
        /// The token is valid.
        case registered
        /// The app was removed at this Unix time in milliseconds.
        case unregistered(since: UInt64)
        /// The token expired at this Unix time in milliseconds.
        case expired(since: UInt64)
        /// Every request for the token gets this answer, e.g. one that a sender cannot provoke.
        case answers(status: Int, reason: String, retryAfter: Int?)
    }

    /// The push service that knows the phone.
    package var platform: Platform
    /// The bundle id for APNs, the project id for FCM; empty for Web Push.
    package var app: String
    package var state: State

    package init(platform: Platform, app: String, state: State = .registered) {
        self.platform = platform
        self.app = app
        self.state = state
    }
}

/// The phones that the push services know, and the notifications received for them. Used on the simulator's loop only.
final class DeviceRegistry {
    private var devices: [String: Device] = [:]
    private(set) var received: [ReceivedNotification] = []
    /// Whether notifications are stored, or only passed to the observer.
    var keepsReceived = true
    var observer: (@Sendable (ReceivedNotification) -> Void)?
    var answerObserver: (@Sendable (ReceivedNotification) -> Void)?
    var lostObserver: (@Sendable (ReceivedNotification) -> Void)?
    var refusalObserver: (@Sendable (_ status: Int, _ deviceToken: String) -> Void)?
    private static let maximumKept = 1_000_000

    var tokens: [String] { Array(devices.keys) }

    subscript(token: String) -> Device? {
        get { devices[token] }
        set { devices[token] = newValue }
    }

    func deliver(_ notification: ReceivedNotification) {
        if keepsReceived, received.count < Self.maximumKept { received.append(notification) }
        observer?(notification)
    }

    /// Whether an observer for answers is set.
    var reportsAnswers: Bool { answerObserver != nil || lostObserver != nil }

    /// Reports a notification that the phone has received, and whose answer has been sent whole.
    func reportAnswer(_ notification: ReceivedNotification) { answerObserver?(notification) }

    /// Reports a notification that the phone has received, although the answer may not have reached the node.
    func reportLostAnswer(_ notification: ReceivedNotification) { lostObserver?(notification) }
}
