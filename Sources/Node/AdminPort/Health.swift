// SPDX-License-Identifier: Apache-2.0

import NodeConfiguration
import Settings

/// The overall health of the node: a grade, a summary and the reasons.
struct Health: Equatable {
    enum Grade: String, CaseIterable {
        case good, untried, warning, bad
    }

    /// A credential that expires within this number of seconds is a concern.
    static let expiryNotice: Int64 = 14 * 86_400

    let grade: Grade
    let summary: String
    /// The problems, most severe first.
    let reasons: [String]

    init(_ snapshot: NodeSnapshot) {
        let conditions = RouteConditions(snapshot.routes, at: snapshot.now)
        let (failed, concerns) = (conditions.failed, Self.concerns(snapshot, conditions))
        let untried = conditions.untried
        let notes = untried.isEmpty || conditions.isUntried ? [] : ["not tried yet: \(untried.joined(separator: ", "))"]
        reasons = snapshot.notReady + concerns + notes
        if !snapshot.notReady.isEmpty {
            (grade, summary) = (.bad, "The node is not ready")
        } else if !failed.isEmpty {
            let answers = Set(failed.compactMap(\.record.shut?.answer)).sorted().joined(separator: ", ")
            (grade, summary) = (
                .bad, "Nothing is delivered on \(failed.map(\.name).joined(separator: ", ")): \(answers)"
            )
        } else if !concerns.isEmpty {
            let hasDelivered = snapshot.hour.contains { $0.delivered > 0 }
            (grade, summary) = (
                .warning,
                hasDelivered ? "The node delivers notifications, with warnings" : "The node is ready, with warnings"
            )
        } else if conditions.isUntried {
            (grade, summary) = (.untried, "The node is ready; nothing was sent yet")
        } else {
            (grade, summary) = (.good, untried.isEmpty ? "Everything works" : "Everything works that was tried")
        }
    }

    private static func concerns(_ snapshot: NodeSnapshot, _ conditions: RouteConditions) -> [String] {
        var concerns: [String] = []
        // Why the node is not ready says the same already.
        if snapshot.notReady.isEmpty { concerns += conditions.causes }
        for route in snapshot.routes where route.isSurge {
            concerns.append("surge of token refusals on \(route.name): check the environment and the topic")
        }
        if let tor = snapshot.tor, !tor.isPublished {
            concerns.append("the onion service is not published")
        }
        if let cluster = snapshot.cluster {
            if !cluster.isAvailable {
                concerns.append(
                    "the engine of the cluster cannot be used, and the node works alone: \(cluster.problem ?? "")")
            }
            if cluster.isSlow {
                concerns.append("the engine of the cluster is slow, and the node sometimes decides alone")
            }
            for node in cluster.nodes where !node.isAlive {
                concerns.append("the cluster's node \(node.name) has been absent for \(Format.span(node.absence))")
            }
        }
        if let last = snapshot.canary?.last, !last.isDelivered {
            concerns.append("the canary could not ring the operator's phone: \(last.text)")
        }
        for credential in snapshot.credentials {
            guard let end = credential.expires, end - snapshot.now < expiryNotice else { continue }
            concerns.append("\(credential.app): \(credential.kind) \(Format.expiry(end, at: snapshot.now))")
        }
        return concerns
    }
}
