// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Foundation
import Glibc
import StandIns
import Store
import TestSupport
import Testing

@testable import Admission

@Suite(.tags(.sockets)) struct StandingStoreTests {
    private let fixture: Fixture

    init() throws { fixture = try Fixture() }

    // MARK: Saving and loading

    @Test func `saved rows with full 64-bit values survive closing the store`() async throws {
        let rows = [
            TokenRecord(token: 0, standing: 0, since: 0, day: 0, binding: 0),
            TokenRecord(token: .max, standing: .max, since: .max, day: .max, binding: .max),
            TokenRecord(token: 1 << 63, standing: 2, since: 1 << 63, day: 1 << 15, binding: 1 << 63),
            TokenRecord(token: (1 << 63) - 1, standing: 1, since: 1_700_000_000_000, day: 19_675, binding: 7),
        ]
        var store = try fixture.open()
        #expect(try store.rows().isEmpty)
        try await store.save(rows, forgetting: [])
        #expect(try same(store.rows(), rows))
        await store.close()

        store = try fixture.open()
        #expect(try same(store.rows(), rows))
        await store.close()
    }

    @Test func `the key survives closing the store`() async throws {
        var store = try fixture.open()
        let key = bytes(of: store.key)
        #expect(key.count == KeyFile.length && Set(key).count > 1)
        #expect(try Data(contentsOf: URL(fileURLWithPath: fixture.keyFile)) == Data(key))
        await store.close()
        store = try fixture.open()
        #expect(bytes(of: store.key) == key)
        await store.close()
    }

    @Test func `the day of the last use is the latest day of any row`() async throws {
        var generator = SplitMix64(seed: 1)
        let rows = (0..<1000).map { _ in makeRow(day: UInt16(truncatingIfNeeded: generator.next()), &generator) }
        let store = try fixture.open()
        #expect(try store.lastDay() == nil)
        try await store.save(rows, forgetting: [])
        #expect(try store.lastDay() == rows.map(\.day).max())
        await store.close()
    }

    @Test func `a store of the previous version keeps its rows`() async throws {
        var generator = SplitMix64(seed: 6)
        let rows = (0..<1000).map { _ in makeRow(day: UInt16(truncatingIfNeeded: generator.next()), &generator) }
        try await fixture.fill(0)
        // The table of version 2, with these rows.
        let (old, file) = (try #require(StoreKind.standing.migrations.first), try Connection(fixture.path))
        try file.execute("DROP TABLE standing; \(old); PRAGMA user_version = 2")
        for row in rows {
            try file.run(
                "INSERT INTO standing (token, standing, since, day, sender) VALUES (?, ?, ?, ?, ?)",
                [row.token, row.standing.rawValue, row.since, row.day, row.binding])
        }
        for _ in 0..<2 {
            let store = try fixture.open()
            #expect(try same(store.rows(), rows))
            await store.close()
        }
    }

    @Test func `a row replaces the earlier row of its token, even with another day`() async throws {
        let store = try fixture.open()
        var row = TokenRecord(token: 1, standing: 1, since: 2, day: 20_003, binding: 4)
        let other = TokenRecord(token: 2, standing: 1, since: 2, day: 20_004, binding: 4)
        try await store.save([row, other], forgetting: [])
        row.standing = .dead
        row.since = 5
        row.sender = 0
        try await store.save([row], forgetting: [])
        #expect(try store.rows() == [row, other])
        row.day = 20_006
        try await store.save([row], forgetting: [])
        #expect(try store.rows() == [row, other])
        await store.close()
    }

    @Test func `forgotten rows are removed, and forgetting an absent row has no effect`() async throws {
        var generator = SplitMix64(seed: 2)
        let rows = (0..<10).map { makeRow(day: UInt16($0), &generator) }
        let store = try fixture.open()
        try await store.save(rows, forgetting: [])
        try await store.save([], forgetting: rows.prefix(4).map(\.token) + [0xDEAD])
        #expect(try same(store.rows(), Array(rows.dropFirst(4))))
        try await store.save([], forgetting: rows.map(\.token))
        #expect(try store.rows().isEmpty)
        await store.close()
    }

    @Test func `a row that is forgotten and saved in one call is kept`() async throws {
        let store = try fixture.open()
        let row = TokenRecord(token: 1, standing: 1, since: 2, day: 3, binding: 4)
        for _ in 0..<2 {
            try await store.save([row], forgetting: [row.token])
            #expect(try store.rows() == [row])
        }
        await store.close()
    }

    @Test func `after any sequence of saves the store matches a dictionary`() async throws {
        var generator = SplitMix64(seed: 3)
        var expected: [UInt64: TokenRecord] = [:]
        var store = try fixture.open()
        for round in 0..<60 {
            // Few tokens, so that most exist already.
            var changed: [UInt64: TokenRecord] = [:]
            for _ in 0..<generator.below(40) {
                var row = makeRow(day: UInt16(generator.below(5)), &generator)
                row.token = UInt64(generator.below(100)) &* 0x9E37_79B9_7F4A_7C15
                changed[row.token] = row
            }
            let gone = (0..<generator.below(20)).map { _ in UInt64(generator.below(100)) &* 0x9E37_79B9_7F4A_7C15 }
            for token in gone { expected[token] = nil }
            expected.merge(changed) { _, new in new }
            try await store.save(Array(changed.values), forgetting: gone)
            if round.isMultiple(of: 10) {
                await store.close()
                store = try fixture.open()
            }
            #expect(try same(store.rows(), Array(expected.values)))
        }
        await store.close()
    }

    @Test func `saves run in the order of their calls`() async throws {
        let store = try fixture.open()
        await withTaskGroup(of: Void.self) { group in
            for token in 0..<20 as Range<UInt64> {
                group.addTask {
                    for since in 0..<20 as Range<UInt64> {
                        let row = TokenRecord(token: token, standing: 1, since: since, day: 1, binding: 0)
                        try? await store.save([row], forgetting: [])
                    }
                }
            }
        }
        let rows = try store.rows()
        #expect(rows.count == 20 && rows.allSatisfy { $0.since == 19 })
        await store.close()
    }

    @Test func `a closed store throws, and closing it twice is harmless`() async throws {
        let store = try fixture.open()
        let row = TokenRecord(token: 1, standing: 1, since: 2, day: 3, binding: 4)
        try await store.save([row], forgetting: [])
        await store.close()
        await store.close()
        let closed = StoreError(.closed, file: fixture.path, of: .standing)
        await #expect(throws: closed) { try await store.save([row], forgetting: []) }
        await #expect(throws: closed) { try await store.save([], forgetting: []) }
        #expect(throws: closed) { try store.load { _ in } }
    }

    @Test func `closing waits for earlier saves`() async throws {
        var generator = SplitMix64(seed: 4)
        let rows = (0..<5000).map { _ in makeRow(day: 1, &generator) }
        var store = try fixture.open()
        let saving = store
        // Runs synchronously until it suspends, so that the save comes before the close.
        let saved = Task.immediate { try await saving.save(rows, forgetting: []) }
        await store.close()
        try await saved.value
        store = try fixture.open()
        #expect(try same(store.rows(), rows))
        await store.close()
    }

    @Test func `saving and loading while the store closes either succeeds or throws`() async throws {
        let store = try fixture.open()
        let row = TokenRecord(token: 1, standing: 1, since: 2, day: 3, binding: 4)
        await withTaskGroup(of: StoreError?.self) { group in
            for number in 0..<200 {
                group.addTask {
                    do throws(StoreError) {
                        switch number % 10 {
                        case 0: if number >= 100 { await store.close() }
                        case 1: try store.load { _ in }
                        default: try await store.save([row], forgetting: [])
                        }
                        return nil
                    } catch {
                        return error
                    }
                }
            }
            for await error in group {
                #expect(error == nil || error == StoreError(.closed, file: fixture.path, of: .standing))
            }
        }
        let reopened = try fixture.open()
        #expect(try reopened.rows() == [row])
        await reopened.close()
    }

    @Test func `after a crash all saved rows are present`() async throws {
        var generator = SplitMix64(seed: 5)
        let rows = (0..<500).map { _ in makeRow(day: 1, &generator) }
        let store = try fixture.open()
        try await store.save(rows, forgetting: [])
        try await store.save([], forgetting: [rows[0].token])
        // The files as a crash would leave them, without SQLite's shared memory and the lock.
        let copy = try Fixture()
        defer { withExtendedLifetime(copy) {} }
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: fixture.path + suffix, toPath: copy.path + suffix)
        }
        try FileManager.default.copyItem(atPath: fixture.keyFile, toPath: copy.keyFile)
        let recovered = try copy.open()
        #expect(try same(recovered.rows(), Array(rows.dropFirst())))
        await recovered.close()
        await store.close()
    }

    // MARK: Secrecy on disk

    @Test func `neither tokens nor the key are readable on disk, open or closed`() async throws {
        let token = Hex.encode(BLAKE2b.hash256("a device token".utf8).prefix(32))
        let store = try fixture.open()
        let digest = BLAKE2b.hash256(token.utf8)
        let hash = store.key.keyedHash(of: digest, count: 16).prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        try await store.save(
            [TokenRecord(token: hash, standing: 1, since: 1_700_000_000_000, day: 19_675, binding: 0)], forgetting: [])
        let secrets = [
            Array(token.utf8), Hex.decode(token) ?? [], digest.prefix(8), bytes(of: store.key),
            // With either of these an attacker could compute the hash of any token.
            bytes(of: store.key.derivedKey(for: "tocsin-standing-check")),
        ]
        func expectUnreadable() throws {
            for file in try fixture.files() where file != fixture.keyFile {
                let data = try Data(contentsOf: URL(fileURLWithPath: file))
                for secret in secrets { #expect(!secret.isEmpty && data.range(of: Data(secret)) == nil) }
            }
        }
        try expectUnreadable()
        await store.close()
        try expectUnreadable()
        // The search works: it finds the hash in the same file.
        let data = try Data(contentsOf: URL(fileURLWithPath: fixture.path))
        #expect(data.range(of: rowID(hash)) != nil)
    }

    @Test func `forgotten rows are overwritten on disk`() async throws {
        let store = try fixture.open()
        let row = TokenRecord(
            token: 0x1122_3344_5566_7788, standing: 1, since: 2, day: 3, binding: 0x99AA_BBCC_DDEE_FF11)
        let other = TokenRecord(token: 1, standing: 1, since: 2, day: 3, binding: 4)
        try await store.save([row, other], forgetting: [])
        try await store.save([], forgetting: [row.token])
        await store.close()
        let data = try Data(contentsOf: URL(fileURLWithPath: fixture.path))
        #expect(data.range(of: rowID(row.token)) == nil)
        #expect(data.range(of: withUnsafeBytes(of: row.binding.bigEndian) { Data($0) }) == nil)
    }

    @Test func `all files are owner-only whatever the umask, even if they were not before`() async throws {
        var store = try withUmask(0) { try fixture.open() }
        try await store.save([TokenRecord(token: 1, standing: 1, since: 2, day: 3, binding: 4)], forgetting: [])
        #expect(try fixture.files().count == 5)
        #expect(try fixture.permissions() == [0o600])
        await store.close()
        #expect(chmod(fixture.path, 0o644) == 0)
        store = try withUmask(0) { try fixture.open() }
        try await store.save([TokenRecord(token: 1, standing: 1, since: 2, day: 4, binding: 4)], forgetting: [])
        #expect(try fixture.permissions() == [0o600])
        await store.close()
    }

    @Test func `a row prints as redacted`() {
        let row = TokenRecord(token: 1, standing: 1, since: 2, day: 3, binding: 4)
        #expect("\(row)" == "<redacted>" && String(reflecting: row) == "<redacted>")
    }

    // MARK: Files that are refused

    @Test func `a store in use is refused`() async throws {
        let store = try fixture.open()
        #expect(fixture.refusal() == StoreError(.inUse, file: fixture.path, of: .standing))
        await store.close()
        #expect(fixture.refusal() == nil)
    }

    @Test func `an empty file is a new store`() async throws {
        try Data().write(to: URL(fileURLWithPath: fixture.path))
        let store = try fixture.open()
        #expect(try store.rows().isEmpty)
        await store.close()
    }

    @Test func `an existing key is used for a new store`() async throws {
        let key = SecureRandom.bytes(KeyFile.length)
        try fixture.writeKey(key)
        let store = try fixture.open()
        #expect(bytes(of: store.key) == key)
        await store.close()
    }

    @Test func `a store without its key is refused, and no new key is created`() async throws {
        try await fixture.fill(1)
        try FileManager.default.removeItem(atPath: fixture.keyFile)
        #expect(fixture.refusal() == StoreError(.keyMissing(store: fixture.path), file: fixture.keyFile, of: .standing))
        #expect(!FileManager.default.fileExists(atPath: fixture.keyFile))
    }

    @Test func `a store that was moved away is created again with the existing key`() async throws {
        try await fixture.fill(3)
        let key = try Data(contentsOf: URL(fileURLWithPath: fixture.keyFile))
        try FileManager.default.moveItem(atPath: fixture.path, toPath: fixture.path + ".old")
        let store = try fixture.open()
        #expect(try store.rows().isEmpty)
        #expect(Data(bytes(of: store.key)) == key)
        await store.close()
    }

    @Test func `the key of another store is refused`() async throws {
        try await fixture.fill(1)
        try FileManager.default.removeItem(atPath: fixture.keyFile)
        try fixture.writeKey(SecureRandom.bytes(KeyFile.length))
        #expect(fixture.refusal() == StoreError(.wrongKey(store: fixture.path), file: fixture.keyFile, of: .standing))
    }

    @Test(arguments: [0, 31, 33, 64])
    func `a key of the wrong length is refused`(_ length: Int) throws {
        try fixture.writeKey(SecureRandom.bytes(length))
        #expect(fixture.refusal() == StoreError(.keyLength(length), file: fixture.keyFile, of: .standing))
    }

    @Test(arguments: [0o640, 0o604, 0o644] as [mode_t])
    func `a key that others can read is refused, with the command that fixes it`(_ permissions: mode_t) async throws {
        try await fixture.fill(1)
        #expect(chmod(fixture.keyFile, permissions) == 0)
        let refusal = try #require(fixture.refusal())
        #expect(refusal == StoreError(.keyReadableByOthers, file: fixture.keyFile, of: .standing))
        #expect(refusal.description.contains("chmod 600 \(fixture.keyFile)"))
    }

    @Test func `a key that is not a regular file is refused`() throws {
        #expect(mkfifo(fixture.keyFile, 0o600) == 0)
        #expect(fixture.refusal() == StoreError(.unusable("not a regular file"), file: fixture.keyFile, of: .standing))
    }

    @Test func `a damaged file is refused, wherever the damage is`() async throws {
        try await fixture.fill(2000)
        let whole = try Data(contentsOf: URL(fileURLWithPath: fixture.path))
        let pages = whole.count / 4096
        try #require(pages > 10)
        let damages: [(inout Data) -> Void] = [
            { $0.overwrite(0, 4096) },
            { $0.overwrite(100, 3996) },
            { $0.overwrite(pages / 2 * 4096, 4096) },
            { $0 = $0.prefix(pages / 2 * 4096) },
            { $0 = $0.prefix(100) },
            { $0 = Data(SecureRandom.bytes(50_000)) },
        ]
        for damage in damages {
            var damaged = whole
            damage(&damaged)
            try damaged.write(to: URL(fileURLWithPath: fixture.path))
            #expect(fixture.refusal() == StoreError(.damaged, file: fixture.path, of: .standing))
        }
        try whole.write(to: URL(fileURLWithPath: fixture.path))
        #expect(fixture.refusal() == nil)
    }

    @Test(arguments: ["standing = 256", "standing = -1", "day = 65536", "day = -1"])
    func `a row with values out of range is damage`(_ change: String) async throws {
        try await fixture.fill(2)
        try await fixture.change("PRAGMA ignore_check_constraints = ON; UPDATE standing SET \(change)")
        #expect(fixture.refusal() == StoreError(.damaged, file: fixture.path, of: .standing))
    }

    @Test func `a store without its key check value is damaged`() async throws {
        try await fixture.fill(2)
        try await fixture.change("DELETE FROM meta")
        #expect(fixture.refusal() == StoreError(.damaged, file: fixture.path, of: .standing))
    }

    @Test func `a text file is refused, even without a key`() throws {
        try Data("# my configuration\n".utf8).write(to: URL(fileURLWithPath: fixture.path))
        #expect(fixture.refusal() == StoreError(.damaged, file: fixture.path, of: .standing))
        #expect(!FileManager.default.fileExists(atPath: fixture.keyFile))
    }

    @Test(
        arguments: [
            "PRAGMA application_id = 252006674", "CREATE TABLE bookmark (url TEXT)",
            // The spool's application id.
            "PRAGMA application_id = 0x546F6373; CREATE TABLE envelope (id INTEGER)",
        ])
    func `a database of another program or of the spool is refused and left unchanged`(_ sql: String) async throws {
        try await fixture.change(sql)
        let before = try Data(contentsOf: URL(fileURLWithPath: fixture.path))
        #expect(fixture.refusal() == StoreError(.foreign, file: fixture.path, of: .standing))
        #expect(try Data(contentsOf: URL(fileURLWithPath: fixture.path)) == before)
    }

    @Test func `a store of a newer version is refused`() async throws {
        try await fixture.fill(1)
        try await fixture.change("PRAGMA user_version = 1000")
        #expect(fixture.refusal() == StoreError(.newer, file: fixture.path, of: .standing))
    }

    @Test func `a missing directory is named in the error`() throws {
        #expect(throws: StoreError(.unusable("No such file or directory"), file: "/nowhere/s.lock", of: .standing)) {
            try StandingStore(at: "/nowhere/s", keyFile: fixture.keyFile)
        }
    }

    @Test func `every error names the problem, the file, the remedy and its cost`() {
        let costly: [StoreError.Problem] = [
            .keyMissing(store: "/f"), .keyLength(3), .wrongKey(store: "/f"), .damaged, .newer,
        ]
        let cheap: [StoreError.Problem] = [
            .inUse, .keyReadableByOthers, .foreign, .diskFull, .closed, .unusable("r"),
        ]
        for kind in [
            StoreKind.standing,
            StoreKind(
                name: "other", lossWhenMoved: "all is lost", applicationID: 1, durability: .full, migrations: []),
        ] {
            for problem in costly + cheap {
                let text = StoreError(problem, file: "/f", of: kind).description
                #expect(text.contains("/f") && text.contains(";"))
                #expect(text.contains("away: \(kind.lossWhenMoved)") == costly.contains(problem))
            }
        }
    }

    // MARK: A full disk

    @Test(.enabled(if: SmallDisk.canBeMounted, "only root may mount the small disk that this needs"))
    func `a full disk fails only the save, and later saves succeed once there is room`() async throws {
        var generator = SplitMix64(seed: 6)
        let disk = try SmallDisk(kilobytes: 2048)
        let small = try Fixture(in: disk.path)
        defer { withExtendedLifetime((disk, small)) {} }
        var store = try small.open()
        try disk.occupy(kilobytes: 1024)
        var saved: [TokenRecord] = []
        var left: [TokenRecord] = []
        while left.isEmpty, saved.count < 100_000 {
            let rows = (0..<500).map { _ in makeRow(day: 1, &generator) }
            do {
                try await store.save(rows, forgetting: [])
                saved += rows
            } catch {
                #expect(error == StoreError(.diskFull, file: small.path, of: .standing))
                left = rows
            }
        }
        #expect(!left.isEmpty)
        // No row of the failed save, and all rows of the others.
        #expect(try same(store.rows(), saved))
        try disk.free()
        try await store.save(left, forgetting: [saved[0].token])
        await store.close()

        store = try small.open()
        #expect(try same(store.rows(), saved.dropFirst() + left))
        await store.close()
    }

    @Test(.enabled(if: SmallDisk.canBeMounted, "only root may mount the small disk that this needs"))
    func `if the log has filled the disk, the next save succeeds`() async throws {
        var generator = SplitMix64(seed: 8)
        let disk = try SmallDisk(kilobytes: 2048)
        let small = try Fixture(in: disk.path)
        defer { withExtendedLifetime((disk, small)) {} }
        var rows = (0..<1000).map { _ in makeRow(day: 1, &generator) }
        var store = try small.open()
        try await store.save(rows, forgetting: [])
        await store.close()
        store = try small.open()
        try disk.occupy(kilobytes: 1536)
        var failures = 0
        for round in 0..<100 as Range<UInt64> {
            for index in rows.indices { rows[index].since = round }
            do {
                try await store.save(rows, forgetting: [])
            } catch {
                #expect(error == StoreError(.diskFull, file: small.path, of: .standing))
                failures += 1
                try await store.save(rows, forgetting: [])
            }
        }
        #expect(failures > 0)
        #expect(try same(store.rows(), rows))
        await store.close()
    }
}

