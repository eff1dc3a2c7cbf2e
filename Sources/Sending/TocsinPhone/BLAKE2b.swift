// SPDX-License-Identifier: Apache-2.0

/// BLAKE2b with a hash of 32 bytes (RFC 7693), which swift-crypto lacks. A copy continues from what the value has
/// taken, so that a search for a proof of work takes its common beginning once.
struct BLAKE2b {
    static let hashLength = 32

    private static let blockLength = 128
    private static let (rounds, longestKey) = (12, 64)
    /// The fractional parts of the square roots of the first eight primes (RFC 7693 §2.6).
    private static let initial: [UInt64] = [
        0x6A09_E667_F3BC_C908, 0xBB67_AE85_84CA_A73B, 0x3C6E_F372_FE94_F82B, 0xA54F_F53A_5F1D_36F1,
        0x510E_527F_ADE6_82D1, 0x9B05_688C_2B3E_6C1F, 0x1F83_D9AB_FB41_BD6B, 0x5BE0_CD19_137E_2179,
    ]
    /// The order of a block's words in each round (RFC 7693 §2.7); the last two rounds repeat the first two.
    private static let schedule: [[Int]] = [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ]

    private var state = BLAKE2b.initial
    private var block: [UInt8] = []
    private var hashed: UInt64 = 0

    /// Starts a hash.
    /// - Parameter key: at most 64 bytes; empty for a hash without a key.
    init(key: [UInt8] = []) {
        precondition(key.count <= Self.longestKey)
        block.reserveCapacity(Self.blockLength)
        state[0] ^= 0x0101_0000 ^ UInt64(key.count) << 8 ^ UInt64(Self.hashLength)
        if !key.isEmpty { update(key + [UInt8](repeating: 0, count: Self.blockLength - key.count)) }
    }

    /// The hash of `bytes`.
    static func hash(_ bytes: [UInt8], key: [UInt8] = []) -> [UInt8] {
        var hash = BLAKE2b(key: key)
        hash.update(bytes)
        return hash.finished()
    }

    /// Hashes further bytes.
    mutating func update(_ bytes: some Sequence<UInt8>) {
        for byte in bytes {
            // The last block stays here until the end, even if it is full.
            if block.count == Self.blockLength {
                hashed &+= UInt64(Self.blockLength)
                compress(isLast: false)
                block.removeAll(keepingCapacity: true)
            }
            block.append(byte)
        }
    }

    /// The hash of all bytes so far.
    func finished() -> [UInt8] {
        var last = self
        last.hashed &+= UInt64(block.count)
        last.block += [UInt8](repeating: 0, count: Self.blockLength - block.count)
        last.compress(isLast: true)
        return last.state.prefix(Self.hashLength / 8).flatMap { word in
            (0..<8).map { UInt8(truncatingIfNeeded: word >> ($0 * 8)) }
        }
    }

    private mutating func compress(isLast: Bool) {
        let words = stride(from: 0, to: Self.blockLength, by: 8).map { start in
            block[start..<start + 8].reversed().reduce(UInt64(0)) { word, byte in word << 8 | UInt64(byte) }
        }
        var mixed = state + Self.initial
        mixed[12] ^= hashed
        if isLast { mixed[14] = ~mixed[14] }
        func mix(_ a: Int, _ b: Int, _ c: Int, _ d: Int, _ x: UInt64, _ y: UInt64) {
            func turn(_ value: UInt64, _ count: UInt64) -> UInt64 { value >> count | value << (64 - count) }
            mixed[a] = mixed[a] &+ mixed[b] &+ x
            mixed[d] = turn(mixed[d] ^ mixed[a], 32)
            mixed[c] = mixed[c] &+ mixed[d]
            mixed[b] = turn(mixed[b] ^ mixed[c], 24)
            mixed[a] = mixed[a] &+ mixed[b] &+ y
            mixed[d] = turn(mixed[d] ^ mixed[a], 16)
            mixed[c] = mixed[c] &+ mixed[d]
            mixed[b] = turn(mixed[b] ^ mixed[c], 63)
        }
        for round in 0..<Self.rounds {
            let order = Self.schedule[round % Self.schedule.count]
            for column in 0..<4 {
                mix(
                    column, 4 + column, 8 + column, 12 + column, words[order[2 * column]], words[order[2 * column + 1]])
            }
            for column in 0..<4 {
                mix(
                    column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4,
                    words[order[8 + 2 * column]], words[order[9 + 2 * column]])
            }
        }
        for index in state.indices { state[index] ^= mixed[index] ^ mixed[8 + index] }
    }
}
