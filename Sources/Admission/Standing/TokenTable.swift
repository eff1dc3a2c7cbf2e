// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The records of device tokens by their keyed hashes, bounded: open addressing with linear probing in many parts, each
/// with all of its places from the start, so that nothing is ever moved to make room. The system gives the memory page by
/// page when it is touched; a lookup costs a line of it, or two.
///
/// When a part is full, what is worth least among a few neighbours goes. A class, as its memory is not to be copied.
final class TokenTable {
    /// Records of a part, at most, on average.
    private static let recordsOfAPart = 16_384
    /// Neighbours that are compared when one has to go.
    private static let neighbours = 16
    /// A table that is larger lies in large pages: to find a page then costs as much as to read it.
    private static let bytesForLargePages = 128 << 20

    /// All places, part by part; those without a record have the token 0.
    private let places: UnsafeMutableBufferPointer<TokenRecord>
    private let placesOfAPart: Int
    private let shift: UInt64
    /// The most records of one part: a little more than its share, as chance does not fill them evenly.
    private let mostOfAPart: Int
    private var counts: [Int]
    /// Where in each part the next one that has to go is looked for.
    private var hands: [Int]
    private var swept = 0
    private(set) var count = 0
    /// How many of them have which standing; by its raw value.
    private var standings = [0, 0, 0]

