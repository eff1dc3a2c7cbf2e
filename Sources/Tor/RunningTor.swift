// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// The node's running tor, as seen by another process: a command that the operator runs.
package struct RunningTor: Sendable {
    /// tor's process id.
    package let pid: Int32
    /// Bootstrap progress in percent, 0–100.
    package let bootstrap: Int
    /// Whether the onion's descriptor is published; `nil` if the node has not recorded it.
    package let descriptor: OnionDescriptor?

    /// Queries the node's tor; `nil` if it does not run or does not accept this user.
    package init?(_ settings: TorSettings, on loop: EventLoop) async {
        let reply = await Self.reply(to: "GETINFO process/pid status/bootstrap-phase", settings, on: loop) ?? []
        guard let pid = reply.lazy.compactMap({ Self.pid(in: $0) }).first,
            case .bootstrapped(let percent)? = reply.lazy.compactMap({ TorEvent(line: $0) }).first
        else { return nil }
        (self.pid, bootstrap) = (pid, percent)
        descriptor = TorStatusFile(directory: settings.directory).descriptor(of: settings.selected, at: pid)
    }

    private static func pid(in line: String) -> Int32? {
        line.split(separator: "=").last.flatMap { line.contains("process/pid=") ? Int32($0) : nil }
    }

    /// Makes the node's tor reload `authorized_clients`.
    /// - Returns: whether tor runs and has accepted the command.
    package static func reload(_ settings: TorSettings, on loop: EventLoop) async -> Bool {
        await reply(to: "SIGNAL RELOAD", settings, on: loop) != nil
    }

    private static func reply(to command: String, _ settings: TorSettings, on loop: EventLoop) async -> [String]? {
        await LoopDomain(loop).run { domain -> [String]? in
            guard let control = await TorControl.open(directory: settings.directory, on: domain.loop) else {
                return nil
            }
            defer { control.close() }
            return try? await control.send(command)
        }
    }
}
