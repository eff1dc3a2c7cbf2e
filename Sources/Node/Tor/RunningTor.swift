// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// The node's running tor, as seen by another process: a command that the operator runs.
package struct RunningTor: Sendable {
    /// tor's process id.
    package let pid: Int32
    /// Bootstrap progress in percent, 0–100.
    package let bootstrap: Int
    /// The state of the selected onion's descriptor; `nil` if the node has not recorded it.
    package let descriptor: OnionDescriptor?

    /// Queries the node's tor; `nil` if it does not run or does not accept this user.
    package init?(_ settings: TorSettings, on loop: EventLoop) async {
        let reply = await Self.reply(to: ControlFilter.state, settings, at: settings.controlSocket, on: loop) ?? []
        guard let pid = Self.pid(in: reply),
            case .bootstrapped(let percent)? = reply.lazy.compactMap({ TorEvent(line: $0) }).first
        else { return nil }
        (self.pid, bootstrap) = (pid, percent)
        descriptor = TorStatusFile(settings).descriptors(at: pid)[settings.selected]
    }

    /// The pid in the reply to `GETINFO process/pid`.
    static func pid(in reply: [String]) -> Int32? {
        reply.first { $0.contains("process/pid=") }?.split(separator: "=").last.flatMap { Int32($0) }
    }

    /// Makes the node's tor reload `authorized_clients`.
    /// - Returns: whether tor runs and has accepted the command.
    package static func reload(_ settings: TorSettings, on loop: EventLoop) async -> Bool {
        await reply(to: "SIGNAL RELOAD", settings, at: settings.ownControlSocket, on: loop) != nil
    }

    private static func reply(
        to command: String, _ settings: TorSettings, at socket: Endpoint, on loop: EventLoop
    ) async -> [String]? {
        await LoopDomain(loop).run { domain -> [String]? in
            guard let control = try? await TorControl.open(socket, cookieFile: settings.cookieFile, on: domain.loop)
            else { return nil }
            defer { control.close() }
            return try? await control.send(command)
        }
    }
}
