// SPDX-License-Identifier: Apache-2.0

import Settings

/// What a route has done since the start, and since its present provider serves it. Times are Unix times in seconds.
package struct RouteRecord: Sendable, Equatable {
    /// Since when a route is shut: its circuit breaker lets nothing but probes through.
    package struct Shut: Sendable, Equatable {
        package let since: Int64
        /// The answer that opened the breaker, or that the last probe got.
        package fileprivate(set) var answer: String
    }

    /// When the push service last answered as it does if the credential is right; `nil` if it never has.
    package private(set) var lastAnswer: Int64?
    /// When the push service last accepted a notification; `nil` if it never has.
    package private(set) var lastDelivery: Int64?
    /// `nil` if the route is not shut.
    package private(set) var shut: Shut?

    package init() {}

    /// Another provider serves the route, perhaps with another credential. Users still miss what was delivered before.
    package mutating func servedAnew() { (lastAnswer, shut) = (nil, nil) }

    /// The push service has answered, and neither its answer nor its silence is a failure of the route.
    package mutating func answered(isDelivered: Bool, at now: Int64) {
        lastAnswer = now
        if isDelivered { lastDelivery = now }
    }

    /// The circuit breaker has changed its state, or a probe has ended, after this answer.
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
    /// Nothing was sent yet, and a route with the same credential is shut.
    case suspect
    /// The push service answers.
    case working
    /// The circuit breaker is open.
    case shut

    /// Whether a notification may reach a phone.
    var mayServe: Bool { self == .untried || self == .working }
}

/// What the routes of a node say together.
struct RouteConditions {
    /// Each route with what is known of it.
    let routes: [(state: NodeSnapshot.RouteState, condition: RouteCondition)]
    private let now: Int64

    /// A route that has delivered within this number of seconds is missed if it is shut.
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
                } else if route.record.lastAnswer != nil {
                    .working
                } else {
                    shut.contains(route.credential) ? .suspect : .untried
                }
            return (route, condition)
        }
    }

    /// The names of the routes of which nothing is known.
    var untried: [String] { routes.filter { $0.condition == .untried }.map(\.state.name) }
    /// Whether nothing was sent on any route.
    var isUntried: Bool { !routes.isEmpty && routes.allSatisfy { $0.condition == .untried } }

    /// The routes that users miss: they delivered in the last day, and have been shut for a while.
    var failed: [NodeSnapshot.RouteState] {
        routes.filter { $0.condition == .shut }.map(\.state).filter { route in
            guard let last = route.record.lastDelivery, let shut = route.record.shut else { return false }
            return now - last < Self.day && now - shut.since >= Self.grace
        }
    }

    /// Why the node is not ready: for each app that no route serves.
    var reasonsNotReady: [Concern] {
        var apps: [String] = []
        for (route, _) in routes where !apps.contains(route.app) { apps.append(route.app) }
        let failed = failed
        return apps.compactMap { app in
            let own = routes.filter { $0.state.app == app }
            let isServed =
                failed.contains { $0.app == app }
                // Nobody knows whether an untried route works, while users miss another one.
                ? own.contains { $0.condition == .working } : own.contains { $0.condition.mayServe }
            guard !isServed else { return nil }
            let shut = own.filter { $0.condition == .shut }.map(\.state)
            let answers = Set(shut.compactMap(\.record.shut?.answer)).sorted().joined(separator: ", ")
            return Concern(
                "no push service works for \(app)" + (answers.isEmpty ? "" : " (\(answers))"),
                shut.map(cause).joined(separator: "; "), see: .pushServiceStopped)
        }
    }

    /// Why each shut route is.
    var causes: [Concern] {
        routes.filter { $0.condition == .shut }.map {
            Concern(
                "\($0.state.name) is shut" + ($0.state.record.shut.map { " (\($0.answer))" } ?? ""),
                cause(of: $0.state), see: .pushServiceStopped)
        }
    }

    /// Why a route is shut, since when, and when it is tried again.
    private func cause(of route: NodeSnapshot.RouteState) -> String {
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
}
