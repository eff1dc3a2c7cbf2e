// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Foundation
import Glibc
import Store
import Synchronization
import TNP
import TestSupport
import Testing

@testable import Delivery

// MARK: Stored envelopes

@Suite(.tags(.computing)) struct SpooledEnvelopeTests {
    @Test(arguments: EnvelopeFormat.allCases)
    func `an envelope of either format decodes with all its fields`(_ format: EnvelopeFormat) throws {
        let envelope = try makeEnvelope(
            app: "haveno", magic: .android, ttl: 77, priority: .conservePower, sound: false, collapseID: "trade-1",
            format: format)
        let spooled = SpooledEnvelope(app: "haveno-ö", format: format, envelope: envelope, expires: 1_700_000_077)
        let read = try #require(SpooledEnvelope(decoding: spooled.encoded))
        #expect(read.app == "haveno-ö" && read.format == format && read.expires == 1_700_000_077)
        expectSame(read.envelope, envelope)
    }

    @Test func `an envelope without options and app name decodes unchanged`() throws {
        let envelope = try makeEnvelope()
        let spooled = SpooledEnvelope(app: "", format: .pipe, envelope: envelope, expires: .max)
        let read = try #require(SpooledEnvelope(decoding: spooled.encoded))
        #expect(read.app.isEmpty && read.expires == .max)
        expectSame(read.envelope, envelope)
    }

    @Test(arguments: [nil, true, false] as [Bool?], [nil, true, false] as [Bool?])
    func `the sender's content-available and mutable-content flags decode unchanged`(
        _ contentAvailable: Bool?, _ mutableContent: Bool?
    )
        throws
    {
        for format in EnvelopeFormat.allCases {
            var envelope = try makeEnvelope(format: format)
            envelope.contentAvailable = contentAvailable
            envelope.mutableContent = mutableContent
            let spooled = SpooledEnvelope(app: "", format: format, envelope: envelope, expires: 1)
            let read = try #require(SpooledEnvelope(decoding: spooled.encoded))
            #expect(read.envelope.contentAvailable == contentAvailable)
            #expect(read.envelope.mutableContent == mutableContent)
            #expect(read.format == format)
        }
    }

    @Test func `an unknown kind does not decode`() throws {
        let encoded = try makeSpooled().encoded
        for kind in [0b11, 0b1100, 0b110000, 0b1000000, 0b10000000] as [UInt8] {
            var other = encoded
            other[1] |= kind
            #expect(SpooledEnvelope(decoding: other) == nil)
        }
    }

    @Test func `truncated bytes and other versions do not decode`() throws {
        let encoded = try makeSpooled().encoded
        for length in encoded.indices { #expect(SpooledEnvelope(decoding: Array(encoded.prefix(length))) == nil) }
        for index in 0..<2 {
            var other = encoded
            other[index] = 200
            #expect(SpooledEnvelope(decoding: other) == nil)
        }
    }

    @Test func `fields that violate the protocol do not decode`() throws {
        var encoded = try SpooledEnvelope(
            app: "bisq", format: .pipe, envelope: makeEnvelope(), expires: 1_700_000_000
        ).encoded
        // The sealed format requires an iv of 12 bytes.
        encoded[1] = 1
        #expect(SpooledEnvelope(decoding: encoded) == nil)
    }

    @Test func `outcomes decode unchanged`() {
        let outcomes: [Outcome] = [
            .delivered(id: "an-id"), .delivered(), .rejected(.badDeviceToken, text: "no such device"),
            .gone(since: 1_700_000_000_000), .gone(since: nil), .retry(.nodeBusy, after: 1000),
        ]
        for outcome in outcomes { #expect(Outcome(spooled: outcome.spooled) == outcome) }
        #expect(Outcome(spooled: []) == nil)
        let encoded = Outcome.delivered(id: "an-id").spooled
        #expect(Outcome(spooled: Array(encoded.prefix(7))) == nil)
        #expect(Outcome(spooled: [9] + encoded.dropFirst()) == nil)
    }

    @Test func `a spooled envelope prints as redacted`() throws {
        let spooled = try makeSpooled()
        #expect("\(spooled)" == "<redacted>" && String(reflecting: spooled) == "<redacted>")
    }
}

// MARK: Batches

@Suite(.tags(.computing)) struct SpoolInboxTests {
    private func finish(_ id: Int64) -> SpoolBatch.Finish {
        SpoolBatch.Finish(id: id, digest: BLAKE2b.hash256([]), outcome: .delivered(), keepUntil: nil)
    }

    @Test func `finishes that arrive while a batch runs go into the next batch together`() {
        var inbox = SpoolInbox()
        var steps = [inbox.add(finish(1)), inbox.add(finish(2))]
        #expect(steps == [.run, .wait])
        var batch = inbox.takeBatch()
        #expect(batch.finishes.map(\.id) == [1, 2])
        steps = [inbox.add(finish(3)), inbox.add(finish(4)), inbox.add(finish(5))]
        #expect(steps == [.wait, .wait, .wait])
        var followUp = inbox.batchEnded(left: [])
        #expect(followUp == SpoolInbox.FollowUp(runs: true, pauses: false))
        batch = inbox.takeBatch()
        #expect(batch.finishes.map(\.id) == [3, 4, 5])
        followUp = inbox.batchEnded(left: [])
        #expect(followUp == SpoolInbox.FollowUp(runs: false, pauses: false))
        let step = inbox.add(finish(6))
        #expect(step == .run)
    }

    @Test func `a batch has a maximum size`() {
        var inbox = SpoolInbox()
        for id in 0...Int64(SpoolInbox.maximumBatch) { _ = inbox.add(finish(id)) }
        let first = inbox.takeBatch()
        #expect(first.finishes.count == SpoolInbox.maximumBatch)
        let followUp = inbox.batchEnded(left: [])
        #expect(followUp.runs)
        let second = inbox.takeBatch()
        #expect(second.finishes.map(\.id) == [Int64(SpoolInbox.maximumBatch)])
    }

    @Test func `failed finishes go first in the next batch, after a pause`() {
        var inbox = SpoolInbox()
        _ = inbox.add(finish(1))
        let left = inbox.takeBatch().finishes
        var step = inbox.add(finish(2))
        #expect(step == .wait)
        var followUp = inbox.batchEnded(left: left)
        #expect(followUp == SpoolInbox.FollowUp(runs: false, pauses: true))
        step = inbox.add(finish(3))
        #expect(step == .wait)
        var runs = inbox.pauseEnded()
        #expect(runs)
        let batch = inbox.takeBatch()
        #expect(batch.finishes.map(\.id) == [1, 2, 3])
        followUp = inbox.batchEnded(left: [])
        #expect(followUp == SpoolInbox.FollowUp(runs: false, pauses: false))
        runs = inbox.pauseEnded()
        #expect(!runs)
    }

    @Test func `a closed inbox accepts nothing and starts nothing`() {
        var inbox = SpoolInbox()
        _ = inbox.add(finish(1))
        let closed = [inbox.close(), inbox.close()]
        #expect(closed == [true, false])
        let step = inbox.add(finish(2))
        #expect(step == .refused)
        let left = inbox.takeBatch().finishes
        let followUp = inbox.batchEnded(left: left)
        #expect(followUp == SpoolInbox.FollowUp(runs: false, pauses: false))
        let runs = inbox.pauseEnded()
        #expect(!inbox.isEmpty && !runs)
    }
}

// MARK: The spool

@Suite(.tags(.sockets)) struct SpoolTests {
    private let fixture: Fixture

    init() throws { fixture = try Fixture() }

    @Test func `stored envelopes survive closing the spool, in their order`() async throws {
        var spool = try fixture.open()
        let envelopes = try (0..<20).map { _ in try makeSpooled() }
        var ids: [Int64] = []
        for envelope in envelopes { ids.append(try await newID(of: spool.store(envelope))) }
        #expect(spool.count == 20)
        let bytes = spool.bytes
        await spool.close()

        spool = try fixture.open()
        #expect(spool.count == 20 && spool.bytes == bytes)
        let index = try await spool.index()
        #expect(index == ids)
        let loaded = try await spool.load(ids)
        #expect(loaded.map(\.id) == ids)
        for (row, envelope) in zip(loaded, envelopes) {
            #expect(row.envelope.app == envelope.app)
            expectSame(row.envelope.envelope, envelope.envelope)
        }
        let one = try await spool.load([ids[3], 1_000_000])
        #expect(one.map(\.id) == [ids[3]])
        await spool.close()
    }

    @Test func `a finished envelope is removed, and its id is not reused`() async throws {
        var spool = try fixture.open()
        let envelope = try makeSpooled()
        let first = try await newID(of: spool.store(envelope))
        spool.finish(id: first, digest: envelope.envelope.digest, outcome: .delivered(), keepUntil: nil)
        await spool.close()

        spool = try fixture.open()
        #expect(spool.count == 0 && spool.bytes == 0)
        let index = try await spool.index()
        #expect(index.isEmpty)
        let second = try await newID(of: spool.store(envelope))
        #expect(second > first)
        await spool.close()
    }

    @Test func `the same envelope is stored once`() async throws {
        let spool = try fixture.open()
        let envelope = try makeSpooled()
        let results = await fixture.storeAtOnce([SpooledEnvelope](repeating: envelope, count: 10), in: spool)
        let index = try await spool.index()
        let id = try #require(index.first)
        #expect(results.filter { $0 == .stored(id: id) }.count == 1)
        #expect(results.filter { $0 == .alreadyStored(id: id) }.count == 9)
        let later = await spool.store(envelope)
        #expect(later == .alreadyStored(id: id))
        #expect(spool.count == 1)
        await spool.close()
    }

    @Test func `an outcome is remembered until it expires, across a restart`() async throws {
        var spool = try fixture.open()
        let envelope = try makeSpooled()
        let id = try await newID(of: spool.store(envelope))
        let outcome = Outcome.delivered(id: "an-id")
        spool.finish(
            id: id, digest: envelope.envelope.digest, outcome: outcome, keepUntil: fixture.clock.now + 60)
        await spool.close()

        spool = try fixture.open()
        var result = await spool.store(envelope)
        #expect(result == .alreadyFinal(outcome))
        // A second outcome does not replace the first.
        spool.finish(
            id: id, digest: envelope.envelope.digest, outcome: .gone(since: nil), keepUntil: fixture.clock.now + 60)
        fixture.clock.advance(by: 59)
        result = await spool.store(envelope)
        #expect(result == .alreadyFinal(outcome))
        fixture.clock.advance(by: 1)
        _ = try await newID(of: spool.store(envelope))
        #expect(spool.bytes == fixture.size(of: envelope))
        await spool.close()
    }

    @Test func `storing an envelope removes expired outcomes`() async throws {
        let spool = try fixture.open()
        for _ in 0..<20 {
            let envelope = try makeSpooled()
            let id = try await newID(of: spool.store(envelope))
            spool.finish(
                id: id, digest: envelope.envelope.digest, outcome: .delivered(), keepUntil: fixture.clock.now + 60)
        }
        try await eventually { spool.count == 0 }
        #expect(spool.bytes > 0)
        fixture.clock.advance(by: 60)
        let last = try makeSpooled()
        _ = try await newID(of: spool.store(last))
        #expect(spool.bytes == fixture.size(of: last))
        await spool.close()
    }

    @Test func `concurrent stores share few transactions`() async throws {
        let spool = try fixture.open()
        let envelopes = try (0..<1000).map { _ in try makeSpooled() }
        let before = spool.transactions.load(ordering: .relaxed)
        let results = await fixture.storeAtOnce(envelopes, in: spool)
        let ids = Set(try results.map { try newID(of: $0) })
        #expect(ids.count == 1000 && spool.count == 1000)
        // The number depends on the machine; one transaction per envelope would be 1000.
        #expect(spool.transactions.load(ordering: .relaxed) - before < 500)
        let index = try await spool.index()
        #expect(Set(index) == ids)
        await spool.close()
    }

    @Test func `a full spool removes expired envelopes first, and then reports that it is full`() async throws {
        let expired = Expired()
        let lifetimes: [Int64] = [10, 10, 1000, 1000, 1000, 1000]
        let envelopes = try lifetimes.map { try makeSpooled(expires: fixture.clock.now + $0) }
        let spool = try fixture.open(maximumBytes: 3 * fixture.size(of: envelopes[0])) { expired.append($0) }
        var ids: [Int64] = []
        for envelope in envelopes.prefix(3) { ids.append(try await newID(of: spool.store(envelope))) }
        var result = await spool.store(envelopes[3])
        #expect(result == .full(.bytes))
        result = await spool.store(envelopes[0])
        #expect(result == .alreadyStored(id: ids[0]))
        #expect(spool.count == 3)

        fixture.clock.advance(by: 10)
        _ = try await newID(of: spool.store(envelopes[3]))
        _ = try await newID(of: spool.store(envelopes[4]))
        result = await spool.store(envelopes[5])
        #expect(result == .full(.bytes))
        let first = Set(ids.prefix(2))
        try await eventually { expired.ids == first }
        #expect(spool.count == 3 && spool.bytes == 3 * fixture.size(of: envelopes[0]))

        spool.finish(id: ids[2], digest: envelopes[2].envelope.digest, outcome: .delivered(), keepUntil: nil)
        // Finishing an envelope that was already removed is allowed.
        spool.finish(id: ids[0], digest: envelopes[0].envelope.digest, outcome: .delivered(), keepUntil: nil)
        try await eventually { spool.count == 2 }
        _ = try await newID(of: spool.store(envelopes[5]))
        await spool.close()
    }

    @Test func `a closed spool stores nothing and answers with an error`() async throws {
        let spool = try fixture.open()
        let envelope = try makeSpooled()
        let first = try await newID(of: spool.store(envelope))
        await spool.close()
        await spool.close()
        let result = await spool.store(envelope)
        #expect(result == .failed("the spool is closed"))
        spool.finish(id: first, digest: envelope.envelope.digest, outcome: .delivered(), keepUntil: nil)
        await #expect(throws: StoreError.self) { try await spool.index() }
    }

    // MARK: Crashes

    @Test func `after a crash every envelope whose storing was acknowledged is present`() async throws {
        let spool = try fixture.open()
        let envelopes = try (0..<50).map { _ in try makeSpooled() }
        var ids: [Int64] = []
        for envelope in envelopes { ids.append(try await newID(of: spool.store(envelope))) }
        spool.finish(id: ids[0], digest: envelopes[0].envelope.digest, outcome: .delivered(), keepUntil: nil)
        try await eventually { spool.count == 49 }
        // The files as a crash would leave them, without SQLite's shared memory and the lock.
        let copy = try Fixture()
        defer { withExtendedLifetime(copy) {} }
        for suffix in ["", "-wal", ".rowkeys"] {
            try FileManager.default.copyItem(atPath: fixture.path + suffix, toPath: copy.path + suffix)
        }
        try FileManager.default.copyItem(atPath: fixture.keyFile, toPath: copy.keyFile)
        let recovered = try copy.open()
        let rows = try await recovered.load(ids)
        #expect(rows.map(\.id) == Array(ids.dropFirst()))
        for (row, envelope) in zip(rows, envelopes.dropFirst()) {
            expectSame(row.envelope.envelope, envelope.envelope)
        }
        await recovered.close()
        await spool.close()
    }

    // MARK: Secrecy on disk

    @Test func `nothing of an envelope is readable on disk, open or closed`() async throws {
        let spool = try fixture.open()
        let envelopes = try (0..<5).map { _ in try makeSpooled(app: "an-app-of-this-name") }
        for envelope in envelopes {
            let id = try await newID(of: spool.store(envelope))
            if id.isMultiple(of: 2) {
                spool.finish(
                    id: id, digest: envelope.envelope.digest, outcome: .delivered(id: "the-id-of-apple"),
                    keepUntil: fixture.clock.now + 60)
            }
        }
        try await eventually { spool.count == 3 }
        func expectUnreadable() throws {
            for file in try fixture.files() {
                let data = try Data(contentsOf: URL(fileURLWithPath: file))
                for envelope in envelopes.map(\.envelope) {
                    for secret in [
                        Array(envelope.deviceToken), Hex.decode(envelope.deviceToken) ?? [], Array(envelope.iv),
                        Array(envelope.ciphertext), envelope.digest.prefix(8),
                        Array(Hex.encode(envelope.digest.prefix(8)).utf8),
                    ] { #expect(data.range(of: Data(secret)) == nil) }
                }
                #expect(data.range(of: Data("an-app-of-this-name".utf8)) == nil)
                #expect(data.range(of: Data("the-id-of-apple".utf8)) == nil)
            }
        }
        try expectUnreadable()
        await spool.close()
        try expectUnreadable()
    }

    @Test func `a removed envelope is erased from the log, and its secret is destroyed`() async throws {
        let spool = try fixture.open()
        var rows: [(id: Int64, digest: Digest256)] = []
        for _ in 0..<300 {
            let spooled = try makeSpooled()
            rows.append((try await newID(of: spool.store(spooled)), spooled.envelope.digest))
        }
        // A disk that is seized now, and one that is seized after the removal.
        let seized = try Fixture()
        defer { withExtendedLifetime(seized) {} }
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: fixture.path + suffix, toPath: seized.path + suffix)
        }
        let sealed = try Connection(seized.path).all("SELECT sealed FROM envelope") { Data($0.bytes(0)) }
        #expect(sealed.count == 300)
        for row in rows.dropLast() {
            spool.finish(id: row.id, digest: row.digest, outcome: .delivered(), keepUntil: nil)
        }
        func found() throws -> Int {
            let files = try ["", "-wal"].map { try Data(contentsOf: URL(filePath: fixture.path + $0)) }
            return sealed.count { blob in files.contains { $0.range(of: blob.prefix(48)) != nil } }
        }
        try await eventually { try found() == 1 }
        // With all keys that exist now, the earlier copy opens only the envelope that is still stored.
        let secrets = try Data(contentsOf: URL(filePath: fixture.path + ".rowkeys"))
        let left = stride(from: 0, to: secrets.count, by: 32).count { secrets[$0..<$0 + 32].contains { $0 != 0 } }
        #expect(left == 1)
        try FileManager.default.copyItem(atPath: fixture.path + ".rowkeys", toPath: seized.path + ".rowkeys")
        try FileManager.default.copyItem(atPath: fixture.keyFile, toPath: seized.keyFile)
        let thief = try seized.open()
        #expect(try await thief.load(rows.map(\.id)).map(\.id) == [rows[299].id])
        await thief.close()
        await spool.close()
    }

    @Test(arguments: [0, 3, Int.max, -1])
    func `row secrets that are missing from the file are reported`(_ slot: Int) throws {
        let path = URL.temporaryDirectory.appending(path: "tocsin-rowkeys-\(UUID().uuidString)").path()
        defer { unlink(path) }
        #expect(throws: StoreError(.keyMissing(store: "spool"), file: path, of: .spool)) {
            try RowKeys(at: path, of: "spool", used: [slot])
        }
    }

    @Test func `row secrets that a crash left without a row are destroyed at start`() throws {
        let path = URL.temporaryDirectory.appending(path: "tocsin-rowkeys-\(UUID().uuidString)").path()
        defer { unlink(path) }
        do {
            let keys = try RowKeys(at: path, of: "spool", used: [])
            for slot in 0..<10 { #expect(try keys.make().slot == slot) }
            try keys.sync()
        }
        let keys = try RowKeys(at: path, of: "spool", used: [3, 7])
        #expect(try (0..<8).filter { try keys.secret(in: $0).contains { $0 != 0 } } == [3, 7])
        #expect(try Data(contentsOf: URL(filePath: path)).count == 8 * 32)
        #expect(try keys.make().slot == 0)
        keys.destroy(3)
        #expect(try keys.secret(in: 3) == [UInt8](repeating: 0, count: 32))
    }

    @Test func `all files are owner-only, even if they were not before`() async throws {
        var spool = try fixture.open()
        _ = try await newID(of: spool.store(makeSpooled()))
        let files = try fixture.files()
        #expect(files.count == 6)
        var permissions = try fixture.permissions()
        #expect(permissions == [0o600])
        await spool.close()
        chmod(fixture.path, 0o644)
        spool = try fixture.open()
        _ = try await newID(of: spool.store(makeSpooled()))
        permissions = try fixture.permissions()
        #expect(permissions == [0o600])
        await spool.close()
    }

    @Test func `a row that was tampered with is dropped and counted, and the others are kept`() async throws {
        let spool = try fixture.open()
        var ids: [Int64] = []
        for _ in 0..<6 { ids.append(try await newID(of: spool.store(makeSpooled()))) }
        let rows = ids
        let other = try Connection(fixture.path)
        try other.run("UPDATE envelope SET sealed = zeroblob(100) WHERE id = ?", [rows[0]])
        try other.run("UPDATE envelope SET expires = expires + 1 WHERE id = ?", [rows[1]])
        try other.run(
            "UPDATE envelope SET sealed = (SELECT sealed FROM envelope WHERE id = ?) WHERE id = ?", [rows[3], rows[2]])
        try other.run("UPDATE envelope SET sealed = x'' WHERE id = ?", [rows[4]])
        let loaded = try await spool.load(ids)
        #expect(loaded.map(\.id) == [ids[3], ids[5]])
        #expect(spool.dropped == 4 && spool.count == 2)
        let index = try await spool.index()
        #expect(index == [ids[3], ids[5]])
        await spool.close()
    }

    @Test func `an outcome that was tampered with does not prevent storing the envelope`() async throws {
        let spool = try fixture.open()
        let envelope = try makeSpooled()
        let id = try await newID(of: spool.store(envelope))
        spool.finish(
            id: id, digest: envelope.envelope.digest, outcome: .delivered(), keepUntil: fixture.clock.now + 60)
        try await eventually { spool.count == 0 }
        try Connection(fixture.path).execute("UPDATE outcome SET until = until + 1000")
        _ = try await newID(of: spool.store(envelope))
        await spool.close()
    }

    // MARK: Files that are refused

    @Test func `a spool in use is refused`() async throws {
        let spool = try fixture.open()
        #expect(fixture.refusal() == StoreError(.inUse, file: fixture.path, of: .spool))
        await spool.close()
        #expect(fixture.refusal() == nil)
    }

    @Test func `an empty file is a new spool`() async throws {
        try Data().write(to: URL(fileURLWithPath: fixture.path))
        let spool = try fixture.open()
        _ = try await newID(of: spool.store(makeSpooled()))
        await spool.close()
    }

    @Test func `an existing key is used for a new spool`() async throws {
        let key = Data(SecureRandom.bytes(32))
        try fixture.writeKey(key)
        try await fixture.fill(1)
        #expect(try Data(contentsOf: URL(fileURLWithPath: fixture.keyFile)) == key)
    }

    @Test func `a spool without its key is refused, and no new key is created`() async throws {
        try await fixture.fill(1)
        try FileManager.default.removeItem(atPath: fixture.keyFile)
        let refusal = try #require(fixture.refusal())
        #expect(refusal == StoreError(.keyMissing(store: fixture.path), file: fixture.keyFile, of: .spool))
        #expect(refusal.description.contains("cannot be opened without its key \(fixture.keyFile)"))
        #expect(!FileManager.default.fileExists(atPath: fixture.keyFile))
    }

    @Test func `the key of another spool is refused`() async throws {
        try await fixture.fill(1)
        try FileManager.default.removeItem(atPath: fixture.keyFile)
        try fixture.writeKey(Data(SecureRandom.bytes(32)))
        #expect(fixture.refusal() == StoreError(.wrongKey(store: fixture.path), file: fixture.keyFile, of: .spool))
    }

    @Test(arguments: [0, 31, 33, 64])
    func `a key of the wrong length is refused`(_ length: Int) throws {
        try fixture.writeKey(Data(SecureRandom.bytes(length)))
        #expect(fixture.refusal() == StoreError(.keyLength(length), file: fixture.keyFile, of: .spool))
    }

    @Test(arguments: [0o640, 0o604, 0o644] as [mode_t])
    func `a key that others can read is refused, with the command that fixes it`(_ permissions: mode_t) async throws {
        try await fixture.fill(1)
        chmod(fixture.keyFile, permissions)
        let refusal = try #require(fixture.refusal())
        #expect(refusal == StoreError(.keyReadableByOthers, file: fixture.keyFile, of: .spool))
        #expect(refusal.description.contains("chmod 600 \(fixture.keyFile)"))
    }

    @Test func `a damaged file is refused, wherever the damage is`() async throws {
        try await fixture.fill(200)
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
            #expect(fixture.refusal() == StoreError(.damaged, file: fixture.path, of: .spool))
        }
        try whole.write(to: URL(fileURLWithPath: fixture.path))
        #expect(fixture.refusal() == nil)
    }

    @Test func `a text file is refused, even without a key`() throws {
        try Data("# my configuration\n".utf8).write(to: URL(fileURLWithPath: fixture.path))
        let refusal = try #require(fixture.refusal())
        #expect(refusal == StoreError(.damaged, file: fixture.path, of: .spool))
        #expect(refusal.description.contains(fixture.path))
        #expect(!FileManager.default.fileExists(atPath: fixture.keyFile))
    }

    @Test(arguments: ["PRAGMA application_id = 252006674", "CREATE TABLE bookmark (url TEXT)"])
    func `a database of another program is refused and left unchanged`(_ sql: String) async throws {
        try Connection(fixture.path).execute(sql)
        let before = try Data(contentsOf: URL(fileURLWithPath: fixture.path))
        #expect(fixture.refusal() == StoreError(.foreign, file: fixture.path, of: .spool))
        #expect(try Data(contentsOf: URL(fileURLWithPath: fixture.path)) == before)
    }

    @Test func `a spool of a newer version is refused`() async throws {
        try await fixture.fill(1)
        try Connection(fixture.path).execute("PRAGMA user_version = 1000")
        #expect(fixture.refusal() == StoreError(.newer, file: fixture.path, of: .spool))
    }

    @Test func `a missing directory is named in the error`() throws {
        #expect(throws: StoreError(.unusable("No such file or directory"), file: "/nowhere/spool.lock", of: .spool)) {
            try Spool(at: "/nowhere/spool", keyFile: fixture.keyFile, maximumBytes: 1 << 20)
        }
    }

    @Test func `every error names the problem, the file and the remedy`() {
        let problems: [StoreError.Problem] = [
            .inUse, .keyMissing(store: "/f"), .keyReadableByOthers, .keyLength(3), .wrongKey(store: "/f"), .damaged,
            .foreign, .newer, .diskFull, .closed, .unusable("r"),
        ]
        for problem in problems {
            let text = StoreError(problem, file: "/f", of: .spool).description
            #expect(text.contains("/f") && text.contains(";"))
        }
    }

    // MARK: A full disk

    @Test(.enabled(if: SmallDisk.canBeMounted, "only root may mount the small disk that this needs"))
    func `a full disk fails only the storing, and finished envelopes stay finished`() async throws {
        let disk = try SmallDisk(kilobytes: 2048)
        let small = try Fixture(in: disk.path)
        defer { withExtendedLifetime((disk, small)) {} }
        let spool = try small.open(reserve: 0)
        try disk.occupy(kilobytes: 1024)
        var envelopes: [Int64: SpooledEnvelope] = [:]
        var failure = ""
        for _ in 0..<5000 {
            let envelope = try makeSpooled()
            let result = await spool.store(envelope)
            if case .failed(let reason) = result {
                failure = reason
                break
            }
            envelopes[try newID(of: result)] = envelope
        }
        #expect(failure.contains("full"))
        #expect(spool.count == envelopes.count)
        let finished = try #require(envelopes.first)
        spool.finish(id: finished.key, digest: finished.value.envelope.digest, outcome: .delivered(), keepUntil: nil)
        envelopes[finished.key] = nil
        let waiting = Set(envelopes.keys)
        let loaded = try await spool.load(Array(waiting))
        #expect(loaded.count == waiting.count)

        try disk.free()
        try await eventually { spool.count == waiting.count }
        let last = try await newID(of: spool.store(makeSpooled()))
        await spool.close()

        let again = try small.open(reserve: 0)
        let index = try await again.index()
        #expect(Set(index) == waiting.union([last]))
        await again.close()
    }

    @Test(.enabled(if: SmallDisk.canBeMounted, "only root may mount the small disk that this needs"))
    func `a nearly full disk counts as a full spool, which can still be emptied`() async throws {
        let disk = try SmallDisk(kilobytes: 4096)
        let small = try Fixture(in: disk.path)
        defer { withExtendedLifetime((disk, small)) {} }
        let spool = try small.open(reserve: 2 << 20)
        let envelope = try makeSpooled()
        let first = try await newID(of: spool.store(envelope))
        try disk.occupy(kilobytes: 2048)
        var result = try await spool.store(makeSpooled())
        #expect(result == .full(.disk))
        spool.finish(
            id: first, digest: envelope.envelope.digest, outcome: .delivered(), keepUntil: small.clock.now + 60)
        try await eventually { spool.count == 0 }
        result = await spool.store(envelope)
        #expect(result == .alreadyFinal(.delivered()))
        try disk.free()
        _ = try await newID(of: spool.store(makeSpooled()))
        await spool.close()
    }
}

