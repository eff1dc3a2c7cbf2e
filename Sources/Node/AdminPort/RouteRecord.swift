// SPDX-License-Identifier: Apache-2.0

import Settings

/// The last answers, deliveries and probe of a route. Times are Unix times in seconds.
package struct RouteRecord: Sendable, Equatable {
    /// Since when and after which answer a route is shut: its circuit breaker lets only probes through.
    package struct Shut: Sendable, Equatable {
        package let since: Int64
        /// The answer that opened the breaker, or that the last probe got.
        package fileprivate(set) var answer: String
    }

    /// The answer to a probe, which rings no phone.
    package struct Probe: Sendable, Equatable {
        package let time: Int64
        package let verdict: Verdict
        package let answer: String

        package enum Verdict: String, Sendable {
            /// The push service answered as it does if the credential is right.
            case good
            /// The push service did not answer, or not about the credential, for the first time.
            case unclear
            /// The push service refused the credential, or did not answer two probes in a row.
            case bad
        }

        package init(time: Int64, verdict: Verdict, answer: String) {
            self.time = time
            self.verdict = verdict
            self.answer = answer
        }
    }

    /// When the push service last answered as it does if the credential is right; `nil` if it never has.
    package private(set) var lastAnswer: Int64?
    /// When the push service last accepted a notification; `nil` if it never has.
    package private(set) var lastDelivery: Int64?
    /// The last probe; `nil` if there was none.
    package var probe: Probe?
    /// `nil` if the route is not shut.
    package private(set) var shut: Shut?

    package init() {}

    /// Records that another provider serves the route, perhaps with another credential. The last delivery stays,
    /// because it tells whether users miss the route.
    package mutating func servedAnew() { (lastAnswer, probe, shut) = (nil, nil, nil) }

    /// Records a delivery of an earlier process.
    package mutating func restoreDelivery(at time: Int64) { lastDelivery = max(time, lastDelivery ?? time) }

    /// Records an answer of the push service that is no failure of the route.
    package mutating func answered(isDelivered: Bool, at now: Int64) {
        lastAnswer = now
        if isDelivered { lastDelivery = now }
    }

    /// Records that the circuit breaker changed its state, or a probe ended, after this answer.
    package mutating func breakerChanged(isClosed: Bool, after answer: String, at now: Int64) {
        if isClosed {
            shut = nil
        } else if shut == nil {
            shut = Shut(since: now, answer: answer)
        } else {
            shut?.answer = answer
        }
    }
}

/// What is known of a route.
enum RouteCondition: String {
    /// Nothing was sent yet.
    case untried
    /// No notification was sent yet, and the push service answers a probe as it does if the credential is right.
    case probed
    /// No notification was sent yet, and a route with the same credential is shut; or the last probe failed.
    case suspect
    /// The push service answers.
    case working
    /// The circuit breaker is open or half-open.
    case shut

    /// Whether a notification may reach a phone.
    var mayServe: Bool { self == .untried || self == .probed || self == .working }
}

/// What the routes of a node say together.
struct RouteConditions {
    /// Each route with what is known of it.
    let routes: [(state: NodeSnapshot.RouteState, condition: RouteCondition)]
    private let now: Int64

    /// Users miss a route that is shut if it has delivered within this number of seconds.
    private static let day: Int64 = 86_400
    /// How many seconds a route may be shut before that is an incident.
    private static let grace: Int64 = 60

    init(_ routes: [NodeSnapshot.RouteState], at now: Int64) {
        self.now = now
        let shut = Set(routes.filter(\.isShut).map(\.credential))
        self.routes = routes.map { route in
            let condition: RouteCondition =
                if route.isShut {
                    .shut
                } else if route.failedProbe != nil {
                    .suspect
                } else if route.record.lastAnswer != nil {
                    .working
                } else if route.record.probe?.verdict == .good {
                    .probed
                } else {
                    shut.contains(route.credential) ? .suspect : .untried
                }
            return (route, condition)
        }
    }

    /// The names of the routes on which no notification was sent yet.
    var untried: [String] {
        routes.filter { $0.condition == .untried || $0.condition == .probed }.map(\.state.name)
    }
    /// Whether nothing was sent on any route, apart from optional ones that fail.
    var isUntried: Bool {
        !untried.isEmpty && untried.count == routes.count { !($0.state.isOptional && $0.condition == .suspect) }
    }

