// SPDX-License-Identifier: Apache-2.0

import CSQLite
import Glibc
import Time

/// SQLite's interface to a ``SimulatedDisk`` (SQLite, "The OS Backend (VFS) To SQLite").
enum SimulatedVFS {
    /// SQLite's file object, with the handle after SQLite's own fields.
    private struct OpenFile {
        var base: sqlite3_file
        var handle: Unmanaged<SimulatedDisk.Handle>?
    }

    /// The disks, and the beginning of the paths of their files. Unsafe, because a simulation has one thread.
    nonisolated(unsafe) private static var disks: [(beginning: String, disk: SimulatedDisk)] = []
    /// What SQLite can do with an open file; SQLite keeps the pointer. Unsafe for the same reason.
    nonisolated(unsafe) private static let methods = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)

    /// SQLITE_IOERR_SHORT_READ, a macro that Swift does not import.
    private static let shortRead = SQLITE_IOERR | (2 << 8)
    /// The Julian day of 1970-01-01, in milliseconds.
    private static let unixEpoch: Int64 = 210_866_760_000_000

    /// Makes SQLite use `disk` for all databases of this process whose paths have this beginning.
    static func register(for disk: SimulatedDisk, under beginning: String) {
        disks.removeAll { $0.beginning == beginning }
        disks.append((beginning, disk))
        registered
    }

    private static func disk(of path: String) -> SimulatedDisk? {
        disks.last { path.hasPrefix($0.beginning) }?.disk
    }

    /// Registers the interface, once.
    private static let registered: Void = {
        methods.initialize(to: fileMethods())
        let vfs = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        vfs.initialize(to: sqlite3_vfs())
        vfs.pointee.iVersion = 2
        vfs.pointee.szOsFile = Int32(MemoryLayout<OpenFile>.size)
        vfs.pointee.mxPathname = 512
        vfs.pointee.zName = UnsafePointer(strdup("simulated"))
        vfs.pointee.xOpen = { _, name, file, flags, outFlags in SimulatedVFS.open(name, file, flags, outFlags) }
        vfs.pointee.xDelete = { _, name, _ in
            let path = String(cString: name!)
            disk(of: path)?.remove(path)
            return SQLITE_OK
        }
        vfs.pointee.xAccess = { _, name, _, result in
            let path = String(cString: name!)
            result!.pointee = disk(of: path)?.exists(path) == true ? 1 : 0
            return SQLITE_OK
        }
        vfs.pointee.xFullPathname = { _, name, length, output in
            guard strlen(name!) < Int(length) else { return SQLITE_CANTOPEN }
            strcpy(output!, name!)
            return SQLITE_OK
        }
        vfs.pointee.xRandomness = { _, count, output in
            disks.last?.disk.fill(UnsafeMutableRawBufferPointer(start: output, count: Int(count)))
            return count
        }
        vfs.pointee.xSleep = { _, microseconds in microseconds }
        vfs.pointee.xCurrentTimeInt64 = { _, result in
            result!.pointee = SimulatedVFS.unixEpoch + UnixTime.milliseconds
            return SQLITE_OK
        }
        vfs.pointee.xGetLastError = { _, _, _ in 0 }
        sqlite3_vfs_register(vfs, 1)
    }()

    private static func open(
        _ name: UnsafePointer<CChar>?, _ file: UnsafeMutablePointer<sqlite3_file>?, _ flags: Int32,
        _ outFlags: UnsafeMutablePointer<Int32>?
    ) -> Int32 {
        let opened = UnsafeMutableRawPointer(file!).bindMemory(to: OpenFile.self, capacity: 1)
        // No methods: SQLite does not close a file that could not be opened.
        opened.initialize(to: OpenFile(base: sqlite3_file(pMethods: nil), handle: nil))
        let path = name.map { String(cString: $0) } ?? "temporary"
        guard let handle = disk(of: path)?.open(path, creates: flags & SQLITE_OPEN_CREATE != 0) else {
            return SQLITE_CANTOPEN
        }
        opened.pointee.handle = Unmanaged.passRetained(handle)
        opened.pointee.base.pMethods = UnsafePointer(methods)
        outFlags?.pointee = flags
        return SQLITE_OK
    }

    private static func opened(_ file: UnsafeMutablePointer<sqlite3_file>?) -> UnsafeMutablePointer<OpenFile> {
        UnsafeMutableRawPointer(file!).assumingMemoryBound(to: OpenFile.self)
    }

    private static func handle(_ file: UnsafeMutablePointer<sqlite3_file>?) -> SimulatedDisk.Handle {
        opened(file).pointee.handle!.takeUnretainedValue()
    }

    private static func fileMethods() -> sqlite3_io_methods {
        var methods = sqlite3_io_methods()
        methods.iVersion = 2
        methods.xClose = { file in
            let opened = SimulatedVFS.opened(file)
            opened.pointee.handle?.takeUnretainedValue().close()
            opened.pointee.handle?.release()
            opened.pointee.handle = nil
            return SQLITE_OK
        }
        methods.xRead = { file, target, count, offset in
            SimulatedVFS.read(SimulatedVFS.handle(file), target!, Int(count), Int(offset))
        }
        methods.xWrite = { file, bytes, count, offset in
            let bytes = Array(UnsafeRawBufferPointer(start: bytes, count: Int(count)))
            return SimulatedVFS.handle(file).write(bytes, at: Int(offset))
        }
        methods.xTruncate = { file, size in SimulatedVFS.handle(file).truncate(to: Int(size)) }
        methods.xSync = { file, _ in SimulatedVFS.handle(file).flush() }
        methods.xFileSize = { file, size in
            size!.pointee = sqlite3_int64(SimulatedVFS.handle(file).file.bytes.count)
            return SQLITE_OK
        }
        methods.xLock = { file, level in SimulatedVFS.lock(SimulatedVFS.handle(file), level) }
        methods.xUnlock = { file, level in
            SimulatedVFS.handle(file).lock = level
            return SQLITE_OK
        }
        methods.xCheckReservedLock = { file, result in
            let handle = SimulatedVFS.handle(file)
            result!.pointee = handle.others.contains { $0.lock >= SQLITE_LOCK_RESERVED } ? 1 : 0
            return SQLITE_OK
        }
        methods.xFileControl = { _, _, _ in SQLITE_NOTFOUND }
        methods.xSectorSize = { _ in 512 }
        methods.xDeviceCharacteristics = { _ in SQLITE_IOCAP_POWERSAFE_OVERWRITE }
        methods.xShmMap = { file, index, size, extends, result in
            let region = SimulatedVFS.handle(file).region(Int(index), size: Int(size), extends: extends != 0)
            result!.pointee = region
            return SQLITE_OK
        }
        methods.xShmLock = { file, first, count, flags in
            SimulatedVFS.lockSlots(SimulatedVFS.handle(file), first, count, flags)
        }
        methods.xShmBarrier = { _ in }
        methods.xShmUnmap = { file, _ in
            let handle = SimulatedVFS.handle(file)
            (handle.shared, handle.exclusive) = (0, 0)
            return SQLITE_OK
        }
        return methods
    }

    private static func read(
        _ handle: SimulatedDisk.Handle, _ target: UnsafeMutableRawPointer, _ count: Int, _ offset: Int
    ) -> Int32 {
        guard handle.isUsable else { return SQLITE_IOERR }
        let available = max(0, min(count, handle.file.bytes.count - offset))
        if available > 0 {
            handle.file.bytes.withUnsafeBytes {
                target.copyMemory(from: $0.baseAddress! + offset, byteCount: available)
            }
        }
        guard available < count else { return SQLITE_OK }
        // "The sqlite3_io_methods object": SQLite asks for zeros after a short read.
        memset(target + available, 0, count - available)
        return shortRead
    }

    private static func lock(_ handle: SimulatedDisk.Handle, _ level: Int32) -> Int32 {
        let highest = handle.others.map(\.lock).max() ?? SQLITE_LOCK_NONE
        let isFree =
            switch level {
            case SQLITE_LOCK_SHARED: highest < SQLITE_LOCK_PENDING
            case SQLITE_LOCK_RESERVED: highest < SQLITE_LOCK_RESERVED
            default: highest == SQLITE_LOCK_NONE
            }
        guard isFree else { return SQLITE_BUSY }
        handle.lock = max(handle.lock, level)
        return SQLITE_OK
    }

    private static func lockSlots(
        _ handle: SimulatedDisk.Handle, _ first: Int32, _ count: Int32, _ flags: Int32
    ) -> Int32 {
        let slots = ((UInt32(1) << UInt32(count)) - 1) << UInt32(first)
        if flags & SQLITE_SHM_UNLOCK != 0 {
            if flags & SQLITE_SHM_SHARED != 0 { handle.shared &= ~slots } else { handle.exclusive &= ~slots }
            return SQLITE_OK
        }
        let isShared = flags & SQLITE_SHM_SHARED != 0
        for other in handle.others
        where other.exclusive & slots != 0 || (!isShared && other.shared & slots != 0) {
            return SQLITE_BUSY
        }
        if isShared { handle.shared |= slots } else { handle.exclusive |= slots }
        return SQLITE_OK
    }
}