// MARK: Helpers

private func makeEnvelope(
    app: String = "", magic: Magic = .iOS, ttl: UInt32 = Envelope.maximumTTL,
    priority: DeliveryPriority = .immediate, sound: Bool = true, collapseID: String? = nil,
    format: EnvelopeFormat = .pipe
) throws -> Envelope {
    let iv = format == .pipe ? Array(Hex.encode(SecureRandom.bytes(8)).utf8) : SecureRandom.bytes(12)
    return try Envelope(
        app: Array(app.utf8)[...], magic: magic, deviceToken: Array(Hex.encode(SecureRandom.bytes(32)).utf8)[...],
        iv: iv[...], ciphertext: SecureRandom.bytes(512)[...], ttl: ttl, priority: priority, sound: sound,
        collapseID: collapseID.map { Array($0.utf8)[...] }, format: format)
}

private func makeSpooled(app: String = "bisq", expires: Int64 = 1_700_003_600) throws -> SpooledEnvelope {
    SpooledEnvelope(app: app, format: .pipe, envelope: try makeEnvelope(), expires: expires)
}

private func expectSame(_ one: Envelope, _ other: Envelope) {
    #expect(one.digest == other.digest)
    #expect(one.app == other.app && one.magic == other.magic && one.deviceToken == other.deviceToken)
    #expect(one.iv == other.iv && one.ciphertext == other.ciphertext)
    #expect(one.ttl == other.ttl && one.priority == other.priority && one.sound == other.sound)
    #expect(one.collapseID == other.collapseID)
}

