// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Redis
import Time

/// What `tocsin check --cluster` examines of the engine.
package struct EngineFacts: Sendable, Equatable {
    /// What the engine says about itself (Redis, INFO), by name.
    package var information: [String: String]
    /// The nodes that share it.
    package var membership: Membership
    /// The engine's clock minus this machine's.
    package var clockOffset: Duration
    /// Whether it accepts commands from clients that give no password.
    package var obeysStrangers: Bool

    /// Connects to the engine as a node would, without becoming a member.
    /// - Throws: ``EngineProblem``.
    package static func ask(
        _ settings: EngineSettings, on loop: EventLoop, isolation: isolated (any Actor)? = #isolation
    ) async throws(EngineProblem) -> EngineFacts {
        let names = KeyNames(cluster: settings.cluster, secret: settings.secret)
        let handshake = EngineHandshake(settings: settings, names: names, loop: loop)
        let watch = settings.sentinelWatch(on: loop)
        defer { watch?.stop() }
        let primary = try await settings.primary(by: watch)
        let (connection, _) = try await handshake.connect(to: primary)
        defer { connection.close(.disconnected("the check has ended")) }
        do throws(RedisError) {
            let command = RedisCommand(.members, keys: [names.name(.nodes)])
            let start = UnixTime.milliseconds
            let reply = try await connection.call(command)
            guard let membership = Membership(reply) else {
                throw RedisError.malformed("not a list of nodes")
            }
            let offset = Duration.milliseconds(membership.time - (start + UnixTime.milliseconds) / 2)
            let text = try await connection.call(RedisCommand("INFO")).text ?? ""
            return EngineFacts(
                information: parse(text), membership: membership, clockOffset: offset,
                obeysStrangers: await handshake.isOpenToStrangers(at: primary))
        } catch {
            throw EngineProblem(error, user: settings.user)
        }
    }

    /// Decodes lines of the form `name:value`.
    static func parse(_ text: String) -> [String: String] {
        var values: [String: String] = [:]
        for line in text.split(whereSeparator: \.isNewline) {
            let parts = line.split(separator: ":", maxSplits: 1)
            if parts.count == 2 { values[String(parts[0])] = String(parts[1]) }
        }
        return values
    }
}
