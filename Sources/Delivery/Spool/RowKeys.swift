// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Glibc

/// The secrets that the rows of the spool are sealed under, one for each row, in a file of their own. A secret is
/// overwritten in place when its row is removed. What is left of the row in SQLite's log, in free pages or in free blocks of
/// the disk can then be opened by nobody, whoever has the spool's key.
///
/// Used by one thread at a time, the spool's queue.
final class RowKeys {
    /// Bytes of a secret. One of zeros only is none: its slot is free.
    static let length = 32

    private let path: String
    private let descriptor: Int32
    /// Slots of the file, free ones included.
    private var slots = 0
    private var free: [Int] = []
    private var isDirty = false

    /// Opens the file, or makes an empty one, and destroys each secret that no row uses: a crash has left it.
    /// - Parameter used: the slots of all rows.
    /// - Throws: `PrivateFileError`; ``SpoolError/keyMissing(file:spool:)`` where the file lacks secrets of rows.
    init(at path: String, of spool: String, used: Set<Int>) throws {
        _ = try PrivateFile.ensure(path)
        try PrivateFile.restrict(path)
        self.path = path
        descriptor = open(path, O_RDWR | O_CLOEXEC)
        guard descriptor >= 0 else { throw PrivateFileError.system(path) }
        // What lies behind the last slot in use goes with its blocks, and is overwritten before.
        let size = Int(lseek(descriptor, 0, SEEK_END))
        let whole = 0..<size / Self.length
        guard used.allSatisfy(whole.contains) else { throw SpoolError.keyMissing(file: path, spool: spool) }
        slots = (used.max() ?? -1) + 1
        for slot in 0..<(size + Self.length - 1) / Self.length where !used.contains(slot) {
            try write([UInt8](repeating: 0, count: Self.length), to: slot)
        }
        try sync()
        guard ftruncate(descriptor, off_t(slots * Self.length)) == 0 else { throw PrivateFileError.system(path) }
        free = (0..<slots).filter { !used.contains($0) }.reversed()
    }

    deinit { close(descriptor) }

    /// A new secret. It is on disk after the next ``sync()``.
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

    /// The secret of a slot. That of a free one is zeros, under which nothing was sealed.
    /// - Throws: `PrivateFileError` where it cannot be read now.
    func secret(in slot: Int) throws(PrivateFileError) -> [UInt8] {
        var secret = [UInt8](repeating: 0, count: Self.length)
        guard pread(descriptor, &secret, secret.count, off_t(slot * Self.length)) == secret.count else {
            throw .system(path)
        }
        return secret
    }

    /// Overwrites the secret of a slot, which is free then. On disk after the next ``sync()``; where that fails, the next
    /// start does it.
    func destroy(_ slot: Int) {
        try? write([UInt8](repeating: 0, count: Self.length), to: slot)
        free.append(slot)
    }

    /// Puts on disk what was made and destroyed.
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
