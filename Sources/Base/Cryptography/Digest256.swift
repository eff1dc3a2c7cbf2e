// SPDX-License-Identifier: Apache-2.0

/// A 256-bit digest. It is stored inline, so that comparing, hashing and copying it allocates nothing.
public struct Digest256: Hashable, Sendable, BitwiseCopyable {
    var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)

    /// The length of a digest in bytes.
    package static let byteCount = 32

    init(filling fill: (UnsafeMutableRawBufferPointer) -> Void) {
        withUnsafeMutableBytes(of: &words) { fill($0) }
    }

    /// Creates a digest from these bytes; `nil` unless there are exactly 32.
    package init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        withUnsafeMutableBytes(of: &words) { $0.copyBytes(from: bytes) }
    }

    /// The digest's 32 bytes.
    package var bytes: [UInt8] { withUnsafeBytes(of: words) { Array($0) } }

    /// The first eight bytes as a big-endian number.
    package var leading: UInt64 { UInt64(bigEndian: words.0) }

    /// The first `count` bytes (0–32).
    package func prefix(_ count: Int) -> [UInt8] { withUnsafeBytes(of: words) { Array($0.prefix(count)) } }

    /// The first 16 bytes as two big-endian numbers.
    package var leadingWords: (UInt64, UInt64) { (UInt64(bigEndian: words.0), UInt64(bigEndian: words.1)) }

    /// Calls `body` with the first `count` bytes (0–32).
    package func withPrefix<Result>(_ count: Int, _ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        withUnsafeBytes(of: words) { body(UnsafeBufferPointer(rebasing: $0.bindMemory(to: UInt8.self)[..<count])) }
    }

    /// Whether all 32 bytes are equal.
    public static func == (one: Self, other: Self) -> Bool {
        one.words.0 == other.words.0 && one.words.1 == other.words.1
            && one.words.2 == other.words.2 && one.words.3 == other.words.3
    }

    /// Hashes only the first eight bytes, because they are already uniformly distributed.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(words.0)
    }

    /// The hash for dictionaries: the digest's first eight bytes under a secret of this process. The bytes need no further
    /// mixing, and without the secret nobody can choose digests that share a place in a table.
    public func _rawHashValue(seed: Int) -> Int {
        let product = words.0.multipliedFullWidth(by: Self.secret)
        return Int(truncatingIfNeeded: product.high ^ product.low ^ UInt64(truncatingIfNeeded: seed))
    }

    private static let secret = UInt64.random(in: .min ... .max) | 1
}
