// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// The proof of work that the node asks for (PROTOCOL §5).
public struct Puzzle: Equatable, Sendable {
    /// 16 bytes that the node chose.
    public var seed: [UInt8]
    /// Expected number of hashes for a proof; 0: nothing is asked.
    public var effort: UInt32
    /// Seconds for which the seed is still good.
    public var lifetime: UInt32

    /// Bytes of a seed.
    public static let seedLength = 16

    /// - Parameters: as the properties of the same names.
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

    /// How many bytes ``write(seed:digest:effort:into:)`` writes.
    private static func messageLength(seed: [UInt8]) -> Int {
        label.count + seed.count + Digest256.byteCount + MemoryLayout<UInt32>.size
    }

    /// Writes what is hashed, but for the nonce at its end.
    private static func write(seed: [UInt8], digest: Digest256, effort: UInt32, into output: inout OutputRawSpan) {
        for byte in label { output.append(byte, as: UInt8.self) }
        for byte in seed { output.append(byte, as: UInt8.self) }
        output.append(digest)
        output.append(effort.bigEndian, as: UInt32.self)
    }

    /// The hash that a proof is judged by. Allocates nothing.
    public static func hash(seed: [UInt8], digest: Digest256, effort: UInt32, nonce: UInt64) -> UInt64 {
        let length = messageLength(seed: seed) + MemoryLayout<UInt64>.size
        return BLAKE2b.hash256(scratch: length) { output in
            write(seed: seed, digest: digest, effort: effort, into: &output)
            output.append(nonce.bigEndian, as: UInt64.self)
        }.leading
    }

    /// Whether a hash is small enough for an effort. Any hash is for effort 0, where nothing is asked.
    public static func isSolved(hash: UInt64, effort: UInt32) -> Bool {
        effort == 0 || hash <= UInt64.max / UInt64(effort)
    }

    /// Whether `proof` holds for the envelope of `digest` under this seed. Says nothing of whether its effort is enough.
    public func holds(_ proof: Proof, for digest: Digest256) -> Bool {
        proof.effort > 0 && isMeant(by: proof)
            && Puzzle.isSolved(
                hash: Puzzle.hash(seed: seed, digest: digest, effort: proof.effort, nonce: proof.nonce),
                effort: proof.effort)
    }

    /// Whether `proof` is for this seed, as far as the four bytes that it names say so.
    public func isMeant(by proof: Proof) -> Bool {
        proof.seedPrefix.elementsEqual(seed.prefix(Proof.seedPrefixLength))
    }

    /// Looks for a proof for the envelope of `digest`, at this puzzle's effort, with at most `tries` hashes from nonce
    /// `start` on (after the largest comes 0); nil where there is none among them.
    public func solve(for digest: Digest256, from start: UInt64 = 0, tries: UInt64) -> Proof? {
        let effort = max(effort, 1)
        let nonce = BLAKE2b.firstNumber(from: start, tries: tries, after: Puzzle.messageLength(seed: seed)) {
            Puzzle.write(seed: seed, digest: digest, effort: effort, into: &$0)
        } where: {
            Puzzle.isSolved(hash: $0.leading, effort: effort)
        }
        return nonce.map { Proof(seedPrefix: Array(seed.prefix(Proof.seedPrefixLength)), effort: effort, nonce: $0) }
    }
}

/// What a sender shows for its work: field 0x10 of SUBMIT.
public struct Proof: Equatable, Sendable {
    /// The first 4 bytes of the seed that it is for.
    public var seedPrefix: [UInt8]
    /// The effort that it claims, at least the one asked for.
    public var effort: UInt32
    public var nonce: UInt64

    static let seedPrefixLength = 4
    static let length = 16

    /// - Parameters: as the properties of the same names.
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
