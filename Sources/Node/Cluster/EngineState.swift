// SPDX-License-Identifier: Apache-2.0

import Redis
import Time

extension Engine {
    /// A change that ``Engine`` reports.
    package enum Event: Equatable {
        /// The engine can be used.
        case available
        /// The engine cannot be used, for this reason.
        case unavailable(EngineProblem)
        /// An answer took longer than ``answerTimeout``: the node decides alone for a second.
        case slow
        /// The engine is no longer slow.
        case fast
        /// The engine has lost its state since this node used it last.
        case lostState
        /// A living node has this node's name.
        case sameName
    }

    /// The state for the dashboard.
    package struct Status: Sendable, Equatable {
        /// Why the engine cannot be used; `nil` if it can, and before the first attempt has ended.
        package var problem: EngineProblem?
        /// Whether the engine can be used.
        package var isAvailable = false
        /// Whether it took longer than ``answerTimeout`` to answer, and no heartbeat has been answered in time since.
        package var isSlow = false
        /// When ``isAvailable`` last changed, or the node started.
        package var since: MonotonicTime
        /// The time between the last answered heartbeat and its reply.
        package var roundTrip: Duration?
        /// The engine's clock minus this node's.
        package var clockOffset: Duration?
        /// All nodes of the last day, in the order of their names.
        package var members: [Member] = []
    }
}

/// Remembers what a node knows of the engine, and decides what follows: takes events and the time, returns actions. No I/O
/// and no clock.
struct EngineState {
    /// What to do.
    enum Action: Equatable {
        case report(Engine.Event)
        /// The engine has confirmed a heartbeat: the session ends at this time without another one. Other nodes may
        /// have taken over what this node had claimed, if `isNew`.
        case renewed(end: MonotonicTime, isNew: Bool)
        /// End the connection.
        case close(RedisError)
    }

    /// How long the node decides alone after the engine was slow.
    static let slowPause = Duration.seconds(1)

    /// The id of this node's session.
    let session: String
    /// The state for the dashboard.
    private(set) var status: Engine.Status
    /// A random number that is new after the engine has lost its state; `nil` before the first connection.
    private(set) var epoch: [UInt8]?
    /// Whether the first attempt to use the engine has ended.
    private(set) var hasTried = false
    /// When the last heartbeat was sent.
    private var heartbeat: (monotonic: MonotonicTime, wall: Int64)?
    /// While the engine is slow, when the node asks it again.
    private var slowUntil = MonotonicTime(nanoseconds: 0)
    /// Whether the engine has recorded this session under the node's name.
    private var hasRegisteredName = false
    private var reportedSameName = false

    init(session: String, now: MonotonicTime) {
        self.session = session
        status = Engine.Status(since: now)
    }

    /// Whether the node asks the engine; if not, it decides alone.
    func isAsked(at now: MonotonicTime) -> Bool { status.isAvailable && slowUntil <= now }

    // MARK: The connection

    /// A connection is ready. The engine is available from the first reply on.
    mutating func connected(epoch: [UInt8], _ actions: inout [Action]) {
        if let known = self.epoch, known != epoch { actions.append(.report(.lostState)) }
        self.epoch = epoch
    }

    /// The connection has failed, or could not be opened.
    mutating func failed(_ problem: EngineProblem, now: MonotonicTime, _ actions: inout [Action]) {
        hasTried = true
        guard status.isAvailable || status.problem != problem else { return }
        if status.isAvailable { status.since = now }
        (status.isAvailable, status.isSlow) = (false, false)
        status.problem = problem
        actions.append(.report(.unavailable(problem)))
    }

    // MARK: Heartbeats

    /// A heartbeat is sent now.
    /// - Parameter wall: Unix time in milliseconds.
    mutating func heartbeatSent(now: MonotonicTime, wall: Int64) { heartbeat = (now, wall) }

    /// The engine has answered a heartbeat.
    mutating func replied(
        _ reply: Result<RedisReply, RedisError>, now: MonotonicTime, _ actions: inout [Action]
    ) {
        switch reply {
        // The next heartbeat comes before the session ends.
        case .failure(.tooManyWaiting): break
        case .failure(let error): actions.append(.close(error))
        case .success(let reply):
            guard let membership = Membership(reply), let heartbeat else {
                return actions.append(.close(.malformed("not the reply to a heartbeat")))
            }
            // The next handshake gives the engine a new epoch.
            guard membership.epoch == epoch else {
                return actions.append(.close(.disconnected("the engine has lost its state")))
            }
            confirmed(membership, heartbeat, now, &actions)
        }
    }

    private mutating func confirmed(
        _ membership: Membership, _ sent: (monotonic: MonotonicTime, wall: Int64), _ now: MonotonicTime,
        _ actions: inout [Action]
    ) {
        let roundTrip = now - sent.monotonic
        status.roundTrip = roundTrip
        status.clockOffset = .milliseconds(membership.time - sent.wall) - roundTrip / 2
        status.members = membership.members
        hasTried = true
        noticeSpeed(roundTrip, now, &actions)
        if let owner = membership.nameOwner, owner != session, hasRegisteredName, !reportedSameName {
            reportedSameName = true
            actions.append(.report(.sameName))
        }
        hasRegisteredName = true
        // While the engine was not available, it may have forgotten claims.
        actions.append(
            .renewed(
                end: sent.monotonic + Engine.sessionTime, isNew: membership.hadEnded || !status.isAvailable))
        guard !status.isAvailable else { return }
        (status.isAvailable, status.problem, status.since) = (true, nil, now)
        actions.append(.report(.available))
    }

    // MARK: Slowness

    /// An answer took longer than ``Engine/answerTimeout``.
    mutating func wasSlow(now: MonotonicTime, _ actions: inout [Action]) {
        slowUntil = now + Self.slowPause
        guard !status.isSlow else { return }
        status.isSlow = true
        actions.append(.report(.slow))
    }

    /// Only a heartbeat ends slowness, so that an engine that is slow every other second is not reported each time.
    private mutating func noticeSpeed(_ roundTrip: Duration, _ now: MonotonicTime, _ actions: inout [Action]) {
        guard roundTrip < Engine.answerTimeout else { return wasSlow(now: now, &actions) }
        guard status.isSlow, slowUntil <= now else { return }
        status.isSlow = false
        actions.append(.report(.fast))
    }
}
