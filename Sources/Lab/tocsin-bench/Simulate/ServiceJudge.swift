// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time
import World

/// Watches what push services would hold against the node: too many unknown device tokens and, at Apple, too many
/// provider tokens.
final class ServiceJudge {
    private let simulation: Simulation
    private let violated: (String) -> Void
    /// When a device token was refused, in the last ``window``.
    private var refusals: [MonotonicTime] = []
    /// When the node was started, in the last ``window``.
    private var starts: [MonotonicTime] = []
    private var providerTokens: (seen: Int, changed: MonotonicTime)?
    /// Until when the node may use a provider token that it has issued by a wrong clock.
    private var clockWasWrongUntil: MonotonicTime?
    /// Until when the node may use a provider token of which it cannot know the age.
    private var ageIsUnknownUntil: MonotonicTime?

    private static let window = Duration.seconds(600)
    /// `limits.unproven_burst` and `limits.unproven_per_minute`, by default.
    static let (burst, perMinute) = (300, 120)
    /// The minutes that an envelope to an unknown device token may wait for a service: up to 15 of a fault, and up to
    /// 15 until the next attempt.
    private static let maximumWait = 30
    /// Apple's shortest time between two provider tokens ("Establishing a token-based connection to APNs").
    private static let shortestRenewal = Duration.seconds(20 * 60)
    /// The age at which Apple refuses a provider token (the same page).
    private static let tokenLifetime = Duration.seconds(3600)
    /// How often ``checkProviderTokens(seen:clockSkew:)`` is called.
    static let interval = Duration.seconds(60)

    /// The cluster; `nil` for a single node or a chain.
    var cluster: SimulatedCluster?
    /// When the first node was started, with `--flood`; otherwise `nil`, and a cluster's refusals are not counted. The
    /// push services have no faults then, so the bound is exact.
    var floodedSince: MonotonicTime?
    /// The device tokens that were refused, at a cluster with `--flood`.
    private var refusedSoFar: Set<String> = []

    init(_ simulation: Simulation, violated: @escaping (String) -> Void) {
        self.simulation = simulation
        self.violated = violated
    }

    /// The node has started, with full allowances.
    /// - Parameter clockSkew: by how many milliseconds its wall clock is ahead.
    func nodeStarted(clockSkew: Int64) {
        starts.append(simulation.now)
        // A node that starts while the clock is wrong, or has been, cannot know how old the stored token is.
        if cluster == nil, clockSkew != 0 || clockWasWrongUntil.map({ simulation.now < $0 }) == true {
            ageIsUnknownUntil = simulation.now + Self.tokenLifetime
        }
    }

    /// The node's wall clock has been moved, for however short a time.
    func clockMoved() { clockWasWrongUntil = simulation.now + Self.tokenLifetime }

    /// A service has refused a request because of its device token.
    func refused(_ deviceToken: String) {
        let now = simulation.now
        if let cluster {
            guard let floodedSince else { return }
            // A device token that is refused twice counts once: a node asks again about an envelope whose answer was
            // lost.
            refusedSoFar.insert(deviceToken)
            let most = cluster.maximumUnproven(since: floodedSince)
            if refusedSoFar.count > most {
                violated("\(refusedSoFar.count) device tokens refused; the limit is \(most)")
            }
            return
        }
        refusals.append(now)
        if let first = refusals.first, now - first > Self.window { refusals.removeAll { now - $0 > Self.window } }
        if let first = starts.first, now - first > Self.window { starts.removeAll { now - $0 > Self.window } }
        let minutes = Int(Self.window.components.seconds) / 60
        // What the node admitted in the window, and what has waited since before it. Twice, because Apple may be asked
        // in both environments.
        let most = 2 * (Self.burst * (starts.count + 1) + Self.perMinute * (minutes + Self.maximumWait))
        if refusals.count > most {
            violated("\(refusals.count) device tokens refused in \(minutes) minutes; the limit is \(most)")
        }
    }

    /// The senders have stopped. From then on Apple may see a provider token only with the hourly probe, long after its
    /// issue, and the next token soon afterwards.
    func sendersStopped() { haveSendersStopped = true }

    private var haveSendersStopped = false

    /// - Parameters:
    ///   - seen: how many provider tokens Apple has seen.
    ///   - clockSkew: by how many milliseconds the node's wall clock is ahead.
    func checkProviderTokens(seen: Int, clockSkew: Int64) {
        let now = simulation.now
        if cluster == nil, clockSkew != 0 { clockWasWrongUntil = now + Self.tokenLifetime }
        guard let last = providerTokens, seen > last.seen else {
            if seen > 0, providerTokens == nil { providerTokens = (seen, now) }
            return
        }
        let isExcused =
            haveSendersStopped || ageIsUnknownUntil.map { now < $0 } ?? false
            || cluster?.mayRepeat(in: last.changed...now) ?? false
        if !isExcused, seen > last.seen + 1 || now - last.changed < Self.shortestRenewal - Self.interval {
            violated("\(seen - last.seen) new provider tokens after \((now - last.changed).components.seconds) s")
        }
        providerTokens = (seen, now)
    }
}
