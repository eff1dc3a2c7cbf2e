// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import TestSupport
import Testing
import Time

@testable import Redis

@Suite(.tags(.sockets)) struct RedisConnectionTests {
    private let loop = EventLoop(name: "redis")

    /// Runs `body` with a connection to a real server.
    private func withConnection(
        _ settings: [String] = [],
        _ body: @Sendable (RedisConnection, RedisServer, isolated LoopDomain) async throws -> Void
    ) async throws {
        let server = try RedisServer(settings)
        try await server.start()
        try await LoopDomain(loop).run { domain in
            let stream = try await domain.loop.dial(server.endpoint, timeout: .seconds(60))
            let connection = RedisConnection(stream)
            try await body(connection, server, domain)
            connection.close(.disconnected("the test ends"))
        }
        await server.stop()
    }

    /// The error of a command; `nil` if it has a reply.
    private func error(
        of command: RedisCommand, on connection: RedisConnection, isolation: isolated (any Actor)? = #isolation
    ) async -> RedisError? {
        do {
            _ = try await connection.call(command)
            return nil
        } catch {
            return error
        }
    }

    @Test func `commands of one turn get their replies in order`() async throws {
        final class Log: RedisReceiver {
            var replies: [(number: UInt64, reply: Result<RedisReply, RedisError>)] = []
            func replied(_ number: UInt64, _ reply: Result<RedisReply, RedisError>) { replies.append((number, reply)) }
        }
        try await withConnection { connection, _, domain in
            let log = Log()
            for number in 0..<5000 {
                connection.send(RedisCommand("ECHO", "\(number)"), number: UInt64(number), for: log)
            }
            while log.replies.count < 5000 { await domain.loop.sleep(for: .milliseconds(1)) }
            for (index, entry) in log.replies.enumerated() {
                #expect(entry.number == index)
                #expect(entry.reply == .success(.bytes(Array("\(index)".utf8))))
            }
            #expect(connection.waitingCount == 0)
        }
    }

    @Test func `the end of a connection is reported once, also to those who ask later`() async throws {
        try await withConnection { connection, server, domain in
            let errors = Errors()
            connection.whenEnded { errors.all.append($0) }
            await server.kill()
            while errors.all.isEmpty { await domain.loop.sleep(for: .milliseconds(1)) }
            connection.whenEnded { errors.all.append($0) }
            #expect(errors.all.count == 2 && errors.all[0] == errors.all[1])
        }
    }

    private final class Errors { var all: [RedisError] = [] }

    @Test func `an error of the server concerns its command only, and repeats no argument`() async throws {
        try await withConnection { connection, _, _ in
            #expect(
                await error(of: RedisCommand("NOSUCH", "secret"), on: connection)
                    == .refused("ERR unknown command 'NOSUCH'"))
            let pong = try await connection.call(RedisCommand("PING"))
            #expect(pong == .status("PONG"))
        }
    }

    @Test func `a server that stops answering ends the connection`() async throws {
        try await withConnection { connection, server, _ in
            server.freeze()
            let start = MonotonicTime.now
            #expect(await error(of: RedisCommand("PING"), on: connection) == .timedOut)
            #expect(MonotonicTime.now - start >= RedisConnection.replyTimeout)
            #expect(await error(of: RedisCommand("PING"), on: connection) == .timedOut)
            server.thaw()
        }
    }

    @Test func `a killed server ends the connection and all commands`() async throws {
        final class Last: RedisReceiver {
            var reply: Result<RedisReply, RedisError>?
            func replied(_ number: UInt64, _ reply: Result<RedisReply, RedisError>) { self.reply = reply }
        }
        try await withConnection { connection, server, domain in
            let last = Last()
            var end: RedisError?
            connection.whenEnded { end = $0 }
            connection.send(RedisCommand("BLPOP", "nothing", "0"), for: last)
            await server.kill()
            while end == nil { await domain.loop.sleep(for: .milliseconds(1)) }
            #expect(connection.failure == end)
            #expect(last.reply == end.map { .failure($0) })
        }
    }

    @Test func `the number of commands that wait is bounded`() async throws {
        final class Count: RedisReceiver {
            var (refused, others) = (0, 0)
            func replied(_ number: UInt64, _ reply: Result<RedisReply, RedisError>) {
                if reply == .failure(.tooManyWaiting) { refused += 1 } else { others += 1 }
            }
        }
        try await withConnection { connection, _, domain in
            let count = Count()
            for _ in 0..<RedisConnection.maximumWaiting + 7 { connection.send(RedisCommand("PING"), for: count) }
            #expect(count.refused == 7)
            while count.others < RedisConnection.maximumWaiting { await domain.loop.sleep(for: .milliseconds(1)) }
        }
    }
}
