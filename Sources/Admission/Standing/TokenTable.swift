/// The records of device tokens by their keyed hashes, bounded: open addressing with linear probing in many small parts,
/// so that growing is never felt, a lookup costs one line of memory, and nothing is allocated for a record.
///
/// When a part is full, what is worth least among a few neighbours goes; or the newcomer itself, where all of them are
/// of a higher rank: a flood of unknown ones never pushes out a proven one.
struct TokenTable {
    /// One part: places for records, at most 7/8 of them taken.
    private struct Part {
        var places: [TokenRecord] = []
        var count = 0
        /// Where the next one that has to go is looked for.
        var hand = 0
    }

    /// Records of a part, at most, on average.
    private static let recordsOfAPart = 16_384
    /// Neighbours that are compared when one has to go.
    private static let neighbours = 16

    private var parts: [Part]
    private let shift: UInt64
    /// The most records of one part: a little more than its share, as chance does not fill them evenly.
    private let mostOfAPart: Int
    private var sweepPart = 0
    private var sweepPlace = 0
    private(set) var count = 0

    /// - Parameter capacity: records that it holds at least before any has to go.
    init(capacity: Int) {
        var bits = 0
        while capacity >> bits > Self.recordsOfAPart { bits += 1 }
        parts = Array(repeating: Part(), count: 1 << bits)
        shift = UInt64(bits)
        let share = (max(capacity, 1) + (1 << bits) - 1) >> bits
        mostOfAPart = bits == 0 ? share : share + share / 32
    }

    /// Bytes that a table of this capacity takes at most: 32 a place, 8 places for 7 records, and a 32nd more of them.
    static func mostBytes(capacity: Int) -> Int {
        let table = TokenTable(capacity: capacity)
        return table.parts.count * Self.places(for: table.mostOfAPart) * MemoryLayout<TokenRecord>.stride
    }

    private static func places(for records: Int) -> Int { records + records / 7 + 1 }

    @inline(__always)
    private func part(of token: UInt64) -> Int { shift == 0 ? 0 : Int(token >> (64 - shift)) }

    /// Where a token's record is looked for first.
    @inline(__always)
    private func home(of token: UInt64, among places: Int) -> Int {
        Int((token << shift).multipliedFullWidth(by: UInt64(places)).high)
    }

    /// The place of a token's record, or the empty one where it would be.
    @inline(__always)
    private func place(of token: UInt64, in part: Int) -> Int {
        parts[part].places.withUnsafeBufferPointer { places in
            var index = home(of: token, among: places.count)
            while places[index].token != token, places[index].token != 0 {
                index += 1
                if index == places.count { index = 0 }
            }
            return index
        }
    }

    /// The record of a token, where there is one.
    subscript(token: UInt64) -> TokenRecord? {
        @inline(__always) get {
            let part = part(of: token)
            guard parts[part].count > 0 else { return nil }
            let record = parts[part].places[place(of: token, in: part)]
            return record.token == token ? record : nil
        }
    }

    /// Changes the record of a token where there is one.
    /// - Returns: whether there is.
    @discardableResult @inline(__always)
    mutating func update(_ token: UInt64, _ change: (inout TokenRecord) -> Void) -> Bool {
        let part = part(of: token)
        guard parts[part].count > 0 else { return false }
        let place = place(of: token, in: part)
        guard parts[part].places[place].token == token else { return false }
        change(&parts[part].places[place])
        return true
    }

    /// Puts a record in, in the place of the one that its token has.
    /// - Returns: the one that had to go for it, or the record itself where it is not taken.
    @discardableResult
    mutating func insert(_ record: TokenRecord) -> TokenRecord? {
        if update(record.token, { $0 = record }) { return nil }
        let part = part(of: record.token)
        var gone: TokenRecord?
        if parts[part].count >= mostOfAPart, let least = leastWorth(in: part) {
            guard least.rank <= record.rank else { return record }
            remove(least.token)
            gone = least
        }
        if Self.places(for: parts[part].count + 1) > parts[part].places.count { grow(part) }
        put(record, in: part)
        return gone
    }

    private mutating func put(_ record: TokenRecord, in part: Int) {
        let place = place(of: record.token, in: part)
        parts[part].places[place] = record
        parts[part].count += 1
        count += 1
    }

    private mutating func grow(_ part: Int) {
        let old = parts[part].places
        let most = Self.places(for: mostOfAPart)
        let size = min(max(16, old.count + old.count / 2), max(most, 2))
        parts[part].places = Array(repeating: TokenRecord(), count: size)
        count -= parts[part].count
        parts[part].count = 0
        for record in old where record.token != 0 { put(record, in: part) }
    }

    /// Removes the record of a token.
    mutating func remove(_ token: UInt64) {
        let part = part(of: token)
        guard parts[part].count > 0 else { return }
        var empty = place(of: token, in: part)
        guard parts[part].places[empty].token == token else { return }
        // Those behind it that could stand nearer to their homes move up, so that no search ends too early.
        let size = parts[part].places.count
        var next = empty
        while true {
            next = next + 1 == size ? 0 : next + 1
            let record = parts[part].places[next]
            if record.token == 0 { break }
            let home = home(of: record.token, among: size)
            let fromHome = (next - home + size) % size
            let fromEmpty = (next - empty + size) % size
            if fromHome >= fromEmpty {
                parts[part].places[empty] = record
                empty = next
            }
        }
        parts[part].places[empty] = TokenRecord()
        parts[part].count -= 1
        count -= 1
    }

    private mutating func leastWorth(in part: Int) -> TokenRecord? {
        var least: TokenRecord?
        var seen = 0
        let size = parts[part].places.count
        for _ in 0..<size where seen < Self.neighbours {
            let record = parts[part].places[parts[part].hand % size]
            parts[part].hand = (parts[part].hand + 1) % size
            guard record.token != 0 else { continue }
            seen += 1
            if record.worth < least?.worth ?? .max { least = record }
        }
        return least
    }

    /// Looks at about an hourly share of all places, where it is called each second: removes the records for which
    /// `isOver` says so, after it may have changed them.
    mutating func sweep(_ isOver: (inout TokenRecord) -> Bool) {
        var budget = max(64, parts.count * Self.places(for: mostOfAPart) / 3600)
        var isWhole = 0
        while budget > 0, isWhole <= parts.count {
            guard sweepPlace < parts[sweepPart].places.count else {
                sweepPlace = 0
                sweepPart = (sweepPart + 1) % parts.count
                isWhole += 1
                continue
            }
            budget -= 1
            let token = parts[sweepPart].places[sweepPlace].token
            if token != 0, isOver(&parts[sweepPart].places[sweepPlace]) {
                // Another may have moved up into its place.
                remove(token)
            } else {
                sweepPlace += 1
            }
        }
    }
}
