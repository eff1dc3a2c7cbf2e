-- SPDX-License-Identifier: Apache-2.0

-- The functions that decide in the engine (Redis, "Redis functions"). Each call is atomic, and uses the engine's clock.
-- `library` is the name of the library, which FunctionLibrary.swift puts before this text.

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

-- Redis passes keys and arguments as lists. Wraps a function that gets them by these names instead.
local function named(key_names, argument_names, body)
  local function by_name(names, values)
    local fields = {}
    for index, name in ipairs(names) do fields[name] = values[index] end
    return fields
  end
  return function(keys, arguments)
    if #keys ~= #key_names or #arguments ~= #argument_names then
      return redis.error_reply('ERR takes ' .. #key_names .. ' keys and ' .. #argument_names .. ' arguments')
    end
    return body(by_name(key_names, keys), by_name(argument_names, arguments))
  end
end

-- Keys: schema, check, epoch, and for nodes with handles their check. Arguments: a value of each.
-- Returns the values in the engine.
local function open(keys, arguments)
  local values = {}
  for index, key in ipairs(keys) do values[index] = ensure(key, arguments[index]) end
  return values
end

local maximum_absence = 86400 * 1000000

-- For each node with a heartbeat in the last day: its name, the milliseconds since that heartbeat,
-- and its text. Then the names of all other nodes.
local function living(key, now)
  local fields = redis.call('HGETALL', key)
  local nodes, absent = {}, {}
  for index = 1, #fields, 2 do
    local seen, about = string.match(fields[index + 1], '^(%d+) (.*)$')
    local absence = now - tonumber(seen)
    if absence <= maximum_absence then
      nodes[#nodes + 1] = {fields[index], math.floor(absence / 1000), about}
    else
      absent[#absent + 1] = fields[index]
    end
  end
  return nodes, absent
end

-- Returns the time in microseconds, and the nodes of the last day.
local members = named({'nodes'}, {}, function(keys)
  local now = time()
  local nodes = living(keys.nodes, now)
  return {text(now), nodes}
end)

-- Records a node's heartbeat. life is the milliseconds until the session ends, former_session the
-- key of the session of the node's earlier process or an empty text.
-- Returns the time in microseconds, the nodes of the last day, what was stored under the node's
-- name before, 1 if the session existed or else 0, and the epoch or an empty text.
local renew = named({'session', 'nodes', 'epoch'}, {
  'life', 'name', 'about', 'former_session'
}, function(keys, arguments)
  local now = time()
  local before = redis.call('HGET', keys.nodes, arguments.name) or ''
  local existed = redis.call('EXISTS', keys.session)
  redis.call('SET', keys.session, '', 'PX', arguments.life)
  if arguments.former_session ~= '' then redis.call('DEL', arguments.former_session) end
  redis.call('HSET', keys.nodes, arguments.name, text(now) .. ' ' .. arguments.about)
  redis.call('PEXPIRE', keys.nodes, maximum_absence / 1000)
  local nodes, absent = living(keys.nodes, now)
  for _, name in ipairs(absent) do redis.call('HDEL', keys.nodes, name) end
  return {text(now), nodes, before, existed, redis.call('GET', keys.epoch) or ''}
end)

-- Removes a node that stops, and ends its session.
local leave = named({'session', 'nodes'}, {'name'}, function(keys, arguments)
  redis.call('DEL', keys.session)
  redis.call('HDEL', keys.nodes, arguments.name)
  return redis.status_reply('OK')
end)

-- The fields of a provider token, with its age in seconds; nil if there is none.
local function provider_token(key)
  local fields = redis.call('HMGET', key, 'id', 'sealed', 'issued')
  if not fields[1] then return nil end
  return {id = fields[1], sealed = fields[2], age = math.floor((time() - fields[3]) / 1000000)}
end

-- Stores a provider token, unless the engine has one that is younger than it or than the shortest
-- interval between two tokens. The age, that interval and the longest life are seconds. Releases
-- the lock.
-- Returns the sealed token that all nodes use now, and its age.
local offer = named({'token', 'lock'}, {
  'id', 'sealed', 'age', 'minimum_interval', 'maximum_life'
}, function(keys, arguments)
  redis.call('DEL', keys.lock)
  local present = provider_token(keys.token)
  if present and present.age < tonumber(arguments.minimum_interval) then return {present.sealed, present.age} end
  local age = tonumber(arguments.age)
  if present and present.age < age then return {present.sealed, present.age} end
  redis.call('HSET', keys.token, 'id', arguments.id, 'sealed', arguments.sealed,
    'issued', text(time() - age * 1000000))
  redis.call('EXPIRE', keys.token, math.max(1, tonumber(arguments.maximum_life) - age))
  return {arguments.sealed, age}
end)

local maximum_making = 5000

-- Asks for a provider token. refused is the id of a token that Apple has refused as expired, or an empty text;
-- renewal_age, from which on a token is renewed, and the shortest interval between two are seconds.
-- Returns the sealed token and its age; 'make' if the caller must make one and offer it; 'wait' if another node makes
-- the first one.
local token = named({'token', 'lock'}, {'refused', 'renewal_age', 'minimum_interval'}, function(keys, arguments)
  local present = provider_token(keys.token)
  local is_due = not present or present.age >= tonumber(arguments.renewal_age)
    or (present.id == arguments.refused and present.age >= tonumber(arguments.minimum_interval))
  if is_due and redis.call('SET', keys.lock, '', 'NX', 'PX', maximum_making) then
    return redis.status_reply('make')
  end
  if present then return {present.sealed, present.age} end
  return redis.status_reply('wait')
end)

-- Token buckets (GCRA, ITU-T I.371 annex A). A bucket is the time at which it is full again; interval and refill are
-- the microseconds in which it gains one token, and in which an empty one becomes full.

local function used_part(full, now, refill) return math.min(math.max(full - now, 0), refill) end

-- Microseconds until the bucket contains one token.
local function wait_time(full, now, interval, refill)
  return math.max(used_part(full, now, refill) + interval - refill, 0)
end

local function after_take(full, now, interval, refill)
  return now + math.min(used_part(full, now, refill) + interval, refill)
end

local function after_refund(full, now, interval, refill)
  return now + math.max(used_part(full, now, refill) - interval, 0)
end

-- A bucket that has a key of its own. An interval of 0 stands for no bucket: its functions then do
-- nothing.
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

-- The record of a device token, six numbers in a text: standing (0 unproven, 1 proven, 2 dead),
-- since when (Unix time in milliseconds), day of the last use, hash of the sender key (0 for none),
-- day of the last unsigned notification (0 for none), bucket (Unix time in microseconds).

local function record_from(numbers)
  local standing, since, day_used, sender, unsigned, full =
    string.match(numbers, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  return {
    standing = tonumber(standing), since = since, day = tonumber(day_used), sender = sender,
    unsigned = tonumber(unsigned), full = tonumber(full)
  }
end

local function stored_record(key)
  local found = redis.call('GET', key)
  return found and record_from(found) or nil
end

-- The text of a record, with this number as its last.
local function record_text(record, last)
  return string.format('%d %s %d %s %d %.0f', record.standing, record.since, record.day, record.sender, record.unsigned,
    last)
end

-- Expires the standing, the binding and the unsigned day of a record, by the rules of
-- AdmissionSettings.
local function expire(record, today, days)
  local age = math.max(0, today - record.day)
  if (record.standing == 1 and age >= days.proven) or (record.standing == 2 and age >= days.dead) then
    record.standing = 0
  end
  if age >= days.forget then record.sender = '0' end
  if record.unsigned > 0 and today - record.unsigned >= days.quiet then record.unsigned = 0 end
end

local function store_record(key, record, now, days)
  local life
  if record.standing ~= 0 or record.sender ~= '0' or record.unsigned > 0 then
    life = days.longest * 86400000
  else
    life = math.max(1, milliseconds(record.full - now))
  end
  redis.call('SET', key, record_text(record, record.full), 'PX', text(life))
end

-- The names of the numbers in a text of limits: interval and refill of a device token, the app, unproven device tokens
-- and HTTP (0 for none), and the days of proven, dead and bound device tokens and of unsigned notifications.
local rates, ages = {'device', 'app', 'unproven', 'http'}, {'proven', 'dead', 'forget', 'quiet'}

-- The parsed limits, by their texts: nodes send the same few texts in each call.
local known_limits, known_count = {}, 0

local function limits_from(numbers)
  local known = known_limits[numbers]
  if known then return known end
  local next_number = string.gmatch(numbers, '%d+')
  local limits = {days = {}}
  for _, name in ipairs(rates) do
    limits[name] = {interval = tonumber(next_number()), refill = tonumber(next_number())}
  end
  for _, name in ipairs(ages) do limits.days[name] = tonumber(next_number()) end
  local days = limits.days
  days.longest = math.max(days.proven, days.dead, days.forget, days.quiet)
  if known_count == 100 then known_limits, known_count = {}, 0 end
  known_limits[numbers], known_count = limits, known_count + 1
  return limits
end

-- One of the buckets with a key and limits of this name.
local function named_bucket(name, keys, limits, now)
  return bucket(keys[name], now, limits[name].interval, limits[name].refill)
end

-- {'final', the sealed outcome} if an envelope has one, elsewhere if another living node delivers
-- it, else nil.
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
-- content is a hash of the ciphertext, claim_life the milliseconds that the claim may last; app,
-- unproven and http are the buckets of the app, of unproven device tokens and of HTTP. signer is
-- the hash of the sender's or the handle owner's key, 0 for none; sender_keys_count is 1 if sender
-- keys count, else 0; obstacle is why an unproven device token would be refused, or an empty text;
-- record is what the node knows of the device token; predecessor is the hash of the earlier key
-- whose binding the signer takes over, 0 for none.
-- Returns {'claimed', the record with the used part of its bucket as the last number}, {'final', sealed},
-- {'over', what, milliseconds}, {'device', milliseconds, used part}, {'dead', since}, or one of elsewhere, iv,
-- key_required, key_mismatch, proof, circuit.
local take = named({'digest', 'iv', 'device', 'app', 'unproven', 'http', 'session'}, {
  'session', 'content', 'claim_life', 'limits', 'signer', 'sender_keys_count', 'obstacle', 'record', 'predecessor'
}, function(keys, arguments)
  local held = holder(keys.digest, keys.session, arguments.session)
  if held then return held end
  local content = redis.call('GET', keys.iv)
  if content and content ~= arguments.content then return redis.status_reply('iv') end

  local now, limits = time(), limits_from(arguments.limits)
  local today, device = day(now), limits.device
  local record = stored_record(keys.device)
  if not record then
    record = record_from(arguments.record)
    record.day = math.min(record.day, today)
  end
  expire(record, today, limits.days)

  local app = named_bucket('app', keys, limits, now)
  local http = named_bucket('http', keys, limits, now)
  local busy = math.max(app.wait(), http.wait())
  if busy > 0 then return {'over', 'node', milliseconds(busy)} end

  local refusal = nil
  local wait = wait_time(record.full, now, device.interval, device.refill)
  if record.standing == 2 then
    refusal = {'dead', record.since}
  elseif arguments.sender_keys_count == '1' and arguments.signer == '0' and record.sender ~= '0' then
    refusal = redis.status_reply('key_required')
  elseif arguments.signer ~= '0' and record.sender ~= '0' and record.sender ~= arguments.signer
    and record.sender ~= arguments.predecessor then
    refusal = redis.status_reply('key_mismatch')
  elseif wait > 0 then
    refusal = {'device', milliseconds(wait), text(used_part(record.full, now, device.refill))}
  end

  local unproven = named_bucket('unproven', keys, limits, now)
  if record.standing ~= 1 or refusal then
    if arguments.obstacle ~= '' then return redis.status_reply(arguments.obstacle) end
    local unproven_wait = unproven.wait()
    if unproven_wait > 0 then return {'over', 'unproven', milliseconds(unproven_wait)} end
  end
  if refusal then return refusal end

  app.take()
  http.take()
  if record.standing ~= 1 then unproven.take() end
  record.full = after_take(record.full, now, device.interval, device.refill)
  record.day = math.max(record.day, today)
  store_record(keys.device, record, now, limits.days)
  redis.call('SET', keys.digest, 'c' .. arguments.session, 'PX', arguments.claim_life)
  redis.call('SET', keys.iv, arguments.content, 'PX', arguments.claim_life)
  return {'claimed', record_text(record, used_part(record.full, now, device.refill))}
end)

-- Claims an envelope that a node has stored before.
-- Returns {'final', sealed}, elsewhere or claimed.
local resume = named({'digest', 'session'}, {'session', 'claim_life'}, function(keys, arguments)
  local held = holder(keys.digest, keys.session, arguments.session)
  if held then return held end
  redis.call('SET', keys.digest, 'c' .. arguments.session, 'PX', arguments.claim_life)
  return redis.status_reply('claimed')
end)

-- A stored envelope: s the session of the node that has it, or an empty text; d the key of its digest; v the sealed
-- envelope; m is present if another node had it before.

local maximum_storage = 40 * 86400

-- Gives a stored envelope to a session. The key of the set of a session's envelopes is `rows` and
-- the session.
local function give(row, rows, sessions, session)
  local former = redis.call('HGET', row, 's')
  if former and former ~= session then
    redis.call('SREM', rows .. former, row)
    redis.call('HSET', row, 'm', 1)
  end
  redis.call('HSET', row, 's', session)
  redis.call('SADD', rows .. session, row)
  redis.call('SADD', sessions, session)
  redis.call('EXPIRE', rows .. session, maximum_storage)
  redis.call('EXPIRE', sessions, maximum_storage)
end

local function drop(row, rows, session)
  redis.call('SREM', rows .. (redis.call('HGET', row, 's') or session), row)
  redis.call('DEL', row)
end

-- Keeps an envelope that a node has stored, so that another node can deliver it if that node ends.
-- of_sessions is the beginning of the keys of the sessions' sets of envelopes, sessions the set of
-- the sessions that have any; life is the milliseconds until the envelope expires.
local keep = named({'envelope', 'digest', 'of_sessions', 'sessions'}, {
  'session', 'sealed', 'life'
}, function(keys, arguments)
  local claim = redis.call('GET', keys.digest)
  if claim and claim ~= 'c' .. arguments.session then return redis.status_reply('ignored') end
  redis.call('HSET', keys.envelope, 'd', keys.digest, 'v', arguments.sealed)
  redis.call('PEXPIRE', keys.envelope, arguments.life)
  give(keys.envelope, keys.of_sessions, keys.sessions, arguments.session)
  return redis.status_reply('OK')
end)

-- Lists stored envelopes of sessions that have ended, in any order. They stay where they are until a node that has
-- claimed and stored one keeps it. keys.session is the beginning of the names of sessions; room is how many envelopes
-- the node takes.
-- Returns the key and the sealed text of each.
local adopt = named({'of_sessions', 'sessions', 'session'}, {'session', 'room'}, function(keys, arguments)
  local session, room = arguments.session, tonumber(arguments.room)
  local adopted = {}
  local function lives(other) return redis.call('EXISTS', keys.session .. other) == 1 end
  for _, former in ipairs(redis.call('SMEMBERS', keys.sessions)) do
    if #adopted < room and former ~= session and not lives(former) then
      for _, row in ipairs(redis.call('SRANDMEMBER', keys.of_sessions .. former, room - #adopted)) do
        local fields = redis.call('HMGET', row, 'd', 'v')
        local claim = fields[1] and redis.call('GET', fields[1]) or ''
        local kind, claimant = string.sub(claim, 1, 1), string.sub(claim, 2)
        if kind == 'f' or not fields[1] then
          redis.call('SREM', keys.of_sessions .. former, row)
          redis.call('DEL', row)
        elseif kind == 'c' and lives(claimant) then
          if claimant ~= session then give(row, keys.of_sessions, keys.sessions, claimant) end
        else
          adopted[#adopted + 1] = {row, fields[2]}
        end
      end
      if redis.call('SCARD', keys.of_sessions .. former) == 0 then redis.call('SREM', keys.sessions, former) end
    end
  end
  return adopted
end)

-- Records the outcome of an envelope once, if this node or none has claimed it. What a push service
-- has said counts also if another node has claimed the envelope meanwhile. Without an outcome, the
-- envelope is free for another node. Only the session that has claimed it gets a refund, from the
-- buckets whose limits are not 0. outcome is sealed, or an empty text if a resend is to be tried
-- again; memory is the milliseconds for which it is remembered. event is what the push service says
-- of the device token (accepted, gone, bad or an empty text), since its Unix time in milliseconds;
-- signer is the hash of the key to which an acceptance may bind it, predecessor that of the earlier
-- key whose binding the signer takes over. of_sessions is the beginning of the keys of the
-- sessions' sets of envelopes.
-- Returns the record with 0 as the last number, or ignored.
local conclude = named({
  'digest', 'iv', 'device', 'app', 'unproven', 'http', 'envelope', 'of_sessions', 'sessions'
}, {
  'session', 'outcome', 'memory', 'limits', 'refunds_device', 'event', 'since', 'signer', 'is_unsigned', 'predecessor'
}, function(keys, arguments)
  local session, outcome, event, since = arguments.session, arguments.outcome, arguments.event, arguments.since
  local claim = redis.call('GET', keys.digest)
  local is_claimed = claim == 'c' .. session
  local owner, was_adopted = unpack(redis.call('HMGET', keys.envelope, 's', 'm'))
  if claim and not is_claimed then
    local is_final = string.sub(claim, 1, 1) == 'f'
    if is_final or outcome == '' or event == '' then
      if is_final then
        drop(keys.envelope, keys.of_sessions, session)
      elseif owner == session then
        give(keys.envelope, keys.of_sessions, keys.sessions, '')
      end
      return redis.status_reply('ignored')
    end
  end
  if outcome ~= '' then
    local life = tonumber(arguments.memory)
    -- Another node that has stored it may return, and try it until it expires.
    if was_adopted or (owner and owner ~= session) then life = math.max(life, redis.call('PTTL', keys.envelope)) end
    redis.call('SET', keys.digest, 'f' .. outcome, 'PX', life)
    if redis.call('EXISTS', keys.iv) == 1 then redis.call('PEXPIRE', keys.iv, arguments.memory) end
    drop(keys.envelope, keys.of_sessions, session)
  elseif is_claimed then
    redis.call('DEL', keys.digest, keys.iv)
    if owner then give(keys.envelope, keys.of_sessions, keys.sessions, '') end
  end

  local now, limits = time(), limits_from(arguments.limits)
  local today, days = day(now), limits.days
  local record = stored_record(keys.device)
    or {standing = 0, since = '0', day = today, sender = '0', unsigned = 0, full = 0}
  expire(record, today, days)
  if is_claimed then
    for _, name in ipairs({'app', 'unproven', 'http'}) do named_bucket(name, keys, limits, now).refund() end
    if arguments.refunds_device == '1' then
      record.full = after_refund(record.full, now, limits.device.interval, limits.device.refill)
    end
  end
  if event == 'accepted' then
    local recently_unsigned = record.unsigned > 0
    if record.sender == '0' and arguments.signer ~= '0' and not recently_unsigned then
      record.sender, record.unsigned = arguments.signer, 0
    elseif record.sender ~= '0' and record.sender == arguments.predecessor and arguments.signer ~= '0' then
      record.sender = arguments.signer
    elseif record.sender == '0' and arguments.is_unsigned == '1' and days.quiet > 0 then
      record.unsigned = today
    end
    record.standing, record.day = 1, math.max(record.day, today)
    record.since = text(math.min(tonumber(since), math.floor(now / 1000)))
  elseif event == 'gone' then
    -- A push service that has accepted the device token later is right, unless a node's clock was ahead then.
    local accepted = record.standing == 1 and tonumber(record.since) or 0
    if accepted <= tonumber(since) or accepted > now / 1000 then
      record.standing, record.since, record.day = 2, since, math.max(record.day, today)
      record.sender, record.unsigned = '0', 0
    end
  elseif event == 'bad' then
    record.standing = 0
  end
  store_record(keys.device, record, now, days)
  return record_text(record, 0)
end)

-- Unbinds a device token from its sender key. sender is the only key that it is to be unbound from, 0 for any.
-- Returns the number of bindings that this has ended.
local unbind = named({'device'}, {'sender'}, function(keys, arguments)
  local record = stored_record(keys.device)
  if not record or record.sender == '0' then return 0 end
  if arguments.sender ~= '0' and record.sender ~= arguments.sender then return 0 end
  record.sender, record.unsigned = '0', 0
  redis.call('SET', keys.device, record_text(record, record.full), 'KEEPTTL')
  return 1
end)

-- Takes one from the budget of unproven device tokens for a REGISTER, or gives it back.
-- Returns the milliseconds until the budget has one; 0 if it was taken.
local spend = named({'budget'}, {'interval', 'refill', 'is_refund'}, function(keys, arguments)
  local budget = bucket(keys.budget, time(), tonumber(arguments.interval), tonumber(arguments.refill))
  if arguments.is_refund == '1' then
    budget.refund()
    return 0
  end
  local wait = budget.wait()
  if wait == 0 then budget.take() end
  return milliseconds(wait)
end)

-- A handle: q the sequence of its owner's last request, v the sealed record, s its state (0 not yet rung, 1 in use, 2
-- ended), t the Unix time of its registration or last use, in seconds.

-- Compares sequences, which can be larger than a Lua number holds exactly.
local function is_larger(one, other) return #one > #other or (#one == #other and one > other) end

-- Stores a node's record of a handle if it is newer than the engine's. The arguments are the node's
-- record, except life, the seconds for which to keep it; sequence is an empty text if the node has
-- none.
-- Returns {sequence, sealed, state, time} if the engine has a newer one.
local handle = named({'handle'}, {'sequence', 'sealed', 'state', 'used', 'life'}, function(keys, arguments)
  local sequence, sealed, state, used = unpack(redis.call('HMGET', keys.handle, 'q', 'v', 's', 't'))
  local own = arguments.sequence
  if sequence then
    local order = 0
    if own == '' or is_larger(sequence, own) then order = -1 elseif sequence ~= own then order = 1 end
    if order == 0 then order = tonumber(arguments.state) - tonumber(state) end
    if order == 0 then order = tonumber(arguments.used) - tonumber(used) end
    if order < 0 then return {sequence, sealed, tonumber(state), tonumber(used)} end
    if order == 0 then return false end
  end
  if own ~= '' then
    redis.call('HSET', keys.handle, 'q', own, 'v', arguments.sealed, 's', arguments.state, 't', arguments.used)
    redis.call('EXPIRE', keys.handle, arguments.life)
  end
  return false
end)

-- Records that the phone behind a handle was rung. life is the seconds for which to keep the
-- handle.
-- Returns 0 if the engine does not have the handle, or it has ended, else 1.
local ring = named({'handle'}, {'day', 'life'}, function(keys, arguments)
  local state, used = unpack(redis.call('HMGET', keys.handle, 's', 't'))
  if not state or state == '2' then return 0 end
  if state == '0' or tonumber(used) < tonumber(arguments.day) then
    redis.call('HSET', keys.handle, 's', 1, 't', arguments.day)
    redis.call('EXPIRE', keys.handle, arguments.life)
  end
  return 1
end)

redis.register_function(library .. '_open', open)
redis.register_function(library .. '_renew', renew)
redis.register_function(library .. '_leave', leave)
redis.register_function(library .. '_members', members)
redis.register_function(library .. '_offer', offer)
redis.register_function(library .. '_token', token)
redis.register_function(library .. '_take', take)
redis.register_function(library .. '_resume', resume)
redis.register_function(library .. '_conclude', conclude)
redis.register_function(library .. '_unbind', unbind)
redis.register_function(library .. '_keep', keep)
redis.register_function(library .. '_adopt', adopt)
redis.register_function(library .. '_handle', handle)
redis.register_function(library .. '_ring', ring)
redis.register_function(library .. '_spend', spend)
