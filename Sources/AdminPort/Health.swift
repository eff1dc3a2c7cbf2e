// SPDX-License-Identifier: Apache-2.0

import NodeConfiguration

/// What there is to say of the node in one sentence.
struct Health: Equatable {
    enum Grade: String, CaseIterable {
        case good, warning, bad
    }

    /// A credential that ends within so many seconds is named.
    static let expiryNotice: Int64 = 14 * 86_400

    let grade: Grade
    let sentence: String
    /// What is wrong, worst first.
    let reasons: [String]

    init(_ snapshot: NodeSnapshot) {
        let concerns = Self.concerns(snapshot)
        reasons = snapshot.notReady + concerns
        if !snapshot.notReady.isEmpty {
            (grade, sentence) = (.bad, "The node is not ready")
        } else if !concerns.isEmpty {
            let hasDelivered = snapshot.hour.contains { $0.delivered > 0 }
            (grade, sentence) = (
                .warning, hasDelivered ? "Notifications are delivered, but not all is well" : "Not all is well"
            )
        } else {
            (grade, sentence) = (.good, "Everything works")
        }
    }

    private static func concerns(_ snapshot: NodeSnapshot) -> [String] {
        var concerns: [String] = []
        for route in snapshot.routes where route.breaker != "closed" {
            concerns.append("\(route.name): \(Format.breaker(route.breaker))")
        }
        for route in snapshot.routes where route.isSurge {
            concerns.append("\(route.name): most device tokens are refused; is its environment or topic wrong?")
        }
        if let tor = snapshot.tor, !tor.isPublished {
            concerns.append("the onion service cannot be found under its address")
        }
        for credential in snapshot.credentials {
            guard let end = credential.expires, end - snapshot.now < expiryNotice else { continue }
            concerns.append("\(credential.app): \(credential.kind) \(Format.end(end, at: snapshot.now))")
        }
        return concerns
    }
}