    /// - Parameter capacity: records that it holds at least before any has to go.
    init(capacity: Int) {
        let shape = Self.shape(capacity)
        shift = UInt64(shape.bits)
        mostOfAPart = shape.most
        placesOfAPart = shape.places
        counts = Array(repeating: 0, count: 1 << shape.bits)
        hands = counts
        let bytes = Self.mostBytes(capacity: capacity)
        // Zeros: as TokenRecord has it, an empty place.
        let memory = mmap(nil, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
        guard let memory, memory != MAP_FAILED else {
            // Only addresses are asked for, and only at the start, where nothing has been taken yet.
            fatalError("no memory for \(capacity) device tokens: lower limits.device_tokens")
        }
        if bytes > Self.bytesForLargePages { madvise(memory, bytes, MADV_HUGEPAGE) }
        let all = placesOfAPart << shape.bits
        places = UnsafeMutableBufferPointer(start: memory.bindMemory(to: TokenRecord.self, capacity: all), count: all)
    }

    deinit { munmap(places.baseAddress, places.count * MemoryLayout<TokenRecord>.stride) }

    /// Bytes that a table of this capacity takes at most: 32 a place, 8 places for 7 records, and a 32nd more of them
    /// where there are many parts.
    static func mostBytes(capacity: Int) -> Int {
        let shape = shape(capacity)
        return shape.places << shape.bits * MemoryLayout<TokenRecord>.stride
    }

    private static func shape(_ capacity: Int) -> (bits: Int, most: Int, places: Int) {
        var bits = 0
        while capacity >> bits > recordsOfAPart { bits += 1 }
        let share = (max(capacity, 1) + (1 << bits) - 1) >> bits
        let most = bits == 0 ? share : share + share / 32
        return (bits, most, most + most / 7 + 1)
    }

    @inline(__always)
    private func part(of token: UInt64) -> Int { shift == 0 ? 0 : Int(token >> (64 - shift)) }

    /// Where in its part a token's record is looked for first.
    @inline(__always)
    private func home(of token: UInt64) -> Int {
        Int((token << shift).multipliedFullWidth(by: UInt64(placesOfAPart)).high)
    }

    /// The place of a token's record, or the empty one where it would be.
    @inline(__always)
    private func place(of token: UInt64) -> Int {
        let first = part(of: token) * placesOfAPart
        var index = home(of: token)
        while places[first + index].token != token, places[first + index].token != 0 {
            index += 1
            if index == placesOfAPart { index = 0 }
        }
        return first + index
    }

    /// The record of a token, where there is one.
    subscript(token: UInt64) -> TokenRecord? {
        let record = places[place(of: token)]
        return record.token == token && token != 0 ? record : nil
    }

    /// Changes the record of a token where there is one.
    /// - Returns: whether there is.
    @discardableResult @inline(__always)
    func update(_ token: UInt64, _ change: (inout TokenRecord) -> Void) -> Bool {
        let place = place(of: token)
        guard places[place].token == token, token != 0 else { return false }
        let before = places[place].standing
        change(&places[place])
        recount(before, places[place].standing)
        return true
    }

    /// How many records have this standing.
    func count(of standing: TokenRecord.Standing) -> Int { standings[Int(standing.rawValue)] }

    @inline(__always)
    private func recount(_ before: TokenRecord.Standing, _ after: TokenRecord.Standing) {
        guard before != after else { return }
        standings[Int(before.rawValue)] -= 1
        standings[Int(after.rawValue)] += 1
    }

    /// Puts a record in, in the place of the one that its token has.
    /// - Returns: the one that had to go for it, or the record itself where it is not taken.
    @discardableResult
    func insert(_ record: TokenRecord) -> TokenRecord? {
        precondition(record.token != 0, "0 is an empty place")
        if update(record.token, { $0 = record }) { return nil }
        let part = part(of: record.token)
        var gone: TokenRecord?
        if counts[part] >= mostOfAPart, let least = leastWorth(in: part) {
            guard least.rank <= record.rank else { return record }
            remove(least.token)
            gone = least
        }
        places[place(of: record.token)] = record
        counts[part] += 1
        count += 1
        standings[Int(record.standing.rawValue)] += 1
        return gone
    }

    /// Removes the record of a token.
    func remove(_ token: UInt64) {
        let found = place(of: token)
        guard places[found].token == token, token != 0 else { return }
        standings[Int(places[found].standing.rawValue)] -= 1
        let part = part(of: token)
        let first = part * placesOfAPart
        // Those behind it that could stand nearer to their homes move up, so that no search ends too early.
        var empty = found - first
        var next = empty
        while true {
            next = next + 1 == placesOfAPart ? 0 : next + 1
            let record = places[first + next]
            if record.token == 0 { break }
            let fromHome = (next - home(of: record.token) + placesOfAPart) % placesOfAPart
            let fromEmpty = (next - empty + placesOfAPart) % placesOfAPart
            if fromHome >= fromEmpty {
                places[first + empty] = record
                empty = next
            }
        }
        places[first + empty] = TokenRecord()
        counts[part] -= 1
        count -= 1
    }

    private func leastWorth(in part: Int) -> TokenRecord? {
        var least: TokenRecord?
        var seen = 0
        for _ in 0..<placesOfAPart where seen < Self.neighbours {
            let record = places[part * placesOfAPart + hands[part]]
            hands[part] = (hands[part] + 1) % placesOfAPart
            guard record.token != 0 else { continue }
            seen += 1
            if record.worth < least?.worth ?? .max { least = record }
        }
        return least
    }

    /// Looks at about an hourly share of all places, where it is called each second: removes the records for which
    /// `isOver` says so, after it may have changed them. Parts without a record are passed over, and not touched.
    func sweep(_ isOver: (inout TokenRecord) -> Bool) {
        var budget = max(64, places.count / 3600)
        var passed = 0
        while budget > 0, passed < places.count {
            if swept >= places.count { swept = 0 }
            if swept.isMultiple(of: placesOfAPart), counts[swept / placesOfAPart] == 0 {
                swept += placesOfAPart
                passed += placesOfAPart
                continue
            }
            budget -= 1
            let (token, before) = (places[swept].token, places[swept].standing)
            let isOver = token != 0 && isOver(&places[swept])
            if token != 0 { recount(before, places[swept].standing) }
            if isOver {
                // Another may have moved up into its place.
                remove(token)
            } else {
                swept += 1
                passed += 1
            }
        }
    }
}
