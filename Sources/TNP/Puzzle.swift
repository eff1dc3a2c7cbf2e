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

    /// The hash that a proof is judged by.
    public static func hash(seed: [UInt8], digest: Digest256, effort: UInt32, nonce: UInt64) -> UInt64 {
        var message = Array("tnp1-puzzle".utf8)
        message += seed
        message += digest.bytes
        message.append(bigEndian: effort)
        message.append(bigEndian: nonce)
        return BLAKE2b.hash256(message).leading
    }

    /// Whether a hash is small enough for an effort. Any hash is for effort 0, where nothing is asked.
    public static func isSolved(hash: UInt64, effort: UInt32) -> Bool {
        effort == 0 || hash <= UInt64.max / UInt64(effort)
    }

    /// Whether `proof` holds for the envelope of `digest` under this seed. Says nothing of whether its effort is enough.
    public func holds(_ proof: Proof, for digest: Digest256) -> Bool {
        proof.effort > 0 && proof.seedPrefix.elementsEqual(seed.prefix(Proof.seedPrefixLength))
            && Puzzle.isSolved(
                hash: Puzzle.hash(seed: seed, digest: digest, effort: proof.effort, nonce: proof.nonce),
                effort: proof.effort)
    }

    /// Looks for a proof for the envelope of `digest`, at this puzzle's effort, with at most `tries` hashes from nonce
    /// `start` on; nil where there is none among them.
    public func solve(for digest: Digest256, from start: UInt64 = 0, tries: UInt64) -> Proof? {
        for step in 0..<tries {
            let proof = Proof(
                seedPrefix: Array(seed.prefix(Proof.seedPrefixLength)), effort: max(effort, 1), nonce: start &+ step)
            if holds(proof, for: digest) { return proof }
        }
        return nil
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
