// SPDX-License-Identifier: Apache-2.0

import CSodium

/// Secret bytes in locked memory between guard pages. They are wiped on release. Prints as `<redacted>`.
public final class SecretBytes: @unchecked Sendable, Redacted {
    // Unchecked: only init writes the memory.
    private let memory: UnsafeMutableRawBufferPointer

    /// The number of bytes.
    package var count: Int { memory.count }

    /// Copies `bytes` into locked memory. The caller must wipe its own copy; see ``init(moving:)``.
    package init(_ bytes: some Collection<UInt8>) {
        Sodium.initialised
        guard let base = sodium_malloc(max(bytes.count, 1)) else { fatalError("no locked memory for a secret") }
        memory = UnsafeMutableRawBufferPointer(start: base, count: bytes.count)
        memory.copyBytes(from: bytes)
        sodium_mprotect_readonly(base)
    }

    /// Moves the bytes into locked memory and overwrites the caller's copy with zeros.
    package convenience init(moving bytes: inout [UInt8]) {
        self.init(bytes)
        bytes.withUnsafeMutableBytes { sodium_memzero($0.baseAddress, $0.count) }
        bytes = []
    }

    deinit { sodium_free(memory.baseAddress) }

    /// Calls `body` with the bytes, which are valid only during the call. Do not copy them to a place from which they
    /// could be logged.
    package func withBytes<Result>(_ body: (RawSpan) throws -> Result) rethrows -> Result {
        try body(UnsafeRawBufferPointer(memory).bytes)
    }

    func withUnsafeBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try body(UnsafeRawBufferPointer(memory))
    }
}
