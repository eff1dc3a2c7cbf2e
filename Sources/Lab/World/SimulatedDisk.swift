// SPDX-License-Identifier: Apache-2.0

import CSQLite
import EventLoop
import Store
import Time

/// A disk in memory, under SQLite. A power failure may lose what was not flushed, and the disk can be full or broken,
/// or hang.
package final class SimulatedDisk: @unchecked Sendable {
    // Unchecked: a simulation has one thread.

    /// A write or a truncation that was not flushed yet.
    fileprivate struct Write {
        let offset: Int
        /// The bytes; `nil` if the file was truncated to `offset`.
        let bytes: [UInt8]?
    }

    /// A file, and what is shared between its open handles.
    final class File {
        fileprivate(set) var bytes: [UInt8] = []
        fileprivate var flushed: [UInt8] = []
        fileprivate var unflushed: [Write] = []
        /// The memory that SQLite's connections share (the WAL index).
        fileprivate var regions: [UnsafeMutableRawPointer] = []
        /// The open handles.
        fileprivate var handles: [Handle] = []

        fileprivate func apply(_ write: Write, to target: inout [UInt8]) {
            guard let bytes = write.bytes else {
                if target.count > write.offset { target.removeLast(target.count - write.offset) }
                return
            }
            let end = write.offset + bytes.count
            if target.count < end { target.append(contentsOf: repeatElement(0, count: end - target.count)) }
            target.withUnsafeMutableBytes { target in
                bytes.withUnsafeBytes {
                    UnsafeMutableRawBufferPointer(rebasing: target[write.offset..<end]).copyMemory(from: $0)
                }
            }
        }
    }

    /// An open file of one connection.
    final class Handle {
        let file: File
        let path: String
        let disk: SimulatedDisk
        fileprivate let process: SimulatedProcess
        /// The level of SQLite's lock on the database.
        var lock = SQLITE_LOCK_NONE
        /// The slots of the WAL index that this handle has locked, a bit for each.
        var shared: UInt32 = 0
        var exclusive: UInt32 = 0

        fileprivate init(_ file: File, path: String, disk: SimulatedDisk) {
            self.file = file
            self.path = path
            self.disk = disk
            process = disk.simulation.current
            file.handles.append(self)
        }

        func close() { file.handles.removeAll { $0 === self } }

        /// The other open handles of living processes.
        var others: [Handle] { file.handles.filter { $0 !== self && !$0.process.isKilled } }

        var isUsable: Bool { !process.isKilled }

        func write(_ bytes: [UInt8], at offset: Int) -> Int32 {
            guard process.operates() else { return SQLITE_IOERR }
            if disk.isBroken { return failed(SQLITE_IOERR) }
            let growth = max(0, offset + bytes.count - file.bytes.count)
            guard growth <= disk.free else { return failed(SQLITE_FULL) }
            disk.used += growth
            disk.perform(Write(offset: offset, bytes: bytes), on: file)
            return SQLITE_OK
        }

        func truncate(to size: Int) -> Int32 {
            guard process.operates() else { return SQLITE_IOERR }
            if disk.isBroken { return failed(SQLITE_IOERR) }
            disk.used -= max(0, file.bytes.count - size)
            disk.perform(Write(offset: size, bytes: nil), on: file)
            return SQLITE_OK
        }

        func flush() -> Int32 {
            guard process.operates() else { return SQLITE_IOERR }
            if disk.isBroken { return failed(SQLITE_IOERR) }
            for write in file.unflushed { file.apply(write, to: &file.flushed) }
            file.unflushed = []
            disk.flushes[path, default: Flushes()].succeeded(at: disk.simulation.now)
            return SQLITE_OK
        }

        private func failed(_ code: Int32) -> Int32 {
            disk.flushes[path, default: Flushes()].failed(at: disk.simulation.now)
            return code
        }

        func region(_ index: Int, size: Int, extends: Bool) -> UnsafeMutableRawPointer? {
            while extends, file.regions.count <= index {
                let region = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16)
                region.initializeMemory(as: UInt8.self, repeating: 0, count: size)
                file.regions.append(region)
            }
            return index < file.regions.count ? file.regions[index] : nil
        }
    }

    /// The size of the disk in bytes.
    package var size = 1 << 30
    /// Whether each write, truncation and flush fails.
    package var isBroken = false
    /// How long a background thread takes for its work on the disk.
    package var workTime: ClosedRange<Duration> = .microseconds(200)...(.milliseconds(3))
    /// Until when the background threads' work on the disk waits; `nil` for no wait.
    package var hangsUntil: MonotonicTime?
    /// The bytes of all files.
    package fileprivate(set) var used = 0
    private var flushes: [String: Flushes] = [:]

    let simulation: Simulation
    private var files: [String: File] = [:]
    private var random: SimulatedRandomNumbers

    /// Makes a disk for the SQLite databases of this process that are opened from now on beneath a path.
    /// - Parameters:
    ///   - name: seeds the disk's random numbers.
    ///   - beginning: what the paths of the disk's databases begin with; empty for all databases.
    package init(in simulation: Simulation, name: String = "disk", under beginning: String = "") {
        self.simulation = simulation
        random = simulation.random(name)
        SimulatedVFS.register(for: self, under: beginning)
    }

    /// Whether the disk works and has more than 64 MiB of free space.
    package var isInOrder: Bool { !isBroken && free > 64 << 20 }

    /// The bytes that are free.
    package var free: Int { max(0, size - used) }

    /// A time for which all that a process had queued before it for the database at `path` has been committed.
    package func certainFlush(of path: String) -> MonotonicTime {
        flushes["\(path)-wal"]?.certain ?? MonotonicTime(nanoseconds: 0)
    }

    /// How long the next work on the disk takes.
    package func nextWorkTime() -> Duration {
        let hang = hangsUntil.map { $0 - simulation.now } ?? .zero
        return hang + random.duration(in: workTime)
    }

    fileprivate func perform(_ write: Write, on file: File) {
        file.apply(write, to: &file.bytes)
        file.unflushed.append(write)
    }

    /// Forgets the open files of processes that have ended. All that they have written stays.
    package func processesEnded() {
        for file in files.values {
            // Never freed: the ended processes may still have pointers.
            file.regions = []
            file.handles = []
        }
    }

    /// Simulates a power failure: keeps what was flushed, and a random part of the rest. A write may be torn at a
    /// sector of 512 bytes.
    package func powerFailed() {
        processesEnded()
        for path in files.keys.sorted() {
            let file = files[path]!
            for write in file.unflushed {
                guard random.happens(perMille: 500) else { continue }
                guard var bytes = write.bytes, random.happens(perMille: 200) else {
                    file.apply(write, to: &file.flushed)
                    continue
                }
                bytes.removeLast(bytes.count - min(bytes.count, 512 * Int(random.next() % 9)))
                if !bytes.isEmpty { file.apply(Write(offset: write.offset, bytes: bytes), to: &file.flushed) }
            }
            file.unflushed = []
            used += file.flushed.count - file.bytes.count
            file.bytes = file.flushed
        }
    }

    // MARK: Files

    func open(_ path: String, creates: Bool) -> Handle? {
        if files[path] == nil {
            guard creates else { return nil }
            files[path] = File()
        }
        return files[path].map { Handle($0, path: path, disk: self) }
    }

    func remove(_ path: String) { if let file = files.removeValue(forKey: path) { used -= file.bytes.count } }

    func exists(_ path: String) -> Bool { files[path] != nil }

    func fill(_ bytes: UnsafeMutableRawBufferPointer) {
        for index in bytes.indices { bytes[index] = UInt8(truncatingIfNeeded: random.next()) }
    }
}

