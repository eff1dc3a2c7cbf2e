// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// What another process, a command of the operator's, can learn of the node's tor while that runs, and tell it.
package struct RunningTor: Sendable {
    /// tor's process.
    package let pid: Int32
    /// How much of the way into the network is done, 0–100.
    package let bootstrap: Int
    /// Whether the onion can be found; nil where the node has not said.
    package let descriptor: OnionDescriptor?

    /// Asks the node's tor; nil where it does not run, or does not let this user in.
    package init?(_ settings: TorSettings, on loop: EventLoop) async {
        let domain = LoopDomain(loop)
        let answer = await domain.run { domain -> (Int32, Int)? in
            guard let control = await TorControl.open(directory: settings.directory, on: domain.loop) else {
                return nil
            }
            defer { control.close() }
            guard let reply = try? await control.ask("GETINFO process/pid status/bootstrap-phase"),
                let pid = reply.lazy.compactMap({ Self.pid(in: $0) }).first
            else { return nil }
            let bootstrap = reply.lazy.compactMap({ TorEvent(line: $0) }).first
            guard case .bootstrapped(let percent)? = bootstrap else { return nil }
            return (pid, percent)
        }
        guard let answer else { return nil }
        (pid, bootstrap) = answer
        descriptor = TorStatusFile(directory: settings.directory).descriptor(of: pid)
    }

    private static func pid(in line: String) -> Int32? {
        line.split(separator: "=").last.flatMap { line.contains("process/pid=") ? Int32($0) : nil }
    }

    /// Has the node's tor read `authorized_clients` anew.
    /// - Returns: whether there is one that has.
    package static func reload(_ settings: TorSettings, on loop: EventLoop) async -> Bool {
        await LoopDomain(loop).run { domain in
            guard let control = await TorControl.open(directory: settings.directory, on: domain.loop) else {
                return false
            }
            defer { control.close() }
            return (try? await control.ask("SIGNAL RELOAD")) != nil
        }
    }
}
