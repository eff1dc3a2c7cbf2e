// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Glibc
import Store

/// One secret for each row of the spool, in a separate file; the row is sealed under its secret. When a row is removed,
/// its secret is overwritten in place, so that copies of the row in SQLite's log, in free pages or in free disk blocks
/// cannot be opened, even with the spool's key.
///
/// Only the spool's queue uses it once it is open: one thread at a time.
final class RowKeys {
    /// Bytes of a secret. All zeros mark a free slot.
    static let length = 32

    private let path: String
    private let descriptor: Int32
    /// Number of slots in the file, free ones included.
    private var slots = 0
    private var free: [Int] = []
    private var isDirty = false

    /// Opens the file, or creates an empty one, and destroys each secret without a row, which a crash may leave.
    /// - Parameter used: the slots of all rows.
    /// - Throws: `PrivateFileError`; `StoreError` with the problem `keyMissing` if the file lacks secrets of rows.
    init(at path: String, of spool: String, used: Set<Int>) throws {
        _ = try PrivateFile.ensure(path)
        try PrivateFile.restrict(path)
        self.path = path
        descriptor = open(path, O_RDWR | O_CLOEXEC)
        guard descriptor >= 0 else { throw PrivateFileError.system(path) }
        // Unused slots are overwritten; those after the last slot in use are then truncated.
        let size = Int(lseek(descriptor, 0, SEEK_END))
        let valid = 0..<size / Self.length
        guard used.allSatisfy(valid.contains) else {
            throw StoreError(.keyMissing(store: spool), file: path, of: .spool)
        }
        slots = (used.max() ?? -1) + 1
        for slot in 0..<(size + Self.length - 1) / Self.length where !used.contains(slot) {
            try write([UInt8](repeating: 0, count: Self.length), to: slot)
        }
        try sync()
        guard ftruncate(descriptor, off_t(slots * Self.length)) == 0 else { throw PrivateFileError.system(path) }
        free = (0..<slots).filter { !used.contains($0) }.reversed()
    }

    deinit { close(descriptor) }

    /// Makes a new secret. It is on disk after the next ``sync()``.
    func make() throws(PrivateFileError) -> (slot: Int, secret: [UInt8]) {
        let slot = free.popLast() ?? slots
        slots = max(slots, slot + 1)
        let secret = SecureRandom.bytes(Self.length)
        do {
            try write(secret, to: slot)
        } catch {
            free.append(slot)
            throw error
        }
        return (slot, secret)
    }

    /// The secret in a slot; all zeros, under which nothing is ever sealed, if the slot is free.
    /// - Throws: `PrivateFileError` if it cannot be read now.
    func secret(in slot: Int) throws(PrivateFileError) -> [UInt8] {
        var secret = [UInt8](repeating: 0, count: Self.length)
        guard pread(descriptor, &secret, secret.count, off_t(slot * Self.length)) == secret.count else {
            throw .system(path)
        }
        return secret
    }

    /// Overwrites the secret in a slot and frees the slot. The change is on disk after the next ``sync()``; if that
    /// fails, the next start destroys the secret.
    func destroy(_ slot: Int) {
        try? write([UInt8](repeating: 0, count: Self.length), to: slot)
        free.append(slot)
    }

    /// Flushes new and destroyed secrets to disk.
    func sync() throws(PrivateFileError) {
        guard isDirty else { return }
        guard fdatasync(descriptor) == 0 else { throw .system(path) }
        isDirty = false
    }

    private func write(_ bytes: [UInt8], to slot: Int) throws(PrivateFileError) {
        isDirty = true
        guard pwrite(descriptor, bytes, bytes.count, off_t(slot * Self.length)) == bytes.count else {
            throw .system(path)
        }
    }
}