/// The id of a newly stored envelope.
private func newID(of result: StoreResult) throws -> Int64 {
    guard case .stored(let id) = result else { throw NotStored(result: result) }
    return id
}

private struct NotStored: Error {
    let result: StoreResult
}

private struct TooSlow: Error {}

/// Waits for the effect of a transaction without a completion.
private func eventually(_ isTrue: () throws -> Bool) async throws {
    for _ in 0..<120_000 {
        if try isTrue() { return }
        try await Task.sleep(for: .milliseconds(1))
    }
    throw TooSlow()
}

private final class TestClock: Sendable {
    private let time = Atomic<Int64>(1_700_000_000)

    var now: Int64 { time.load(ordering: .relaxed) }
    func advance(by seconds: Int64) { time.wrappingAdd(seconds, ordering: .relaxed) }
}

/// The ids that a spool reported as expired.
private final class Expired: Sendable {
    private let found = Mutex<Set<Int64>>([])

    var ids: Set<Int64> { found.withLock { $0 } }
    func append(_ ids: [Int64]) { found.withLock { $0.formUnion(ids) } }
}

/// A directory for one spool and its key, removed after the test.
private final class Fixture: Sendable {
    let directory: String
    let clock = TestClock()
    var path: String { directory + "/spool" }
    var keyFile: String { directory + "/spool.key" }

