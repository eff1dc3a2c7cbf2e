// SPDX-License-Identifier: Apache-2.0

import StandIns
import Synchronization

/// Counts deliveries. The requests that a push service received beyond these are its rejections.
final class PushCounter: Sendable {
    private let delivered = Mutex<[Device.Platform: Int]>([:])

    /// Counts a notification that a phone received.
    func delivered(_ notification: ReceivedNotification) {
        delivered.withLock { $0[notification.platform, default: 0] += 1 }
    }

    /// The rejections of the push services since they started.
    func refusals(by services: SimulatedServices) async -> Refusals {
        var requests: [Device.Platform: Int] = [:]
        for platform in Device.Platform.allCases {
            requests[platform] = await services.requests(platform)
        }
        requests[.fcm]? -= await services.accessTokensIssued
        let delivered = delivered.withLock { $0 }
        func refused(_ platform: Device.Platform) -> Int { (requests[platform] ?? 0) - (delivered[platform] ?? 0) }
        return Refusals(
            production: refused(.apnsProduction), development: refused(.apnsDevelopment), google: refused(.fcm),
            webPush: refused(.webPush))
    }
}

/// Notifications that the push services rejected, by service.
struct Refusals: Equatable {
    var production = 0
    var development = 0
    var google = 0
    var webPush = 0

    /// How many bad device tokens the node forwarded. Excludes rejections by Apple's development environment. Hostile
    /// circuits send no development tokens: there, the node tried production tokens a second time, which ``production``
    /// already counts.
    var badTokens: Int { production + google + webPush }

    static func - (one: Self, other: Self) -> Self {
        Self(
            production: one.production - other.production, development: one.development - other.development,
            google: one.google - other.google, webPush: one.webPush - other.webPush)
    }
}
