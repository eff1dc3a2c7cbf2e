// SPDX-License-Identifier: Apache-2.0

import CSodium

/// Bytes that must not leak: in locked memory between guard pages, wiped when released, and printed as `<redacted>`.
public final class SecretBytes: @unchecked Sendable, Redacted {
    // Unchecked: the memory is written once, in init, and only read until deinit.
    private let memory: UnsafeMutableRawBufferPointer

    /// How many bytes there are.
    package var count: Int { memory.count }

    /// Copies `bytes` into memory of its own. The caller's copy is the caller's to wipe: see ``init(moving:)``.
    package init(_ bytes: some Collection<UInt8>) {
        Sodium.ready
        guard let base = sodium_malloc(max(bytes.count, 1)) else { fatalError("out of locked memory") }
        memory = UnsafeMutableRawBufferPointer(start: base, count: bytes.count)
        memory.copyBytes(from: bytes)
        sodium_mprotect_readonly(base)
    }

    /// Takes the bytes over and overwrites the caller's copy with zeros.
    package convenience init(moving bytes: inout [UInt8]) {
        self.init(bytes)
        bytes.withUnsafeMutableBytes { sodium_memzero($0.baseAddress, $0.count) }
        bytes = []
    }

    deinit { sodium_free(memory.baseAddress) }

    /// Lends the bytes for the length of the call; they must not be copied to where they could be logged.
    package func withBytes<Result>(_ body: (RawSpan) throws -> Result) rethrows -> Result {
        try body(UnsafeRawBufferPointer(memory).bytes)
    }

    func withUnsafeBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try body(UnsafeRawBufferPointer(memory))
    }
}