    /// Whether a route may serve phones, as far as is known. An optional route, a development environment, counts only
    /// once it has worked.
    private func mayServe(_ route: (state: NodeSnapshot.RouteState, condition: RouteCondition)) -> Bool {
        route.state.isOptional ? route.condition == .working : route.condition.mayServe
    }

    /// The routes that users miss: they delivered in the last ``day``, and have been shut for ``grace``.
    var failed: [NodeSnapshot.RouteState] {
        routes.filter { $0.condition == .shut }.map(\.state).filter { route in
            guard let last = route.record.lastDelivery, let shut = route.record.shut else { return false }
            return now - last < Self.day && now - shut.since >= Self.grace
        }
    }

    /// The apps that no route serves.
    var unservedApps: [String] {
        var apps: [String] = []
        for (route, _) in routes where !apps.contains(route.app) { apps.append(route.app) }
        let failed = failed
        return apps.filter { app in
            let able = routes.filter { $0.state.app == app && mayServe($0) }
            // An untried route does not make up for one that users miss, because it may not work either.
            let isMissed = failed.contains { $0.app == app }
            return able.allSatisfy { isMissed && $0.condition == .untried }
        }
    }

    /// Why the node is not ready: for each app that no route serves.
    var reasonsNotReady: [Concern] {
        unservedApps.map { app in
            let own = routes.filter { $0.state.app == app }
            let causes = own.map(\.state).filter { $0.failureAnswer != nil }
            let answers = Set(causes.compactMap(\.failureAnswer)).sorted().joined(separator: ", ")
            return Concern(
                "no push service works for \(app)" + (answers.isEmpty ? "" : " (\(answers))"),
                causes.map(cause).joined(separator: "; "),
                see: own.contains { $0.condition == .shut } ? .pushServiceStopped : .probeFails)
        }
    }

    /// The reason for each route that should work and does not.
    /// - Parameter apps: the apps whose routes are left out.
    func causes(except apps: [String]) -> [Concern] {
        routes.filter { !apps.contains($0.state.app) }.compactMap { route, condition in
            switch condition {
            case .shut:
                Concern(
                    "\(route.name) is shut" + (route.record.shut.map { " (\($0.answer))" } ?? ""),
                    text: cause(of: route), see: .pushServiceStopped)
            case .suspect where route.failedProbe != nil && !route.isOptional:
                Concern(
                    "\(route.name) fails a probe (\(route.failureAnswer ?? ""))", text: cause(of: route),
                    see: .probeFails)
            case .suspect, .untried, .probed, .working: nil
            }
        }
    }

    /// The failed probes of optional routes, which nobody may ever use.
    var notes: [String] { routes.map(\.state).filter { $0.failedProbe != nil && $0.isOptional }.map(cause) }

    /// Why a route does not work: its failed probe, or after which answer and since when it is shut, and when it is
    /// tried again.
    private func cause(of route: NodeSnapshot.RouteState) -> String {
        if let probe = route.failedProbe {
            return
                "\(route.name) answered a probe with \(probe.answer) at \(Format.time(probe.time)); no phone was rung"
        }
        let answer = route.record.shut.map { " after the answer \($0.answer)" } ?? ""
        let since =
            route.record.shut.map { " since \(Format.time($0.since)) (\(Format.span(now - $0.since)))" } ?? ""
        let next =
            switch route.nextProbe {
            case nil: ""
            case let seconds? where seconds > 0: ", next attempt in \(Format.span(seconds))"
            default: ", next attempt with the next notification"
            }
        return "\(route.name) is shut\(answer)\(since)\(next)"
    }
}

extension NodeSnapshot.RouteState {
    fileprivate var isShut: Bool { breaker != "closed" && !hasLanePerServer }

    /// The last probe, if it failed and no ``RouteRecord/lastAnswer`` came after it.
    fileprivate var failedProbe: RouteRecord.Probe? {
        guard !isShut, let probe = record.probe, probe.verdict == .bad, probe.time > record.lastAnswer ?? .min else {
            return nil
        }
        return probe
    }

    /// The answer because of which the route does not work; `nil` if it works.
    fileprivate var failureAnswer: String? { isShut ? record.shut?.answer : failedProbe?.answer }
}
