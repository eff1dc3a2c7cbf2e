// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// The functions that decide in the engine (Redis, "Redis functions"). Each call is atomic, and uses the engine's clock.
package struct FunctionLibrary: Sendable {
    /// A function. What it takes and returns stands in the library's text.
    package enum Function: String, Sendable, CaseIterable {
        case open, renew, leave, members, offer, token
    }

    /// The version of the layout of the keys. Nodes with different versions cannot share an engine.
    package static let schema = 1

    /// The library of this version of Tocsin.
    package static let current = FunctionLibrary()

    /// The text that FUNCTION LOAD takes.
    package let text: String
    private let name: String

    private init() {
        // The name changes with the text, so that nodes of different versions do not replace each other's functions.
        let name = "tocsin_" + Hex.encode(BLAKE2b.hash256(Array(Self.body.utf8)).bytes.prefix(4))
        let registrations = Function.allCases.map { function in
            "redis.register_function('\(name)_\(function.rawValue)', \(function.rawValue))"
        }
        self.name = name
        text = "#!lua name=\(name)\n\(Self.body)\n\(registrations.joined(separator: "\n"))\n"
    }

    /// The name by which FCALL calls a function.
    package func name(of function: Function) -> String { "\(name)_\(function.rawValue)" }

    private static let body = """
        -- The engine's clock in microseconds. A Lua number holds it exactly until the year 2255.
        local function time()
          local parts = redis.call('TIME')
          return parts[1] * 1000000 + parts[2]
        end

        local function text(number) return string.format('%.0f', number) end

        -- The value of a key, which is set to this default if it does not exist.
        local function ensure(key, default)
          local present = redis.call('GET', key)
          if present then return present end
          redis.call('SET', key, default)
          return default
        end

        -- Keys: schema, check, epoch. Arguments: a value of each.
        -- Returns the values in the engine.
        local function open(keys, arguments)
          return {ensure(keys[1], arguments[1]), ensure(keys[2], arguments[2]), ensure(keys[3], arguments[3])}
        end

        local longest_absence = 86400 * 1000000

        -- For each node of the last day: its name, the milliseconds since it last said that it lives, and its text.
        local function living(key, now)
          local fields = redis.call('HGETALL', key)
          local nodes = {}
          for index = 1, #fields, 2 do
            local seen, about = string.match(fields[index + 1], '^(%d+) (.*)$')
            local absence = now - tonumber(seen)
            if absence <= longest_absence then
              nodes[#nodes + 1] = {fields[index], math.floor(absence / 1000), about}
            end
          end
          return nodes
        end

        -- Keys: nodes. Returns the time, and all nodes.
        local function members(keys)
          local now = time()
          return {text(now), living(keys[1], now)}
        end

        -- Says that a node lives. Keys: its session, nodes.
        -- Arguments: milliseconds until the session ends, the node's name, a text about it.
        -- Returns the time, all nodes, and what was stored under the node's name before.
        local function renew(keys, arguments)
          local now = time()
          local before = redis.call('HGET', keys[2], arguments[2]) or ''
          redis.call('SET', keys[1], '', 'PX', arguments[1])
          redis.call('HSET', keys[2], arguments[2], text(now) .. ' ' .. arguments[3])
          redis.call('PEXPIRE', keys[2], longest_absence / 1000)
          return {text(now), living(keys[2], now), before}
        end

        -- Says that a node stops. Keys: its session, nodes. Arguments: the node's name.
        local function leave(keys, arguments)
          redis.call('DEL', keys[1])
          redis.call('HDEL', keys[2], arguments[1])
          return redis.status_reply('OK')
        end

        -- The fields of a provider token, with its age in seconds; nil if there is none.
        local function provider_token(key)
          local fields = redis.call('HMGET', key, 'id', 'sealed', 'issued')
          if not fields[1] then return nil end
          return {id = fields[1], sealed = fields[2], age = math.floor((time() - fields[3]) / 1000000)}
        end

        -- Stores a provider token, unless another one is younger than the shortest interval.
        -- Keys: the token, its lock. Arguments: the token's id, the sealed token, its age, the shortest interval between
        -- two tokens, its longest life; all in seconds.
        -- Returns the sealed token that all nodes use now, and its age.
        local function offer(keys, arguments)
          redis.call('DEL', keys[2])
          local present = provider_token(keys[1])
          if present and present.age < tonumber(arguments[4]) then return {present.sealed, present.age} end
          local age = tonumber(arguments[3])
          if present and present.age < age then return {present.sealed, present.age} end
          redis.call('HSET', keys[1], 'id', arguments[1], 'sealed', arguments[2],
            'issued', text(time() - age * 1000000))
          redis.call('EXPIRE', keys[1], math.max(1, tonumber(arguments[5]) - age))
          return {arguments[2], age}
        end

        local longest_making = 5000

        -- Asks for a provider token. Keys: the token, its lock. Arguments: the id of a token that Apple has refused as
        -- expired, or an empty text; the age from which a token is renewed, and the shortest interval between two
        -- tokens, in seconds.
        -- Returns the sealed token and its age; 'make' if the caller must make one and offer it; 'wait' if another node
        -- makes the first one.
        local function token(keys, arguments)
          local present = provider_token(keys[1])
          local is_due = not present or present.age >= tonumber(arguments[2])
            or (present.id == arguments[1] and present.age >= tonumber(arguments[3]))
          if is_due and redis.call('SET', keys[2], '', 'NX', 'PX', longest_making) then
            return redis.status_reply('make')
          end
          if present then return {present.sealed, present.age} end
          return redis.status_reply('wait')
        end
        """
}
