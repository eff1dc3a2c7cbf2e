// SPDX-License-Identifier: Apache-2.0

import Glibc

/// A bounded hash table of the records of device tokens, by their keyed hashes. It uses open addressing with linear
/// probing, in many shards. Each shard has all of its slots from the start, so that the table never moves records to
/// grow. The operating system provides each page of memory when it is first touched. While at most half of the slots
/// are in use, a lookup touches one or two cache lines; in a full shard, more.
///
/// When a shard is full, it evicts the least valuable of 16 neighbouring records. The table is a class because its
/// memory must not be copied.
final class TokenTable {
    /// The maximum share of the capacity that one shard has.
    private static let recordsPerShard = 16_384
    /// The number of records that the table compares to choose one to evict.
    private static let evictionCandidates = 16
    /// The size in bytes above which the table uses huge pages: with small ones, a TLB miss costs as much as the access
    /// itself.
    private static let bytesForHugePages = 128 << 20

    /// All slots, shard by shard. An empty slot has the token 0.
    private let slots: UnsafeMutableBufferPointer<TokenRecord>
    private let slotsPerShard: Int
    private let shift: UInt64
    /// The maximum number of records in one shard: a little more than its share, because hashes do not fill all shards
    /// evenly.
    private let maximumPerShard: Int
    private var counts: [Int]
    /// The slot at which each shard starts its next search for a record to evict.
    private var evictionHands: [Int]
    private var swept = 0
    private(set) var count = 0
    /// The number of records of each standing, by its raw value.
    private var standings = [0, 0, 0]

