// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Redis
import Time

/// Calls of the engine's functions.
extension Engine {
    /// Sends a command.
    /// - Returns: `false` if the engine cannot be used; the receiver then gets no reply.
    package func send(_ command: RedisCommand, number: UInt64, for receiver: any RedisReceiver) -> Bool {
        guard status.isAvailable, let connection else { return false }
        connection.send(command, number: number, for: receiver)
        return true
    }

    /// Sends a command and waits for its reply.
    /// - Throws: ``EngineProblem`` if the engine cannot be used.
    package func call(
        _ command: RedisCommand, isolation: isolated (any Actor)? = #isolation
    ) async throws(EngineProblem) -> RedisReply {
        try await call(command, within: RedisConnection.replyTimeout)
    }

    /// Sends a command for which a sender waits, and waits for its reply no longer than ``answerTimeout``.
    /// - Throws: ``EngineProblem`` if the engine cannot be used, or is slow.
    package func ask(
        _ command: RedisCommand, isolation: isolated (any Actor)? = #isolation
    ) async throws(EngineProblem) -> RedisReply {
        guard isAsked else { throw status.problem ?? EngineProblem("the engine is slow") }
        let start = MonotonicTime.now
        defer { if MonotonicTime.now - start >= Self.answerTimeout { wasSlow() } }
        return try await call(command, within: Self.answerTimeout)
    }

    private func call(
        _ command: RedisCommand, within time: Duration, isolation: isolated (any Actor)? = #isolation
    ) async throws(EngineProblem) -> RedisReply {
        guard status.isAvailable, let connection else {
            throw status.problem ?? EngineProblem("the engine has not been reached yet")
        }
        do {
            return try await connection.call(command, within: time)
        } catch {
            throw EngineProblem(error, user: settings.user)
        }
    }
}
