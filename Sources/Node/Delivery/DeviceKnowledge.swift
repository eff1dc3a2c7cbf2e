// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP
import Tables
import Time

/// What attempts have taught about device tokens: pauses, the environment that knows a token, the last acceptance, and
/// which notification of several with one collapse id is the newest.
struct DeviceKnowledge {
    /// An envelope whose result teaches something.
    struct Subject {
        let token: TableKey
        let collapse: TableKey?
        /// The envelope's position in the order of acceptance.
        let sequence: UInt64
        /// Whether a push service had accepted the token before the envelope.
        let isProven: Bool
        /// Whether the node retries the envelope until it expires.
        let isStored: Bool
        /// The number of its app, and the platform that its sender chose.
        let app: Int, magic: Magic
    }

    /// What follows from a result for its envelope.
    enum Lesson {
        /// Nothing.
        case usual
        /// The sender gets this result in place of the provider's.
        case changed(AttemptResult)
        /// The push service refuses many tokens, so that its answers are not trusted: the sender gets this result. If an
        /// environment has refused the token, the search for the right one begins again.
        case surge(AttemptResult, searchesAgain: Bool)
    }

    private let capacity: Int
    private var pauses: DevicePauses
    /// Histories of device tokens by app, because a device token of one app is invalid for another. Together they hold
    /// up to ``capacity`` tokens.
    private var histories: [TokenHistory?] = []
    private var tokensPerApp = 0
    private var collapses: CollapseOrder

    /// - Parameter capacity: how many device tokens, and how many collapse ids, are remembered at a time.
    init(capacity: Int) {
        self.capacity = capacity
        pauses = DevicePauses(capacity: capacity)
        collapses = CollapseOrder(capacity: capacity)
    }

    /// Divides the capacity among the apps with these numbers, and forgets the device tokens of others.
    mutating func divide(among apps: Set<Int>) {
        tokensPerApp = capacity / max(1, apps.count)
        for app in histories.indices {
            if apps.contains(app) { histories[app]?.resize(to: tokensPerApp) } else { histories[app] = nil }
        }
    }

    // MARK: What is known

    /// What attempts have taught about a token; `nil` if its app has had no result yet.
    func record(of token: TableKey, app: Int) -> TokenHistory.Record? {
        app < histories.count ? histories[app]?[token] : nil
    }

    /// The time left of a token's pause; `nil` if it is not paused.
    func pause(of token: TableKey, now: MonotonicTime) -> Duration? { pauses.remaining(token, now: now) }

    /// Decides whether an attempt may begin.
    /// - Returns: `nil` if it may, else how long it has to wait.
    mutating func admit(_ token: TableKey, now: MonotonicTime) -> Duration? { pauses.admit(token, now: now) }

    /// Whether a provider has accepted a newer envelope with the same collapse id.
    func isReplaced(_ content: PendingEnvelope.Content) -> Bool {
        content.collapse.map { collapses.isReplaced($0, content.sequence) } ?? false
    }

    /// What the tables hold, and their bounds.
    var tables: [(name: String, entries: Int, bound: Int)] {
        [
            ("device tokens' environments", histories.reduce(0) { $0 + ($1?.count ?? 0) }, capacity),
            ("collapse ids", collapses.count, capacity),
            ("paused devices", pauses.count, capacity),
        ]
    }

    // MARK: What results teach

    /// Records what a result says about the device token.
    /// - Parameters:
    ///   - magic: the platform that was asked.
    ///   - surge: the surge detector of the lane that the sender chose.
    ///   - wall: Unix time in seconds.
    mutating func learn(
        _ result: AttemptResult, _ subject: Subject, from magic: Magic, _ surge: inout TokenRefusalSurge,
        at now: MonotonicTime, wall: Int64, random: inout any RandomNumberGenerator
    ) -> Lesson {
        let (token, app) = (subject.token, subject.app)
        switch result.disposition.token {
        case .none: return .usual
        case .accepted:
            let home = magic == subject.magic ? nil : magic
            withHistory(of: app) { $0.accepted(token, by: home, at: UInt64(max(0, wall)) * 1000) }
            if let collapse = subject.collapse { collapses.accepted(collapse, subject.sequence) }
            pauses.accepted(token, now: now)
            surge.accepted(now)
            guard home != nil else { return .usual }
            var hinted = result
            hinted.outcome.text = "the device token belongs to Apple's other environment; pair again to fix this"
            return .changed(hinted)
        case .paused:
            pauses.pause(
                token, seconds: result.outcome.retryAfter / 1000, now: now,
                random: Double.random(in: 0..<1, using: &random))
        case .unknownInEnvironment, .otherApp:
            let isFirst = withHistory(of: app) { $0.refused(token) }
            // During a surge, repeated refusals count too: otherwise the surge would end for lack of first refusals.
            if isFirst || surge.isActive { surge.refused(now, isProven: subject.isProven) }
            if surge.isActive {
                return .surge(.duringSurge(result, for: surge.pause(subject, at: now)), searchesAgain: true)
            }
        case .gone:
            // The timestamp says when Apple last found the token invalid. If Apple accepted the token later, ask Apple
            // once more.
            if let since = result.outcome.goneSince,
                withHistory(of: app, { $0.contradicts(token, goneSince: since) })
            {
                return .changed(.contradicted(result))
            }
            if surge.isActive {
                return .surge(.duringSurge(result, for: surge.pause(subject, at: now)), searchesAgain: false)
            }
        }
        return .usual
    }

    @discardableResult
    private mutating func withHistory<Result>(of app: Int, _ body: (inout TokenHistory) -> Result) -> Result {
        if app >= histories.count { histories += Array(repeating: nil, count: app + 1 - histories.count) }
        if histories[app] == nil { histories[app] = TokenHistory(capacity: tokensPerApp) }
        return body(&histories[app]!)
    }
}
