// SPDX-License-Identifier: Apache-2.0

/// A phone as Apple or Google know it.
package struct Device: Sendable {
    /// Whose notifications it gets.
    package enum Platform: String, Sendable, Hashable {
        case apnsProduction, apnsDevelopment, fcm
    }

    /// What has become of its token.
    package enum State: Sendable, Equatable {
        case registered
        /// The app was removed at this Unix time in milliseconds.
        case unregistered(since: UInt64)
        /// The token ended at this Unix time in milliseconds.
        case expired(since: UInt64)
        /// Whatever comes for it is answered so: for answers that nothing a sender does can provoke.
        case answers(status: Int, reason: String, retryAfter: Int?)
    }

    package var platform: Platform
    /// Bundle id for Apple, project id for Google.
    package var app: String
    package var state: State

    /// - Parameters: as the properties of the same names.
    package init(platform: Platform, app: String, state: State = .registered) {
        self.platform = platform
        self.app = app
        self.state = state
    }
}

/// The phones that Apple and Google know, and what has come for them; on the simulator's loop.
final class DeviceRegistry {
    private var devices: [String: Device] = [:]
    private(set) var received: [ReceivedNotification] = []
    /// Whether what comes is kept, or only told.
    var keepsReceived = true
    var observer: (@Sendable (ReceivedNotification) -> Void)?
    var lostObserver: (@Sendable (ReceivedNotification) -> Void)?
    private static let mostKept = 1_000_000

    var tokens: [String] { Array(devices.keys) }

    subscript(token: String) -> Device? {
        get { devices[token] }
        set { devices[token] = newValue }
    }

    func deliver(_ notification: ReceivedNotification) {
        if keepsReceived, received.count < Self.mostKept { received.append(notification) }
        observer?(notification)
    }

    /// Whether anyone wants to know of lost answers.
    var reportsLoss: Bool { lostObserver != nil }

    /// The phone has got it, and whoever sent it may never know.
    func lose(_ notification: ReceivedNotification) { lostObserver?(notification) }

    func forgetReceived() { received.removeAll() }
}
