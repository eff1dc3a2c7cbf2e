// SPDX-License-Identifier: Apache-2.0

import Confinement
import Glibc
import Providers
import Time

/// Decides which processes a supervisor starts and ends, and what it reports: takes events and the time, returns actions.
/// No I/O and no clock. Processes are identified by their ids.
package struct SupervisorState {
    /// A process that the supervisor starts.
    package enum Kind: Equatable {
        case holder, resolver
    }

    /// What to do.
    package enum Action: Equatable {
        /// Start a process that serves the file descriptor which came with the command; then call ``started(_:_:)``.
        case start(Kind)
        /// Kill this process.
        case kill(pid_t)
        /// Read refused system calls from the file descriptor which came with the command.
        case watch(logsJSON: Bool)
        /// Log a refused system call.
        case log(RefusedCall)
        case report(Supervisor.Report)
    }

    package init() {}

    private struct Child {
        let kind: Kind
        /// Whether the supervisor has killed it, so that its end is not reported.
        var isKilled = false
    }

    /// The maximum number of key holders at a time. A reload needs two.
    static let maximumHolders = 4
    /// A call that is refused again is logged again after this time.
    static let logInterval = Duration.seconds(60)
    /// The maximum number of different calls that are logged.
    static let maximumLogged = 100
    /// The token bucket for starts of each kind of process.
    static let burst = 10.0
    private static let perSecond = 0.1

    private var children: [pid_t: Child] = [:]
    private var logged: [String: MonotonicTime] = [:]
    private var isWatching = false
    // Limited, because a new key holder starts with full limits of its own, except that of Apple's tokens.
    private var holderStarts = UseLimit(burst: burst, perSecond: perSecond)
    private var resolverStarts = UseLimit(burst: burst, perSecond: perSecond)

    /// The node has sent a command.
    package mutating func received(_ command: SupervisorCommand, now: MonotonicTime) -> [Action] {
        switch command {
        case .startHolder:
            guard children.values.count(where: { $0.kind == .holder }) < Self.maximumHolders,
                holderStarts.take(at: now)
            else { return [] }
            return [.start(.holder)]
        case .startResolver:
            guard resolverStarts.take(at: now) else { return [] }
            // The new resolver replaces the present one, which may hang.
            return endResolvers() + [.start(.resolver)]
        case .watch(let logsJSON):
            // Once only: the node sends it before it reads anything from strangers.
            guard !isWatching else { return [] }
            isWatching = true
            return [.watch(logsJSON: logsJSON)]
        }
    }

    /// A process runs.
    package mutating func started(_ kind: Kind, _ process: pid_t) { children[process] = Child(kind: kind) }

    /// A process has ended.
    /// - Parameters:
    ///   - text: how it ended.
    ///   - isRegular: whether it ended with status 0.
    package mutating func ended(_ process: pid_t, _ text: String, isRegular: Bool) -> [Action] {
        guard let child = children.removeValue(forKey: process) else { return [] }
        switch child.kind {
        case .holder: return [.report(.holderEnded(text))]
        case .resolver: return isRegular || child.isKilled ? [] : [.report(.resolverEnded(text))]
        }
    }

    /// The node's sandbox has refused a system call.
    mutating func refused(_ call: RefusedCall, now: MonotonicTime) -> [Action] {
        let isLogged = logged[call.name].map { now - $0 >= Self.logInterval } ?? (logged.count < Self.maximumLogged)
        if isLogged { logged[call.name] = now }
        return (isLogged ? [.log(call)] : []) + [.report(.refused(call))]
    }

    /// The node has ended. Key holders notice that themselves.
    mutating func nodeEnded() -> [Action] { endResolvers() }

    private mutating func endResolvers() -> [Action] {
        let resolvers = children.filter { $0.value.kind == .resolver }.keys
        for process in resolvers { children[process]?.isKilled = true }
        return resolvers.map { .kill($0) }
    }
}