// MARK: Helpers

private func makeRow(day: UInt16, _ generator: inout SplitMix64) -> TokenRecord {
    TokenRecord(
        token: generator.next(), standing: UInt8(truncatingIfNeeded: generator.next()), since: generator.next(),
        day: 20_000 + day % 6000, binding: generator.next())
}

/// A row id of more than 56 bits as SQLite writes it: seven bits in each of eight bytes, then eight bits.
private func rowID(_ number: UInt64) -> Data {
    Data(
        (0..<8).map { 0x80 | UInt8(truncatingIfNeeded: number >> (57 - 7 * $0)) } + [UInt8(truncatingIfNeeded: number)])
}

/// Whether these are the same rows, in any order.
private func same(_ one: [TokenRecord], _ other: [TokenRecord]) -> Bool {
    one.sorted { $0.token < $1.token } == other.sorted { $0.token < $1.token }
}

private func bytes(of secret: SecretBytes) -> [UInt8] {
    secret.withBytes { span in (0..<span.byteCount).map { span.unsafeLoad(fromByteOffset: $0, as: UInt8.self) } }
}

private func withUmask<Value>(_ mask: mode_t, _ body: () throws -> Value) rethrows -> Value {
    let before = umask(mask)
    defer { umask(before) }
    return try body()
}

