// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// The proof of work that the node requires (PROTOCOL §5).
public struct Puzzle: Equatable, Sendable {
    /// 16 bytes that the node has chosen.
    public var seed: [UInt8]
    /// The expected number of hashes for a proof; 0 if no proof is required.
    public var effort: UInt32
    /// How long the seed stays valid, in seconds.
    public var lifetime: UInt32

    /// The length of a seed, in bytes.
    public static let seedLength = 16

    /// Creates a puzzle; `seed` must be ``seedLength`` bytes.
    public init(seed: [UInt8], effort: UInt32, lifetime: UInt32) {
        precondition(seed.count == Self.seedLength)
        self.seed = seed
        self.effort = effort
        self.lifetime = lifetime
    }

    init(from reader: inout ByteReader) throws(ProtocolError) {
        seed = Array(try reader.take(Self.seedLength))
        effort = try reader.number()
        lifetime = try reader.number()
    }

    func encodePayload(into output: inout [UInt8]) {
        output += seed
        output.append(bigEndian: effort)
        output.append(bigEndian: lifetime)
    }

    private static let label = Array("tnp1-puzzle".utf8)

    /// The number of bytes that ``write(seed:digest:effort:into:)`` writes.
    private static func messageLength(seed: [UInt8]) -> Int {
        label.count + seed.count + Digest256.byteCount + MemoryLayout<UInt32>.size
    }

    /// Writes the input of the hash, without the nonce at its end.
    private static func write(seed: [UInt8], digest: Digest256, effort: UInt32, into output: inout OutputRawSpan) {
        for byte in label { output.append(byte, as: UInt8.self) }
        for byte in seed { output.append(byte, as: UInt8.self) }
        output.append(digest)
        output.append(effort.bigEndian, as: UInt32.self)
    }

    /// Computes the hash of a proof: its first 8 bytes as a number. Allocates nothing.
    public static func hash(seed: [UInt8], digest: Digest256, effort: UInt32, nonce: UInt64) -> UInt64 {
        let length = messageLength(seed: seed) + MemoryLayout<UInt64>.size
        return BLAKE2b.hash256(scratch: length) { output in
            write(seed: seed, digest: digest, effort: effort, into: &output)
            output.append(nonce.bigEndian, as: UInt64.self)
        }.leading
    }

    /// Whether a hash is small enough for an effort. Every hash is small enough for effort 0, which requires no work.
    public static func isSolved(hash: UInt64, effort: UInt32) -> Bool {
        effort == 0 || hash <= UInt64.max / UInt64(effort)
    }

    /// Whether `proof` is valid for the envelope with this digest under this seed. Does not check whether its effort is as
    /// high as required.
    public func isValid(_ proof: Proof, for digest: Digest256) -> Bool {
        proof.effort > 0 && matchesSeed(of: proof)
            && Puzzle.isSolved(
                hash: Puzzle.hash(seed: seed, digest: digest, effort: proof.effort, nonce: proof.nonce),
                effort: proof.effort)
    }

    /// Whether `proof` names the first four bytes of this seed.
    public func matchesSeed(of proof: Proof) -> Bool {
        proof.seedPrefix.elementsEqual(seed.prefix(Proof.seedPrefixLength))
    }

    /// Searches for a proof for the envelope with this digest, at this puzzle's effort.
    /// - Parameters:
    ///   - digest: the digest of the envelope.
    ///   - start: the first nonce; 0 follows the largest one.
    ///   - tries: the largest number of nonces to try.
    /// - Returns: a proof, or `nil` if none of the nonces makes one.
    public func solve(for digest: Digest256, from start: UInt64 = 0, tries: UInt64) -> Proof? {
        let effort = max(effort, 1)
        let nonce = BLAKE2b.findNonce(from: start, tries: tries, after: Puzzle.messageLength(seed: seed)) {
            Puzzle.write(seed: seed, digest: digest, effort: effort, into: &$0)
        } where: {
            Puzzle.isSolved(hash: $0.leading, effort: effort)
        }
        return nonce.map { Proof(seedPrefix: Array(seed.prefix(Proof.seedPrefixLength)), effort: effort, nonce: $0) }
    }
}

/// A sender's proof of work: field 0x10 of SUBMIT and REGISTER.
public struct Proof: Equatable, Sendable {
    /// The first 4 bytes of the seed that the proof is for.
    public var seedPrefix: [UInt8]
    /// The effort that the proof claims; it must be at least the required one.
    public var effort: UInt32
    /// The number that makes the hash small enough.
    public var nonce: UInt64

    static let seedPrefixLength = 4
    static let length = 16

    /// Creates a proof.
    public init(seedPrefix: [UInt8], effort: UInt32, nonce: UInt64) {
        self.seedPrefix = seedPrefix
        self.effort = effort
        self.nonce = nonce
    }

    init?(_ value: Bytes) {
        guard value.count == Self.length else { return nil }
        seedPrefix = Array(value.prefix(Self.seedPrefixLength))
        effort = value.dropFirst(4).prefix(4).number()!
        nonce = value.dropFirst(8).number()!
    }

    var encoded: [UInt8] {
        var output = seedPrefix
        output.append(bigEndian: effort)
        output.append(bigEndian: nonce)
        return output
    }
}
