// SPDX-License-Identifier: Apache-2.0

import Redis

/// The data of a simulated engine, and the commands that functions.lua calls.
struct EngineStore {
    enum Value: Equatable {
        case text([UInt8])
        case hash([[UInt8]: [UInt8]])
        case members(Set<[UInt8]>)
    }

    struct Entry: Equatable {
        var value: Value
        /// When the entry expires, in milliseconds of the engine's wall clock; `nil` for never.
        var end: Int64?
    }

    private var entries: [[UInt8]: Entry] = [:]
    /// The keys that have changed since ``takeChanges()``.
    private var changed: Set<[UInt8]> = []

    // MARK: Replication

    /// Returns the entries that have changed since the last call; `nil` in place of those that are gone.
    mutating func takeChanges() -> [(key: [UInt8], entry: Entry?)] {
        defer { changed = [] }
        return changed.map { ($0, entries[$0]) }
    }

    /// Applies changes that a primary has made.
    mutating func apply(_ changes: [(key: [UInt8], entry: Entry?)]) {
        for (key, entry) in changes { entries[key] = entry }
    }

    // MARK: Commands

    /// Executes a command.
    /// - Parameter now: the engine's wall clock in microseconds.
    mutating func execute(_ words: [[UInt8]], at now: Int64) -> RedisReply {
        guard let first = words.first else { return .error("ERR no command") }
        let command = Command(words, now: now / 1000)
        switch String(decoding: first, as: UTF8.self) {
        case "TIME": return .array([.bytes(text(now / 1_000_000)), .bytes(text(now % 1_000_000))])
        case "GET": return read(command) { if case .text(let text) = $0 { .bytes(text) } else { nil } }
        case "SET": return set(command)
        case "EXISTS": return .integer(present(command) == nil ? 0 : 1)
        case "DEL":
            let keys = words.dropFirst().filter { entries[$0] != nil }
            for key in keys { store(nil, at: key) }
            return .integer(Int64(keys.count))
        case "HGET": return .array(fields(command)).elements?.first ?? .null
        case "HMGET": return .array(fields(command))
        case "HGETALL":
            let pairs = hash(command).sorted { $0.key.lexicographicallyPrecedes($1.key) }
            return .array(pairs.flatMap { [.bytes($0.key), .bytes($0.value)] })
        case "HSET":
            var fields = hash(command)
            let count = fields.count
            for index in stride(from: 0, to: command.arguments.count - 1, by: 2) {
                fields[command.arguments[index]] = command.arguments[index + 1]
            }
            change(command, to: .hash(fields))
            return .integer(Int64(fields.count - count))
        case "HDEL":
            var fields = hash(command)
            let count = fields.count
            for name in command.arguments { fields[name] = nil }
            change(command, to: fields.isEmpty ? nil : .hash(fields))
            return .integer(Int64(count - fields.count))
        case "SADD": return changeMembers(command) { $0.formUnion(command.arguments) }
        case "SREM": return changeMembers(command) { $0.subtract(command.arguments) }
        case "SCARD": return .integer(Int64(members(command).count))
        case "SMEMBERS": return .array(members(command).map { .bytes($0) })
        case "SRANDMEMBER": return .array(members(command).prefix(Int(command.number(0) ?? 1)).map { .bytes($0) })
        case "EXPIRE": return expire(command, in: (command.number(0) ?? 0) * 1000)
        case "PEXPIRE": return expire(command, in: command.number(0) ?? 0)
        case "PTTL":
            guard let entry = present(command) else { return .integer(-2) }
            return .integer(entry.end.map { $0 - command.now } ?? -1)
        default: return .error("ERR unknown command '\(String(decoding: first, as: UTF8.self))'")
        }
    }

    /// A command with a key.
    private struct Command {
        let key: [UInt8]
        let arguments: [[UInt8]]
        /// The wall clock in milliseconds.
        let now: Int64

        init(_ words: [[UInt8]], now: Int64) {
            (key, arguments, self.now) = (words.count > 1 ? words[1] : [], Array(words.dropFirst(2)), now)
        }

        func number(_ index: Int) -> Int64? {
            index < arguments.count
                ? Double(String(decoding: arguments[index], as: UTF8.self)).map { Int64($0) } : nil
        }

        func has(_ word: String) -> Int? { arguments.firstIndex(of: Array(word.utf8)) }
    }

    private func text(_ number: Int64) -> [UInt8] { Array("\(number)".utf8) }

    private mutating func store(_ entry: Entry?, at key: [UInt8]) {
        entries[key] = entry
        changed.insert(key)
    }

    /// The entry of a command's key; removes it first if it has expired.
    private mutating func present(_ command: Command) -> Entry? {
        guard let entry = entries[command.key] else { return nil }
        if let end = entry.end, end <= command.now {
            store(nil, at: command.key)
            return nil
        }
        return entry
    }

    private mutating func read(_ command: Command, _ take: (Value) -> RedisReply?) -> RedisReply {
        guard let entry = present(command) else { return .null }
        return take(entry.value) ?? .error("WRONGTYPE Operation against a key holding the wrong kind of value")
    }

    /// Changes a value, and leaves the time when it expires as it is. Removes the entry if `value` is `nil`.
    private mutating func change(_ command: Command, to value: Value?) {
        let end = present(command)?.end
        store(value.map { Entry(value: $0, end: end) }, at: command.key)
    }

    private mutating func set(_ command: Command) -> RedisReply {
        if command.has("NX") != nil, present(command) != nil { return .null }
        let end =
            command.has("KEEPTTL") != nil
            ? present(command)?.end
            : command.has("PX").flatMap { command.number($0 + 1) }.map { command.now + $0 }
        store(Entry(value: .text(command.arguments.first ?? []), end: end), at: command.key)
        return .status("OK")
    }

    private mutating func expire(_ command: Command, in milliseconds: Int64) -> RedisReply {
        guard var entry = present(command) else { return .integer(0) }
        entry.end = command.now + milliseconds
        store(entry, at: command.key)
        return .integer(1)
    }

    private mutating func hash(_ command: Command) -> [[UInt8]: [UInt8]] {
        if case .hash(let fields) = present(command)?.value { fields } else { [:] }
    }

    private mutating func fields(_ command: Command) -> [RedisReply] {
        let fields = hash(command)
        return command.arguments.map { fields[$0].map { .bytes($0) } ?? .null }
    }

    /// The members of a set, sorted, so that their order is the same in each run.
    private mutating func members(_ command: Command) -> [[UInt8]] {
        guard case .members(let members) = present(command)?.value else { return [] }
        return members.sorted { $0.lexicographicallyPrecedes($1) }
    }

    private mutating func changeMembers(_ command: Command, _ body: (inout Set<[UInt8]>) -> Void) -> RedisReply {
        var changed = Set(members(command))
        let count = changed.count
        body(&changed)
        change(command, to: changed.isEmpty ? nil : .members(changed))
        return .integer(Int64(abs(changed.count - count)))
    }
}
