// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// The functions that decide in the engine (Redis, "Redis functions"). Each call is atomic, and uses the engine's clock.
package struct FunctionLibrary: Sendable {
    /// A function. What it takes and returns stands in the library's text.
    package enum Function: String, Sendable, CaseIterable {
        case open, renew, leave, members, offer, token, take, resume, conclude, unbind, keep, adopt, handle, ring,
            spend
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

        -- The engine's day, by which records age: the clocks of nodes may differ.
        local function day(now) return math.floor(now / 86400000000) end

        -- The value of a key, which is set to this default if it does not exist.
        local function ensure(key, default)
          local present = redis.call('GET', key)
          if present then return present end
          redis.call('SET', key, default)
          return default
        end

        -- Keys: schema, check, epoch, and for nodes with handles their check. Arguments: a value of each.
        -- Returns the values in the engine.
        local function open(keys, arguments)
          local values = {}
          for index, key in ipairs(keys) do values[index] = ensure(key, arguments[index]) end
          return values
        end

        local longest_absence = 86400 * 1000000

        -- For each node of the last day: its name, the milliseconds since it last said that it lives, and its text. Then
        -- the names of all other nodes.
        local function living(key, now)
          local fields = redis.call('HGETALL', key)
          local nodes, absent = {}, {}
          for index = 1, #fields, 2 do
            local seen, about = string.match(fields[index + 1], '^(%d+) (.*)$')
            local absence = now - tonumber(seen)
            if absence <= longest_absence then
              nodes[#nodes + 1] = {fields[index], math.floor(absence / 1000), about}
            else
              absent[#absent + 1] = fields[index]
            end
          end
          return nodes, absent
        end

        -- Keys: nodes. Returns the time, and all nodes.
        local function members(keys)
          local now = time()
          local nodes = living(keys[1], now)
          return {text(now), nodes}
        end

        -- Says that a node lives. Keys: its session, nodes, epoch.
        -- Arguments: milliseconds until the session ends, the node's name, a text about it, the key of the session of its
        -- earlier process or an empty text.
        -- Returns the time, all nodes, what was stored under the node's name before, whether the session existed, and the
        -- epoch or an empty text.
        local function renew(keys, arguments)
          local now = time()
          local before = redis.call('HGET', keys[2], arguments[2]) or ''
          local existed = redis.call('EXISTS', keys[1])
          redis.call('SET', keys[1], '', 'PX', arguments[1])
          if arguments[4] ~= '' then redis.call('DEL', arguments[4]) end
          redis.call('HSET', keys[2], arguments[2], text(now) .. ' ' .. arguments[3])
          redis.call('PEXPIRE', keys[2], longest_absence / 1000)
          local nodes, absent = living(keys[2], now)
          for _, name in ipairs(absent) do redis.call('HDEL', keys[2], name) end
          return {text(now), nodes, before, existed, redis.call('GET', keys[3]) or ''}
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

        -- Token buckets (GCRA, ITU-T I.371 annex A). A bucket is the time at which it is full again; interval and refill
        -- are the microseconds in which it gains one, and in which an empty one becomes full.

        local function used_part(full, now, refill) return math.min(math.max(full - now, 0), refill) end

        -- Microseconds until the bucket contains one.
        local function wait_time(full, now, interval, refill)
          return math.max(used_part(full, now, refill) + interval - refill, 0)
        end

        local function after_take(full, now, interval, refill)
          return now + math.min(used_part(full, now, refill) + interval, refill)
        end

        local function after_refund(full, now, interval, refill)
          return now + math.max(used_part(full, now, refill) - interval, 0)
        end

        -- A bucket that has a key of its own. With an interval of 0, there is none, and nothing happens.
        local function bucket(key, now, interval, refill)
          local exists = interval > 0
          local full = exists and tonumber(redis.call('GET', key) or 0) or 0
          local function store(changed)
            full = changed
            redis.call('SET', key, text(full), 'PX', math.max(1, math.ceil((full - now) / 1000)))
          end
          return {
            wait = function() return exists and wait_time(full, now, interval, refill) or 0 end,
            take = function() if exists then store(after_take(full, now, interval, refill)) end end,
            refund = function() if exists then store(after_refund(full, now, interval, refill)) end end
          }
        end

        local function milliseconds(microseconds) return math.ceil(microseconds / 1000) end

        -- The record of a device token: s standing (0 unproven, 1 proven, 2 dead), n since when, d day of the last use, k
        -- sender key, u day of the last unsigned notification, f bucket. Empty texts stand for 0.

        local function stored_record(key)
          local fields = redis.call('HMGET', key, 's', 'n', 'd', 'k', 'u', 'f')
          if not fields[3] then return nil end
          return {
            standing = tonumber(fields[1]), since = fields[2], day = tonumber(fields[3]), sender = fields[4],
            unsigned = tonumber(fields[5]), full = tonumber(fields[6])
          }
        end

        -- Forgets what is too old, as each node does.
        local function expire(record, today, days)
          local age = math.max(0, today - record.day)
          if (record.standing == 1 and age >= days.proven) or (record.standing == 2 and age >= days.dead) then
            record.standing = 0
          end
          if age >= days.forget then record.sender = '' end
          if record.unsigned > 0 and today - record.unsigned >= days.quiet then record.unsigned = 0 end
        end

        local function store_record(key, record, now, days)
          redis.call('HSET', key, 's', record.standing, 'n', record.since, 'd', record.day, 'k', record.sender,
            'u', record.unsigned, 'f', text(record.full))
          if record.standing ~= 0 or record.sender ~= '' or record.unsigned > 0 then
            redis.call('EXPIRE', key, math.max(days.proven, days.dead, days.forget) * 86400)
          else
            redis.call('PEXPIRE', key, math.max(1, milliseconds(record.full - now)))
          end
        end

        local function all_days(arguments, first)
          return {
            proven = tonumber(arguments[first]), dead = tonumber(arguments[first + 1]),
            forget = tonumber(arguments[first + 2]), quiet = tonumber(arguments[first + 3])
          }
        end

        -- Whether another living node delivers an envelope, or the sealed outcome if there is one.
        local function holder(key, session_key, session)
          local claim = redis.call('GET', key)
          if not claim then return nil end
          if string.sub(claim, 1, 1) == 'f' then return {'final', string.sub(claim, 2)} end
          local other = string.sub(claim, 2)
          if other == session then return nil end
          local prefix = string.sub(session_key, 1, -1 - #session)
          if redis.call('EXISTS', prefix .. other) == 1 then return redis.status_reply('elsewhere') end
          return nil
        end

        -- Admits an envelope for all nodes, and claims it for one. The rules are those of Admission.admit.
        -- Keys: digest, iv, device token, buckets of the app, of unproven device tokens and of HTTP, session.
        -- Arguments: 1 the session, 2 a hash of the ciphertext, 3 milliseconds that the claim may last, 4-11 interval and
        -- refill of a device token, the app, unproven device tokens and HTTP (0 over TNP), 12-15 the days of proven, dead
        -- and bound device tokens and of unsigned notifications, 16 the signer, 17 whether sender keys count,
        -- 18 why an unproven device token would be refused, or an empty text, 19-23 what the node knows of the device
        -- token: standing, since, day, sender, unsigned, 24 the earlier key whose binding the signer takes over.
        -- Returns {'claimed', standing, since, day, sender, unsigned, used part of the token's bucket}, {'final', sealed},
        -- {'over', what, milliseconds}, {'device', milliseconds, used part}, {'dead', since}, or one of elsewhere, iv,
        -- key_required, key_mismatch, proof, circuit.
        local function take(keys, arguments)
          local held = holder(keys[1], keys[7], arguments[1])
          if held then return held end
          local content = redis.call('GET', keys[2])
          if content and content ~= arguments[2] then return redis.status_reply('iv') end

          local now, days = time(), all_days(arguments, 12)
          local today = day(now)
          local device_interval, device_refill = tonumber(arguments[4]), tonumber(arguments[5])
          local record = stored_record(keys[3]) or {
            standing = tonumber(arguments[19]), since = arguments[20], day = math.min(tonumber(arguments[21]), today),
            sender = arguments[22], unsigned = tonumber(arguments[23]), full = 0
          }
          expire(record, today, days)

          local app = bucket(keys[4], now, tonumber(arguments[6]), tonumber(arguments[7]))
          local http = bucket(keys[6], now, tonumber(arguments[10]), tonumber(arguments[11]))
          local busy = math.max(app.wait(), http.wait())
          if busy > 0 then return {'over', 'node', milliseconds(busy)} end

          local refusal = nil
          local wait = wait_time(record.full, now, device_interval, device_refill)
          if record.standing == 2 then
            refusal = {'dead', record.since}
          elseif arguments[17] == '1' and arguments[16] == '' and record.sender ~= '' then
            refusal = redis.status_reply('key_required')
          elseif arguments[16] ~= '' and record.sender ~= '' and record.sender ~= arguments[16]
            and record.sender ~= arguments[24] then
            refusal = redis.status_reply('key_mismatch')
          elseif wait > 0 then
            refusal = {'device', milliseconds(wait), text(used_part(record.full, now, device_refill))}
          end

          local unproven = bucket(keys[5], now, tonumber(arguments[8]), tonumber(arguments[9]))
          if record.standing ~= 1 or refusal then
            if arguments[18] ~= '' then return redis.status_reply(arguments[18]) end
            local unproven_wait = unproven.wait()
            if unproven_wait > 0 then return {'over', 'unproven', milliseconds(unproven_wait)} end
          end
          if refusal then return refusal end

          app.take()
          http.take()
          if record.standing ~= 1 then unproven.take() end
          record.full = after_take(record.full, now, device_interval, device_refill)
          record.day = math.max(record.day, today)
          store_record(keys[3], record, now, days)
          redis.call('SET', keys[1], 'c' .. arguments[1], 'PX', arguments[3])
          redis.call('SET', keys[2], arguments[2], 'PX', arguments[3])
          return {'claimed', record.standing, record.since, record.day, record.sender, record.unsigned,
            text(used_part(record.full, now, device_refill))}
        end

        -- Claims an envelope that a node has stored before. Keys: digest, session.
        -- Arguments: the session, milliseconds that the claim may last.
        -- Returns {'final', sealed}, elsewhere or claimed.
        local function resume(keys, arguments)
          local held = holder(keys[1], keys[2], arguments[1])
          if held then return held end
          redis.call('SET', keys[1], 'c' .. arguments[1], 'PX', arguments[2])
          return redis.status_reply('claimed')
        end

        -- A stored envelope: s the session of the node that has it, or an empty text; d the key of its digest; v the
        -- sealed envelope; m is present if another node had it before.

        local longest_storage = 40 * 86400

        -- Gives a stored envelope to a session. `rows` is the beginning of the names of the sessions' envelopes.
        local function give(row, rows, sessions, session)
          local former = redis.call('HGET', row, 's')
          if former and former ~= session then
            redis.call('SREM', rows .. former, row)
            redis.call('HSET', row, 'm', 1)
          end
          redis.call('HSET', row, 's', session)
          redis.call('SADD', rows .. session, row)
          redis.call('SADD', sessions, session)
          redis.call('EXPIRE', rows .. session, longest_storage)
          redis.call('EXPIRE', sessions, longest_storage)
        end

        local function drop(row, rows, session)
          redis.call('SREM', rows .. (redis.call('HGET', row, 's') or session), row)
          redis.call('DEL', row)
        end

        -- Keeps an envelope that a node has stored, so that another node can deliver it if that node ends.
        -- Keys: stored envelope, digest, beginning of the sessions' envelopes, sessions with envelopes.
        -- Arguments: the session, the sealed envelope, milliseconds until it expires.
        local function keep(keys, arguments)
          local claim = redis.call('GET', keys[2])
          if claim and claim ~= 'c' .. arguments[1] then return redis.status_reply('ignored') end
          redis.call('HSET', keys[1], 'd', keys[2], 'v', arguments[2])
          redis.call('PEXPIRE', keys[1], arguments[3])
          give(keys[1], keys[3], keys[4], arguments[1])
          return redis.status_reply('OK')
        end

        -- Lists stored envelopes of sessions that have ended, in any order. They stay where they are until a node that has
        -- claimed and stored one keeps it.
        -- Keys: beginning of the sessions' envelopes, sessions with envelopes, beginning of the sessions.
        -- Arguments: the session, how many envelopes the node takes.
        -- Returns the key and the sealed text of each.
        local function adopt(keys, arguments)
          local session, room = arguments[1], tonumber(arguments[2])
          local adopted = {}
          local function lives(other) return redis.call('EXISTS', keys[3] .. other) == 1 end
          for _, former in ipairs(redis.call('SMEMBERS', keys[2])) do
            if #adopted < room and former ~= session and not lives(former) then
              for _, row in ipairs(redis.call('SRANDMEMBER', keys[1] .. former, room - #adopted)) do
                local fields = redis.call('HMGET', row, 'd', 'v')
                local claim = fields[1] and redis.call('GET', fields[1]) or ''
                local kind, claimant = string.sub(claim, 1, 1), string.sub(claim, 2)
                if kind == 'f' or not fields[1] then
                  redis.call('SREM', keys[1] .. former, row)
                  redis.call('DEL', row)
                elseif kind == 'c' and lives(claimant) then
                  if claimant ~= session then give(row, keys[1], keys[2], claimant) end
                else
                  adopted[#adopted + 1] = {row, fields[2]}
                end
              end
              if redis.call('SCARD', keys[1] .. former) == 0 then redis.call('SREM', keys[2], former) end
            end
          end
          return adopted
        end

        -- Records the outcome of an envelope that this node, or none, has claimed; once. What a push service has said counts
        -- also if another node has claimed the envelope meanwhile. Without an outcome, the envelope is free for another
        -- node. Only who has claimed it gets a refund.
        -- Keys: digest, iv, device token, buckets of the app, of unproven device tokens and of HTTP, stored envelope,
        -- beginning of the sessions' envelopes, sessions with envelopes.
        -- Arguments: 1 the session, 2 the sealed outcome, or an empty text if a resend is to be tried again,
        -- 3 milliseconds for which the outcome is remembered, 4-11 (0 for buckets that get no refund) and 12-15 as for
        -- take, 16 whether the device token gets a refund, 17 what the push service says of the device token (accepted,
        -- gone, bad or an empty text), 18 since when, 19 the signer that may bind it, 20 whether the notification was
        -- unsigned, 21 the earlier key whose binding the signer takes over.
        -- Returns {standing, since, day, sender, unsigned}, or ignored.
        local function conclude(keys, arguments)
          local session, outcome, event, since = arguments[1], arguments[2], arguments[17], arguments[18]
          local claim = redis.call('GET', keys[1])
          local is_claimed = claim == 'c' .. session
          local holder, was_adopted = unpack(redis.call('HMGET', keys[7], 's', 'm'))
          if claim and not is_claimed then
            local is_final = string.sub(claim, 1, 1) == 'f'
            if is_final or outcome == '' or event == '' then
              if is_final then
                drop(keys[7], keys[8], session)
              elseif holder == session then
                give(keys[7], keys[8], keys[9], '')
              end
              return redis.status_reply('ignored')
            end
          end
          if outcome ~= '' then
            local life = tonumber(arguments[3])
            -- Another node that has stored it may return, and try it until it expires.
            if was_adopted or (holder and holder ~= session) then life = math.max(life, redis.call('PTTL', keys[7])) end
            redis.call('SET', keys[1], 'f' .. outcome, 'PX', life)
            if redis.call('EXISTS', keys[2]) == 1 then redis.call('PEXPIRE', keys[2], arguments[3]) end
            drop(keys[7], keys[8], session)
          elseif is_claimed then
            redis.call('DEL', keys[1], keys[2])
            if holder then give(keys[7], keys[8], keys[9], '') end
          end

          local now, days = time(), all_days(arguments, 12)
          local today = day(now)
          local record = stored_record(keys[3])
            or {standing = 0, since = '0', day = today, sender = '', unsigned = 0, full = 0}
          expire(record, today, days)
          if is_claimed then
            for index = 4, 6 do
              bucket(keys[index], now, tonumber(arguments[index * 2 - 2]), tonumber(arguments[index * 2 - 1])).refund()
            end
            if arguments[16] == '1' then
              record.full = after_refund(record.full, now, tonumber(arguments[4]), tonumber(arguments[5]))
            end
          end
          if event == 'accepted' then
            local recently_unsigned = record.unsigned > 0
            if record.sender == '' and arguments[19] ~= '' and not recently_unsigned then
              record.sender, record.unsigned = arguments[19], 0
            elseif record.sender ~= '' and record.sender == arguments[21] and arguments[19] ~= '' then
              record.sender = arguments[19]
            elseif record.sender == '' and arguments[20] == '1' and days.quiet > 0 then
              record.unsigned = today
            end
            record.standing, record.day = 1, math.max(record.day, today)
            record.since = text(math.min(tonumber(since), math.floor(now / 1000)))
          elseif event == 'gone' then
            -- A push service that has accepted the device token later is right, unless a node's clock was ahead then.
            local accepted = record.standing == 1 and tonumber(record.since) or 0
            if accepted <= tonumber(since) or accepted > now / 1000 then
              record.standing, record.since, record.day = 2, since, math.max(record.day, today)
              record.sender, record.unsigned = '', 0
            end
          elseif event == 'bad' then
            record.standing = 0
          end
          store_record(keys[3], record, now, days)
          return {record.standing, record.since, record.day, record.sender, record.unsigned}
        end

        -- Unbinds a device token from its sender key. Keys: device token.
        -- Arguments: the only key that it is to be unbound from, or an empty text.
        -- Returns the number of bindings that this has ended.
        local function unbind(keys, arguments)
          local sender = redis.call('HGET', keys[1], 'k') or ''
          if sender == '' or (arguments[1] ~= '' and sender ~= arguments[1]) then return 0 end
          redis.call('HSET', keys[1], 'k', '', 'u', 0)
          return 1
        end

        -- Takes one from the budget of unproven device tokens for a REGISTER, or gives it back.
        -- Keys: bucket. Arguments: interval and refill, whether to give it back.
        -- Returns the milliseconds until the budget has one; 0 if it was taken.
        local function spend(keys, arguments)
          local budget = bucket(keys[1], time(), tonumber(arguments[1]), tonumber(arguments[2]))
          if arguments[3] == '1' then
            budget.refund()
            return 0
          end
          local wait = budget.wait()
          if wait == 0 then budget.take() end
          return milliseconds(wait)
        end

        -- A handle: q the sequence of its owner's last request, v the sealed record, s its state (0 not yet rung, 1 in use,
        -- 2 ended), t the time of its registration or last use.

        -- Compares sequences, which can be larger than a Lua number holds exactly.
        local function is_larger(one, other) return #one > #other or (#one == #other and one > other) end

        -- Takes over a node's record of a handle if it is newer.
        -- Keys: handle. Arguments: sequence, sealed record, state and time of the node's record; seconds for which to keep
        -- it. The first is an empty text if the node has no record.
        -- Returns {sequence, sealed, state, time} if the engine has a newer one.
        local function handle(keys, arguments)
          local sequence, sealed, state, used = unpack(redis.call('HMGET', keys[1], 'q', 'v', 's', 't'))
          local own = arguments[1]
          if sequence then
            local order = 0
            if own == '' or is_larger(sequence, own) then order = -1 elseif sequence ~= own then order = 1 end
            if order == 0 then order = tonumber(arguments[3]) - tonumber(state) end
            if order == 0 then order = tonumber(arguments[4]) - tonumber(used) end
            if order < 0 then return {sequence, sealed, tonumber(state), tonumber(used)} end
            if order == 0 then return false end
          end
          if own ~= '' then
            redis.call('HSET', keys[1], 'q', own, 'v', arguments[2], 's', arguments[3], 't', arguments[4])
            redis.call('EXPIRE', keys[1], arguments[5])
          end
          return false
        end

        -- Says that the phone behind a handle was rung. Keys: handle. Arguments: the day, seconds for which to keep it.
        local function ring(keys, arguments)
          local state, used = unpack(redis.call('HMGET', keys[1], 's', 't'))
          if not state or state == '2' then return 0 end
          if state == '0' or tonumber(used) < tonumber(arguments[1]) then
            redis.call('HSET', keys[1], 's', 1, 't', arguments[1])
            redis.call('EXPIRE', keys[1], arguments[2])
          end
          return 1
        end
        """
}
