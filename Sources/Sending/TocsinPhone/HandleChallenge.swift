// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The proof of work that a node requires of a REGISTER (PROTOCOL §5).
public struct HandleChallenge: Equatable, Sendable {
    /// The expected number of hashes; 0 if the node requires none.
    public let effort: UInt32
    /// The public key of the onion that a signature must name; `nil` over TNP, where the node names none.
    let onionKey: [UInt8]?
    private let seed: [UInt8]

    /// The greatest effort, in expected hashes, for which a phone searches.
    static let maximumEffort: UInt32 = 1 << 24

    static let path = "/v1/handles/challenge"
    private static let (seedLength, seedPrefix) = (16, 4)

    /// Reads the answer to `GET /v1/handles/challenge`.
    /// - Throws: ``PhoneError/badAnswer(_:)``.
    public init(_ body: [UInt8]) throws(PhoneError) {
        struct Fields: Decodable {
            let seed: String
            let effort: UInt32
            let onion: String
        }
        guard let fields = try? JSONDecoder().decode(Fields.self, from: Data(body)),
            let seed = Text.bytes(hex: fields.seed), seed.count == Self.seedLength,
            let onion = Text.bytes(hex: fields.onion)
        else { throw .badAnswer("the challenge lacks seed, effort or onion") }
        self.seed = seed
        effort = fields.effort
        onionKey = onion
    }

    /// Reads the payload of PUZZLE, or the same 24 bytes of WELCOME.
    init?(puzzle: some Collection<UInt8>) {
        guard puzzle.count == Self.seedLength + 8 else { return nil }
        seed = Array(puzzle.prefix(Self.seedLength))
        effort = UInt32(Text.number(puzzle.dropFirst(Self.seedLength).prefix(4)))
        onionKey = nil
    }

    /// Searches for a proof, which takes seconds on a slow phone: call it off the main thread.
    /// - Parameters:
    ///   - call: the REGISTER to prove.
    ///   - start: the first nonce to try.
    ///   - tries: the largest number of nonces to try.
    /// - Returns: the proof; `nil` if none of the nonces makes one.
    /// - Throws: ``PhoneError/badAnswer(_:)`` if the node requires more than 2^24 hashes.
    public func solve(
        for call: HandleCall, from start: UInt64 = 0, tries: UInt64 = .max
    ) throws(PhoneError) -> [UInt8]? {
        guard effort <= Self.maximumEffort else { throw .badAnswer("it requires more work than a phone can do") }
        let effort = max(self.effort, 1)
        let target = UInt64.max / UInt64(effort)
        var common = BLAKE2b()
        common.update(Array("tnp1-puzzle".utf8) + seed + call.digest + Text.bytes(effort))
        var nonce = start
        for _ in 0..<tries {
            var hash = common
            hash.update(Text.bytes(nonce))
            if Text.number(hash.finished().prefix(8)) <= target {
                return seed.prefix(Self.seedPrefix) + Text.bytes(effort) + Text.bytes(nonce)
            }
            nonce &+= 1
        }
        return nil
    }
}
