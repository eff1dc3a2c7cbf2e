// SPDX-License-Identifier: Apache-2.0

import NodeConfiguration
import Settings

/// The overall health of the node: a grade, a summary and the reasons.
package struct Health: Equatable {
    package enum Grade: String, CaseIterable {
        case good, untried, warning, bad
    }

    /// A credential that expires within this number of seconds is a concern.
    static let expiryNotice: Int64 = 14 * 86_400

    package let grade: Grade
    /// One sentence with the cause. It does not change while the cause lasts.
    package let summary: String
    /// The problems, most severe first.
    let concerns: [Concern]
    /// What the operator should know although it is no problem.
    private let notes: [String]

    package init(_ snapshot: NodeSnapshot) {
        let conditions = RouteConditions(snapshot.routes, at: snapshot.now)
        let (failed, warnings) = (conditions.failed, Self.warnings(snapshot, conditions))
        let untried = conditions.untried
        concerns = snapshot.notReady + warnings
        notes =
            conditions.notes
            + (untried.isEmpty || conditions.isUntried ? [] : ["not tried yet: \(untried.joined(separator: ", "))"])
        if !snapshot.notReady.isEmpty {
            (grade, summary) = (.bad, "The node is not ready: \(Self.titles(snapshot.notReady))")
        } else if !failed.isEmpty {
            let causes = failed.map { Self.expired($0, snapshot) ?? $0.record.shut?.answer ?? "no answer" }
            (grade, summary) = (
                .bad,
                "Nothing is delivered on \(failed.map(\.name).joined(separator: ", ")): \(Set(causes).sorted().joined(separator: ", "))"
            )
        } else if !warnings.isEmpty {
            (grade, summary) = (.warning, "The node is ready, but \(Self.titles(warnings))")
        } else if conditions.isUntried {
            (grade, summary) = (.untried, "The node is ready; nothing was sent yet")
        } else {
            (grade, summary) = (.good, untried.isEmpty ? "Everything works" : "Everything works that was tried")
        }
    }

    /// The text for the log. It does not reveal when the first notification was sent.
    package var notice: String {
        switch grade {
        case .good, .untried: "the node is ready"
        case .warning, .bad: summary
        }
    }

    /// The problems and notes as texts.
    var reasons: [String] { concerns.map(\.text) + notes }

    /// The sections of Docs/operations.md that help, each once.
    var sections: [Concern.Section] {
        concerns.compactMap(\.section).reduce(into: []) { if !$0.contains($1) { $0.append($1) } }
    }

    /// The expired credential because of which a route fails: Apple then answers no request, as if the network were down.
    private static func expired(_ route: NodeSnapshot.RouteState, _ snapshot: NodeSnapshot) -> String? {
        snapshot.credentials.first {
            $0.app == route.app && $0.expires ?? .max <= snapshot.now && route.credential.hasSuffix("/apns")
        }.map { "the \($0.kind) \(Format.expiry($0.expires ?? 0, at: snapshot.now))" }
    }

    /// The title of the first concern, and how many others there are.
    private static func titles(_ concerns: [Concern]) -> String {
        concerns[0].title + (concerns.count > 1 ? ", and \(concerns.count - 1) more" : "")
    }

    private static func warnings(_ snapshot: NodeSnapshot, _ conditions: RouteConditions) -> [Concern] {
        var warnings: [Concern] = []
        // `notReady` already names the apps that no route serves.
        warnings += conditions.causes(except: conditions.unservedApps)
        for route in snapshot.routes where route.isSurge {
            warnings.append(
                Concern(
                    "surge of token refusals on \(route.name)", "check the environment and the topic",
                    see: .tokenRefusalSurge))
        }
        if let tor = snapshot.tor, !tor.isPublished,
            !snapshot.notReady.contains(where: { $0.section == .onionNotPublished })
        {
            warnings.append(Concern("the onion service is not published", see: .onionNotPublished))
        }
        if let cluster = snapshot.cluster { warnings += Self.warnings(of: cluster) }
        if let last = snapshot.canary?.last, !last.isDelivered {
            warnings.append(Concern("the canary could not ring the operator's phone", last.text, see: .canarySilent))
        }
        warnings += snapshot.reload.concerns
        for credential in snapshot.credentials {
            guard let end = credential.expires, end - snapshot.now < expiryNotice else { continue }
            let hasEnded = end <= snapshot.now
            warnings.append(
                Concern(
                    "the \(credential.kind) of \(credential.app) \(hasEnded ? "has expired" : "expires soon")",
                    Format.expiry(end, at: snapshot.now), see: hasEnded ? .credentialEnded : .credentialEndsSoon))
        }
        return warnings
    }

    private static func warnings(of cluster: NodeSnapshot.Cluster) -> [Concern] {
        var warnings: [Concern] = []
        if !cluster.isAvailable {
            warnings.append(
                Concern(
                    "the engine of the cluster cannot be used, and the node works alone", cluster.problem ?? "",
                    see: .engineUnavailable))
        }
        if cluster.isSlow {
            warnings.append(
                Concern(
                    "the engine of the cluster is slow, and the node sometimes decides alone", see: .engineUnavailable))
        }
        for node in cluster.nodes where !node.isAlive {
            warnings.append(
                Concern(
                    "the cluster's node \(node.name) is absent", "for \(Format.span(node.absence))", see: .nodeAbsent))
        }
        return warnings
    }
}
