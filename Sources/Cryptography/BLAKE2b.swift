import CSodium

/// BLAKE2b with 256 bits of output (RFC 7693), by libsodium.
public enum BLAKE2b {
    /// The unkeyed hash of `bytes`.
    public static func hash256(_ bytes: some Sequence<UInt8>) -> Digest256 {
        if let digest = bytes.withContiguousStorageIfAvailable({ hash256(UnsafeRawBufferPointer($0), key: nil) }) {
            return digest
        }
        return Array(bytes).withUnsafeBytes { hash256($0, key: nil) }
    }

    /// The hash of `bytes` under `key` (16–64 bytes).
    public static func hash256(_ bytes: [UInt8], key: [UInt8]) -> Digest256 {
        bytes.withUnsafeBytes { message in key.withUnsafeBytes { hash256(message, key: $0) } }
    }

    /// Hashes what `fill` writes into a scratch buffer of at most `capacity` bytes, without allocating: `fill` returns
    /// how many it wrote.
    public static func hash256(
        scratch capacity: Int,
        _ fill: (inout OutputRawSpan) -> Void
    ) -> Digest256 {
        withUnsafeTemporaryAllocation(byteCount: capacity, alignment: 16) { scratch in
            var span = OutputRawSpan(buffer: scratch, initializedCount: 0)
            fill(&span)
            let count = span.finalize(for: scratch)
            return hash256(UnsafeRawBufferPointer(rebasing: scratch[..<count]), key: nil)
        }
    }

    private static func hash256(_ message: UnsafeRawBufferPointer, key: UnsafeRawBufferPointer?) -> Digest256 {
        Sodium.ready
        return Digest256 { output in
            crypto_generichash(
                output.baseAddress!, output.count,
                message.baseAddress, UInt64(message.count),
                key?.baseAddress, key?.count ?? 0
            )
        }
    }
}