    /// - Parameter capacity: the number of records that the table holds before it evicts any. Shards fill unevenly, so
    ///   that one may evict slightly earlier.
    init(capacity: Int) {
        let shape = Self.shape(capacity)
        shift = UInt64(shape.bits)
        maximumPerShard = shape.maximum
        slotsPerShard = shape.slots
        counts = Array(repeating: 0, count: 1 << shape.bits)
        evictionHands = counts
        let bytes = Self.maximumBytes(capacity: capacity)
        // The memory is filled with zeros, which are empty slots.
        let memory = mmap(nil, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
        guard let memory, memory != MAP_FAILED else {
            // Stopping is safe: mmap only reserves addresses, so it fails only here, before the node has accepted any
            // envelope.
            fatalError("no memory for \(capacity) device tokens: lower limits.device_tokens")
        }
        if bytes > Self.bytesForHugePages { madvise(memory, bytes, MADV_HUGEPAGE) }
        let all = slotsPerShard << shape.bits
        slots = UnsafeMutableBufferPointer(start: memory.bindMemory(to: TokenRecord.self, capacity: all), count: all)
    }

    deinit { munmap(slots.baseAddress, slots.count * MemoryLayout<TokenRecord>.stride) }

    /// The maximum size in bytes of a table of this capacity: 32 bytes per slot, 8 slots for 7 records, and 1/32 more
    /// if there are several shards.
    static func maximumBytes(capacity: Int) -> Int {
        let shape = shape(capacity)
        return shape.slots << shape.bits * MemoryLayout<TokenRecord>.stride
    }

    private static func shape(_ capacity: Int) -> (bits: Int, maximum: Int, slots: Int) {
        var bits = 0
        while capacity >> bits > recordsPerShard { bits += 1 }
        let share = (max(capacity, 1) + (1 << bits) - 1) >> bits
        let maximum = bits == 0 ? share : share + share / 32
        return (bits, maximum, maximum + maximum / 7 + 1)
    }

    @inline(__always)
    private func shard(of token: UInt64) -> Int { shift == 0 ? 0 : Int(token >> (64 - shift)) }

    /// The slot, counted within the shard, at which the search for a token's record starts.
    @inline(__always)
    private func home(of token: UInt64) -> Int {
        Int((token << shift).multipliedFullWidth(by: UInt64(slotsPerShard)).high)
    }

    /// The slot of a token's record, or the empty slot where the record belongs.
    @inline(__always)
    private func slot(of token: UInt64) -> Int {
        let first = shard(of: token) * slotsPerShard
        var index = home(of: token)
        while slots[first + index].token != token, slots[first + index].token != 0 {
            index += 1
            if index == slotsPerShard { index = 0 }
        }
        return first + index
    }

    /// The record of a token, if there is one.
    subscript(token: UInt64) -> TokenRecord? {
        let record = slots[slot(of: token)]
        return record.token == token && token != 0 ? record : nil
    }

    /// Changes the record of a token if there is one.
    /// - Returns: whether there is one.
    @discardableResult @inline(__always)
    func update(_ token: UInt64, _ change: (inout TokenRecord) -> Void) -> Bool {
        let slot = slot(of: token)
        guard slots[slot].token == token, token != 0 else { return false }
        let before = slots[slot].standing
        change(&slots[slot])
        recount(before, slots[slot].standing)
        return true
    }

    /// The number of records with this standing.
    func count(of standing: TokenRecord.Standing) -> Int { standings[Int(standing.rawValue)] }

    @inline(__always)
    private func recount(_ before: TokenRecord.Standing, _ after: TokenRecord.Standing) {
        guard before != after else { return }
        standings[Int(before.rawValue)] -= 1
        standings[Int(after.rawValue)] += 1
    }

    /// Inserts a record, or replaces the existing record of the same token. In a full shard it evicts a record of the
    /// same or a lower rank.
    /// - Returns: the evicted record, or the new record itself if it was not inserted.
    @discardableResult
    func insert(_ record: TokenRecord) -> TokenRecord? {
        insert(record) { $0.evictionRank <= record.evictionRank }
    }

    /// Inserts a stored record. In a full shard it evicts no record of the same rank that was used later.
    /// - Returns: the evicted record, or the stored record itself if it was not inserted.
    func restore(_ record: TokenRecord) -> TokenRecord? {
        insert(record) { $0.evictionOrder <= record.evictionOrder }
    }

    @inline(__always)
    private func insert(_ record: TokenRecord, evictingIf mayEvict: (TokenRecord) -> Bool) -> TokenRecord? {
        precondition(record.token != 0, "token 0 marks an empty slot")
        if update(record.token, { $0 = record }) { return nil }
        let shard = shard(of: record.token)
        var gone: TokenRecord?
        if counts[shard] >= maximumPerShard, let least = leastWorth(in: shard) {
            guard mayEvict(least) else { return record }
            remove(least.token)
            gone = least
        }
        slots[slot(of: record.token)] = record
        counts[shard] += 1
        count += 1
        standings[Int(record.standing.rawValue)] += 1
        return gone
    }

    /// Removes the record of a token.
    func remove(_ token: UInt64) {
        let found = slot(of: token)
        guard slots[found].token == token, token != 0 else { return }
        standings[Int(slots[found].standing.rawValue)] -= 1
        let shard = shard(of: token)
        let first = shard * slotsPerShard
        // Moves records behind the gap into it if that brings them nearer to their home slots. Otherwise a search would
        // end at the gap.
        var empty = found - first
        var next = empty
        while true {
            next = next + 1 == slotsPerShard ? 0 : next + 1
            let record = slots[first + next]
            if record.token == 0 { break }
            let fromHome = (next - home(of: record.token) + slotsPerShard) % slotsPerShard
            let fromEmpty = (next - empty + slotsPerShard) % slotsPerShard
            if fromHome >= fromEmpty {
                slots[first + empty] = record
                empty = next
            }
        }
        slots[first + empty] = TokenRecord()
        counts[shard] -= 1
        count -= 1
    }

    /// Tokens whose record is unsaved, `limit` of them at most. Reads the whole table.
    func unsaved(atMost limit: Int) -> [UInt64] {
        var found: [UInt64] = []
        for shard in counts.indices where counts[shard] > 0 {
            for record in slots[shard * slotsPerShard..<(shard + 1) * slotsPerShard]
            where record.token != 0 && record.isUnsaved {
                guard found.count < limit else { return found }
                found.append(record.token)
            }
        }
        return found
    }

    private func leastWorth(in shard: Int) -> TokenRecord? {
        var least: TokenRecord?
        var seen = 0
        for _ in 0..<slotsPerShard where seen < Self.evictionCandidates {
            let record = slots[shard * slotsPerShard + evictionHands[shard]]
            evictionHands[shard] = (evictionHands[shard] + 1) % slotsPerShard
            guard record.token != 0 else { continue }
            seen += 1
            if record.evictionOrder < least?.evictionOrder ?? .max { least = record }
        }
        return least
    }

    /// Checks a share of the slots, so that one call per second covers the table in about an hour. Removes each record
    /// for which `isOver` returns `true`; `isOver` may also change the record. Skips shards without records, without
    /// touching their memory.
    func sweep(_ isOver: (inout TokenRecord) -> Bool) {
        var budget = max(64, slots.count / 3600)
        var passed = 0
        while budget > 0, passed < slots.count {
            if swept >= slots.count { swept = 0 }
            if swept.isMultiple(of: slotsPerShard), counts[swept / slotsPerShard] == 0 {
                swept += slotsPerShard
                passed += slotsPerShard
                continue
            }
            budget -= 1
            let (token, before) = (slots[swept].token, slots[swept].standing)
            let isOver = token != 0 && isOver(&slots[swept])
            if token != 0 { recount(before, slots[swept].standing) }
            if isOver {
                // Another record may have moved up into the slot.
                remove(token)
            } else {
                swept += 1
                passed += 1
            }
        }
    }
}
