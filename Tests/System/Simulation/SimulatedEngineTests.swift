// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Redis
import StandIns
import TestSupport
import Testing
import Time

@testable import World

/// The engine of simulated clusters, beside a real one.
@Suite(.tags(.sockets)) struct SimulatedEngineTests {
    /// Calls any command from Lua, so that the conversions of arguments and replies are compared, too.
    private static let library = """
        #!lua name=test
        redis.register_function('run', function(keys, arguments) return redis.call(unpack(arguments)) end)
        redis.register_function('status', function(keys, arguments) return redis.status_reply(arguments[1]) end)
        redis.register_function('refuse', function(keys, arguments) return redis.error_reply('ERR ' .. arguments[1]) end)
        redis.register_function('list', function(keys, arguments) return {1.9, -2, false, 'after nil'} end)
        redis.register_function('numbers', function(keys, arguments)
          return redis.call('HSET', keys[1], 'a', 1, 'b', 0.5, 'c', 1800000000123456)
        end)

        """

    /// A random command.
    private func command(using generator: inout SplitMix64) -> [String] {
        let kind = generator.next() % 3
        let key = ["text", "hash", "set"][Int(kind)] + "\(generator.next() % 2)"
        func word() -> String { "w\(generator.next() % 4)" }
        let life = "\(1_000_000 + generator.next() % 1000)"
        let general = [["EXISTS", key], ["DEL", key], ["PEXPIRE", key, life], ["EXPIRE", key, life]]
        let own: [[String]] =
            switch kind {
            case 0:
                [
                    ["GET", key], ["SET", key, word()], ["SET", key, word(), "NX"], ["SET", key, word(), "PX", life],
                    ["SET", key, word(), "KEEPTTL"],
                ]
            case 1:
                [
                    ["HGET", key, word()], ["HSET", key, word(), word()], ["HSET", key, "w0", word(), "w1", word()],
                    ["HMGET", key, "w0", "w1", "w2"], ["HDEL", key, word()], ["HGETALL", key],
                ]
            default:
                [
                    ["SADD", key, word()], ["SREM", key, word()], ["SCARD", key], ["SMEMBERS", key],
                    ["SADD", key, "w0", "w1"],
                ]
            }
        let all = own + own + general
        return all[Int(generator.next() % UInt64(all.count))]
    }

    /// Without the order that no server promises.
    private func comparable(_ reply: RedisReply, to command: [String]) -> RedisReply {
        guard ["HGETALL", "SMEMBERS"].contains(command[0]), let elements = reply.elements else { return reply }
        let size = command[0] == "HGETALL" ? 2 : 1
        let groups = stride(from: 0, to: elements.count, by: size).map {
            elements[$0..<$0 + size].compactMap(\.text).joined(separator: "=")
        }
        return .array(groups.sorted().map { .status($0) })
    }

    /// The replies of both engines to a call of a function: the real one's first.
    private func both(
        _ redis: RedisConnection, _ functions: EngineFunctions, _ function: String, keys: [String] = [],
        _ arguments: [String], isolation: isolated (any Actor)? = #isolation
    ) async -> [RedisReply] {
        let names = keys.map { Array($0.utf8) }
        var command = RedisCommand(function: function, keys: names)
        for argument in arguments { command.append(argument) }
        let simulated = functions.call(function, keys: names[...], arguments: arguments.map { Array($0.utf8) }[...])
        do {
            return [try await redis.call(command), simulated]
        } catch {
            guard case .refused(let text) = error else { return [.error("\(error)"), simulated] }
            return [.error(text), simulated]
        }
    }

    @Test(.timeLimit(.minutes(2))) func `it answers as Redis does`() async throws {
        let server = try RedisServer()
        try await server.start()
        let loop = EventLoop(name: "engine")
        try await LoopDomain(loop).run { domain in
            let redis = RedisConnection(try await loop.dial(server.endpoint, timeout: .seconds(30)))
            let box = StoreBox()
            let functions = EngineFunctions { box.store.execute($0, at: UnixTime.milliseconds * 1000) }
            #expect(
                try await redis.call(RedisCommand("FUNCTION", "LOAD", Self.library)) == functions.load(Self.library))
            guard case .error = functions.load(Self.library) else {
                Issue.record("loaded twice")
                return
            }
            var generator = SplitMix64(seed: 43)
            for _ in 0..<3000 {
                let command = command(using: &generator)
                let replies = await both(redis, functions, "run", command).map { comparable($0, to: command) }
                #expect(replies[0] == replies[1], "\(command)")
            }
            for (function, argument) in [("status", "OK"), ("refuse", "not now"), ("list", "-")] {
                let replies = await both(redis, functions, function, [argument])
                #expect(replies[0] == replies[1], "\(function)")
            }
            _ = await both(redis, functions, "numbers", keys: ["hash9"], [])
            let numbers = await both(redis, functions, "run", ["HMGET", "hash9", "a", "b", "c"])
            #expect(numbers[0] == numbers[1])
            for (life, least) in [("5000000", 4_990_000 as Int64), ("", -1)] {
                _ = await both(redis, functions, "run", ["SET", "text9", "-"] + (life.isEmpty ? [] : ["PX", life]))
                for left in await both(redis, functions, "run", ["PTTL", "text9"]).map(\.integer) {
                    #expect(left ?? -3 >= least)
                }
            }
            redis.close(.disconnected("the test has ended"))
        }
        await server.stop()
    }
}

private final class StoreBox {
    var store = EngineStore()
}