extension StandingStore {
    fileprivate func rows() throws -> [TokenRecord] {
        var rows: [TokenRecord] = []
        try load { rows.append($0) }
        return rows
    }
}

/// A directory for one store and its key, removed after the test.
private final class Fixture: Sendable {
    let directory: String
    var path: String { directory + "/standing" }
    var keyFile: String { directory + "/standing.key" }

    init(in parent: String = NSTemporaryDirectory()) throws {
        directory = "\(parent)/tocsin-standing-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: directory) }

    func open() throws(StoreError) -> StandingStore { try StandingStore(at: path, keyFile: keyFile) }

    /// The error of opening the store; `nil` if it opens.
    func refusal() -> StoreError? {
        do {
            _ = try open()
            return nil
        } catch {
            return error
        }
    }

    /// Creates a store with `count` rows.
    func fill(_ count: Int) async throws {
        var generator = SplitMix64(seed: 7)
        let store = try open()
        try await store.save((0..<count).map { makeRow(day: UInt16($0 % 50), &generator) }, forgetting: [])
        await store.close()
    }

    /// Changes the closed file as another program could.
    func change(_ sql: String) async throws {
        try Connection(path).execute(sql)
    }

    func writeKey(_ key: [UInt8]) throws {
        try Data(key).write(to: URL(fileURLWithPath: keyFile))
        #expect(chmod(keyFile, 0o600) == 0)
    }

    func files() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: directory).map { directory + "/" + $0 }
    }

    /// The distinct permissions of all files.
    func permissions() throws -> Set<mode_t> {
        var found: Set<mode_t> = []
        for file in try files() {
            var status = stat()
            let result = stat(file, &status)
            try #require(result == 0)
            found.insert(status.st_mode & 0o777)
        }
        return found
    }
}

/// A small file system in memory.
private final class SmallDisk: Sendable {
    let path: String

    static let canBeMounted: Bool = (try? SmallDisk(kilobytes: 64)) != nil

    struct NotMounted: Error {}

    init(kilobytes: Int) throws {
        let path = "\(NSTemporaryDirectory())/tocsin-disk-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        guard mount("tmpfs", path, "tmpfs", 0, "size=\(kilobytes)k") == 0 else {
            try? FileManager.default.removeItem(atPath: path)
            throw NotMounted()
        }
        self.path = path
    }

    deinit {
        umount(path)
        try? FileManager.default.removeItem(atPath: path)
    }

    func occupy(kilobytes: Int) throws {
        try Data(count: kilobytes * 1024).write(to: URL(fileURLWithPath: path + "/ballast"))
    }

    func free() throws { try FileManager.default.removeItem(atPath: path + "/ballast") }
}

extension Data {
    /// Overwrites `count` bytes from `start`.
    fileprivate mutating func overwrite(_ start: Int, _ count: Int) {
        replaceSubrange(start..<start + count, with: [UInt8](repeating: 0xFF, count: count))
    }
}