/// The recent flushes of one file, from which follows what has been committed.
private struct Flushes {
    /// All that was queued before this time has been committed: at least two transactions have been since, of which the
    /// first may have begun earlier.
    private(set) var certain = MonotonicTime(nanoseconds: 0)
    private var recent: [MonotonicTime] = []
    private var failure: MonotonicTime?

    /// A commit flushes the write-ahead log once, or twice if a checkpoint follows.
    private static let flushesOfTwoCommits = 4
    /// The time within which a process repeats a transaction that has failed. Until then, flushes of other transactions
    /// prove nothing.
    private static let maximumRepeat = Duration.seconds(5)

    mutating func succeeded(at now: MonotonicTime) {
        if let failure, now - failure < Self.maximumRepeat { return }
        recent.append(now)
        if recent.count > Self.flushesOfTwoCommits { recent.removeFirst() }
        if recent.count == Self.flushesOfTwoCommits { certain = recent[0] }
    }

    mutating func failed(at now: MonotonicTime) {
        failure = now
        recent = []
    }
}

extension SimulatedDisk: Disk {
    package func queue(_ label: String) -> any WorkQueue { SimulatedWorkQueue(self) }

    package func run(after delay: Duration, _ work: @escaping @Sendable () -> Void) {
        simulation.schedule(after: delay, work)
    }

    package func freeBytes(at path: String) -> Int { free }
}

/// A queue without a background thread: its work takes virtual time.
private final class SimulatedWorkQueue: WorkQueue, @unchecked Sendable {
    // Unchecked: a simulation has one thread.
    private let disk: SimulatedDisk
    private var waiting: [() -> Void] = []

    init(_ disk: SimulatedDisk) { self.disk = disk }

    func async(_ work: @escaping @Sendable () -> Void) {
        waiting.append(work)
        disk.simulation.schedule(after: disk.nextWorkTime()) { [self] in
            // A caller of `sync` may have run it already.
            if !waiting.isEmpty { waiting.removeFirst()() }
        }
    }

    func sync<Value>(_ work: () -> Value) -> Value {
        while !waiting.isEmpty { waiting.removeFirst()() }
        return work()
    }
}