    init(in parent: String = NSTemporaryDirectory()) throws {
        directory = "\(parent)/tocsin-spool-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: directory) }

    func open(
        maximumBytes: Int = 1 << 30, reserve: Int = 0, onExpired: @escaping Spool.ExpiryObserver = { _ in }
    ) throws(StoreError) -> Spool {
        let clock = self.clock
        return try Spool(
            at: path, keyFile: keyFile, maximumBytes: maximumBytes, reserve: reserve, now: { clock.now },
            onExpired: onExpired)
    }

    /// The error of opening the spool; `nil` if it opens.
    func refusal() -> StoreError? {
        do {
            _ = try open()
            return nil
        } catch {
            return error
        }
    }

    /// Creates a spool with `count` envelopes.
    func fill(_ count: Int) async throws {
        let spool = try open()
        for _ in 0..<count { _ = try await newID(of: spool.store(makeSpooled())) }
        await spool.close()
    }

    func writeKey(_ key: Data) throws {
        try key.write(to: URL(fileURLWithPath: keyFile))
        chmod(keyFile, 0o600)
    }

    /// The bytes that an envelope counts for.
    func size(of envelope: SpooledEnvelope) -> Int {
        envelope.encoded.count + SealedBox.overhead + SpoolTransaction.rowOverhead
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

    /// Stores all envelopes concurrently.
    func storeAtOnce(_ envelopes: [SpooledEnvelope], in spool: Spool) async -> [StoreResult] {
        await withTaskGroup(of: StoreResult.self) { group in
            for envelope in envelopes { group.addTask { await spool.store(envelope) } }
            var results: [StoreResult] = []
            for await result in group { results.append(result) }
            return results
        }
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
