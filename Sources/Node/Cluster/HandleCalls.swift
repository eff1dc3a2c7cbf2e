// SPDX-License-Identifier: Apache-2.0

import Admission
import Handles
import Redis

extension SealedHandle {
    /// Decodes the reply to ``HandleCalls/exchange(_:_:life:)``; `nil` if the engine has nothing newer.
    /// - Parameter name: the keyed hash of the handle.
    package init?(_ reply: RedisReply, of name: [UInt8]) {
        guard let parts = reply.elements, parts.count == 4,
            let sequence = parts[0].text.flatMap({ UInt64($0, radix: 10) }), let sealed = parts[1].bytes,
            let state = parts[2].integer.flatMap({ UInt8(exactly: $0) }).flatMap({ HandleEntry.State(rawValue: $0) }),
            let time = parts[3].integer
        else { return nil }
        self.init(name: name, sealed: sealed, state: state, time: time, sequence: sequence)
    }
}

/// The calls by which nodes exchange handles.
package struct HandleCalls: Sendable {
    private let names: KeyNames

    package init(in names: KeyNames) { self.names = names }

    /// Gives the engine a node's record, and asks for a newer one.
    /// - Parameters:
    ///   - name: the keyed hash of the handle, the same at all nodes.
    ///   - own: the node's record, if it has one.
    ///   - life: the seconds for which the engine keeps it.
    package func exchange(_ name: [UInt8], _ own: SealedHandle?, life: Int64) -> RedisCommand {
        var command = RedisCommand(.handle, keys: [names.name(.handle, of: name)])
        command.append(own.map { "\($0.sequence)" } ?? "")
        command.append(own?.sealed ?? [])
        command.append(Int64(clamping: own?.state.rawValue ?? 0))
        command.append(own?.time ?? 0)
        command.append(life)
        return command
    }

    /// Tells the engine that the phone behind a handle was rung on a day.
    /// - Parameters:
    ///   - day: the beginning of the day, Unix time in seconds.
    ///   - life: the seconds for which the engine keeps the handle.
    package func ring(_ name: [UInt8], on day: Int64, life: Int64) -> RedisCommand {
        var command = RedisCommand(.ring, keys: [names.name(.handle, of: name)])
        command.append(day)
        command.append(life)
        return command
    }

    /// Takes one from the budget of unproven device tokens for a REGISTER, or gives it back.
    package func spend(_ settings: AdmissionSettings, isRefund: Bool) -> RedisCommand {
        var command = RedisCommand(.spend, keys: [names.name(of: .unproven, app: "", through: .tnp)])
        for argument in SharedLimits.rate(settings.unproven) { command.append(argument) }
        command.append(isRefund ? "1" : "0")
        return command
    }

}
