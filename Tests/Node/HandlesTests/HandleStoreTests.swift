// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Foundation
import Store
import TNP
import TestSupport
import Testing

@testable import Handles

@Suite(.tags(.sockets)) struct HandleStoreTests {
    private let directory: String
    private let limits = HandleStore.Limits(maximum: 12, forgetDays: 10)
    /// 2025-10-09 08:53:20.
    private let start: Int64 = 1_760_000_000
    private let day: Int64 = 86_400

    init() throws {
        directory = URL.temporaryDirectory.appending(path: "tocsin-handles-\(UUID().uuidString)").path()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    }

    private func open() throws -> HandleStore {
        try HandleStore(at: "\(directory)/handles.sqlite", keyFile: "\(directory)/handles.key")
    }

    private func end(_ store: HandleStore) async {
        await store.close()
        try? FileManager.default.removeItem(atPath: directory)
    }

    private func owner(_ byte: UInt8 = 1) -> Ed25519.PrivateKey {
        Ed25519.PrivateKey(seed: [UInt8](repeating: byte, count: 32))!
    }

    private func phone(_ number: Int, senderKeys: [[UInt8]] = []) -> HandleRequest.Registration {
        HandleRequest.Registration(
            magic: .iOS, deviceToken: Array(String(repeating: "\(number)", count: 64).utf8), senderKeys: senderKeys)
    }

    private func register(_ number: Int, sequence: UInt64 = 1) -> HandleRequest {
        HandleRequest(
            .register(app: [], owner: owner().publicKey, phone(number)), sequence: sequence, at: .none, by: owner())
    }

    // MARK: The row

    @Test func `the same registration has the same handle, and any other a different one`() async throws {
        let store = try open()
        let handles = try await [
            store.perform(register(1), app: "bisq", limits, at: start).handle,
            store.perform(register(1, sequence: 2), app: "bisq", limits, at: start).handle,
            store.perform(register(2), app: "bisq", limits, at: start).handle,
            store.perform(register(1), app: "haveno", limits, at: start).handle,
        ].compactMap(\.self)
        #expect(handles.count == 4 && handles[0] == handles[1])
        #expect(Set(handles).count == 3)
        await end(store)
    }

    @Test func `what stands behind a handle survives closing the store`() async throws {
        var store = try open()
        let keys = (1...8 as ClosedRange<UInt8>).map { owner($0).publicKey }
        let registration = phone(1, senderKeys: keys)
        let request = HandleRequest(
            .register(app: [], owner: owner().publicKey, registration), sequence: .max, at: .none, by: owner())
        let handle = try #require(try await store.perform(request, app: "bisq", limits, at: start).handle)
        await store.close()
        store = try open()
        let entry = try #require(try await store.find(handle, limits, at: start))
        #expect(entry.record.registration == registration && entry.record.app == "bisq")
        #expect(entry.record.owner == owner().publicKey && entry.record.sequence == .max)
        #expect(entry.record.lastRequest == request.hash && entry.state == .unconfirmed && entry.time == start)
        await end(store)
    }

    @Test func `an altered row, or that of another handle, is not opened`() async throws {
        let store = try open()
        let first = try #require(try await store.perform(register(1), app: "bisq", limits, at: start).handle)
        let second = try #require(try await store.perform(register(2), app: "bisq", limits, at: start).handle)
        await store.close()
        let connection = try Connection("\(directory)/handles.sqlite")
        let rows = try connection.all("SELECT name, sealed FROM handles") { ($0.bytes(0), $0.bytes(1)) }
        #expect(rows.count == 2)
        // Exchanges the two rows' content.
        for (row, other) in zip(rows, rows.reversed()) {
            try connection.run("UPDATE handles SET sealed = ? WHERE name = ?", [other.1, row.0])
        }
        let again = try open()
        for handle in [first, second] {
            await #expect(throws: StoreError.self) { try await again.find(handle, limits, at: start) }
            // Nor does a request overwrite it.
            let forget = HandleRequest(.forget(handle), sequence: 9, at: .none, by: owner())
            await #expect(throws: StoreError.self) { try await again.perform(forget, app: "", limits, at: start) }
        }
        await end(again)
    }

    @Test func `another key file is refused`() async throws {
        let store = try open()
        await store.close()
        try FileManager.default.removeItem(atPath: "\(directory)/handles.key")
        try PrivateFile.create("\(directory)/handles.key", holding: [UInt8](repeating: 1, count: 32))
        #expect(throws: StoreError.self) { try open() }
        try? FileManager.default.removeItem(atPath: directory)
    }

    // MARK: Time

    @Test func `a handle that is not rung within ten minutes of REGISTER is dropped`() async throws {
        let store = try open()
        let handle = try #require(try await store.perform(register(1), app: "bisq", limits, at: start).handle)
        #expect(try await store.find(handle, limits, at: start + 599) != nil)
        #expect(try await store.find(handle, limits, at: start + 600) == nil)
        // Rung in the last second, but not saved yet.
        #expect(try await store.find(handle, limits, isInUse: true, at: start + 600) != nil)
        #expect(try await store.sweep(limits, at: start + 599) == 1)
        #expect(try await store.sweep(limits, at: start + 600) == 0)
        await end(store)
    }

    @Test func `a handle in use is forgotten after the days without a ring, and the store shows the day only`()
        async throws
    {
        let store = try open()
        let handle = try #require(try await store.perform(register(1), app: "bisq", limits, at: start).handle)
        try await store.rang([handle], at: start + 60)
        let entry = try #require(try await store.find(handle, limits, at: start + day))
        #expect(entry.state == .confirmed && entry.time % day == 0)
        #expect(entry.isKnownToBeUsed(at: start + 61) && !entry.isKnownToBeUsed(at: start + day))
        // Never earlier than after the configured days.
        #expect(try await store.find(handle, limits, at: start + 10 * day) != nil)
        #expect(try await store.sweep(limits, at: start + 10 * day) == 1)
        #expect(try await store.find(handle, limits, at: start + 11 * day) == nil)
        #expect(try await store.sweep(limits, at: start + 11 * day) == 0)
        await end(store)
    }

    @Test func `a ring keeps a handle, but does not revive an ended one`() async throws {
        let store = try open()
        let handle = try #require(try await store.perform(register(1), app: "bisq", limits, at: start).handle)
        try await store.rang([handle], at: start)
        try await store.rang([handle], at: start + 9 * day)
        #expect(try await store.find(handle, limits, at: start + 15 * day) != nil)
        let forget = HandleRequest(.forget(handle), sequence: 2, at: .none, by: owner())
        #expect(try await store.perform(forget, app: "", limits, at: start + 15 * day).outcome.kind == .delivered)
        try await store.rang([handle], at: start + 15 * day)
        #expect(try await store.find(handle, limits, at: start + 15 * day) == nil)
        await end(store)
    }

    // MARK: Bounds

    @Test func `handles that nobody has rung take a quarter of the store at most`() async throws {
        let store = try open()
        let limits = HandleStore.Limits(maximum: 40, forgetDays: 10)
        var kinds: [Outcome.Kind] = []
        for number in 1...11 {
            kinds.append(try await store.perform(register(number), app: "a", limits, at: start).outcome.kind)
        }
        #expect(kinds == Array(repeating: .delivered, count: 10) + [.retry])
        #expect(try await store.sweep(limits, at: start + 600) == 0)
        #expect(try await store.perform(register(11), app: "a", limits, at: start + 600).handle != nil)
        await end(store)
    }

    @Test func `a full store answers RETRY, keeps each live handle, and gives up ended ones`() async throws {
        let store = try open()
        let limits = HandleStore.Limits(maximum: 3, forgetDays: 10)
        var handles: [Handle] = []
        for number in 1...3 {
            handles.append(try #require(try await store.perform(register(number), app: "a", limits, at: start).handle))
            try await store.rang(handles, at: start)
        }
        let full = try await store.perform(register(4), app: "a", limits, at: start)
        #expect(full.outcome.kind == .retry && full.outcome.reason == .nodeBusy && full.outcome.retryAfter > 0)
        #expect(full.handle == nil)
        // A request for a known handle needs no room.
        #expect(try await store.perform(register(1, sequence: 2), app: "a", limits, at: start).handle == handles[0])
        let forget = HandleRequest(.forget(handles[1]), sequence: 2, at: .none, by: owner())
        let ended = try await store.perform(forget, app: "", limits, at: start)
        #expect(ended.handle == handles[1] && ended.ended?.registration == phone(2))
        #expect(try await store.perform(register(4), app: "a", limits, at: start).handle != nil)
        for handle in [handles[0], handles[2]] { #expect(try await store.find(handle, limits, at: start) != nil) }
        await end(store)
    }

    // MARK: In a cluster

    @Test func `stores with one key exchange rows, and the owner's last request counts`() async throws {
        let one = try open()
        try FileManager.default.createDirectory(atPath: "\(directory)/two", withIntermediateDirectories: true)
        try FileManager.default.copyItem(
            atPath: "\(directory)/handles.key", toPath: "\(directory)/two/handles.key")
        let two = try HandleStore(
            at: "\(directory)/two/handles.sqlite", keyFile: "\(directory)/two/handles.key", isShared: true)
        #expect(one.check == two.check)
        let handle = try #require(try await one.perform(register(1), app: "bisq", limits, at: start).handle)
        let old = try #require(try await one.sealed(handle))
        #expect(old.sequence == 1)
        // The store of a single node does not show when the owner's last request was made.
        #expect(try await one.sealed(after: [], limit: 10).map(\.sequence) == [0])
        #expect(try await two.merge(old, of: handle, limits)?.isSaved == true)
        #expect(try await two.find(handle, limits, at: start)?.record.registration == phone(1))

        let rotate = HandleRequest(.rotate(handle, phone(2)), sequence: 2, at: .none, by: owner())
        _ = try await two.perform(rotate, app: "", limits, at: start)
        let new = try #require(try await two.sealed(handle))
        #expect(try await two.sealed(after: [], limit: 10) == [new])
        #expect(try await two.sealed(after: new.name, limit: 10).isEmpty)
        // The older row changes nothing, and the newer one is taken over.
        #expect(try await two.merge(old, of: handle, limits)?.entry.record.sequence == 2)
        #expect(try await one.merge(new, of: handle, limits)?.entry.record.sequence == 2)
        #expect(try await one.find(handle, limits, at: start)?.record.registration == phone(2))
        await two.close()
        await end(one)
    }

    @Test func `a full store uses the row of another node without saving it`() async throws {
        let store = try open()
        let handle = try #require(try await store.perform(register(1), app: "bisq", limits, at: start).handle)
        let row = try #require(try await store.sealed(handle))
        let none = HandleStore.Limits(maximum: 0, forgetDays: 10)
        let other = try HandleStore(at: "\(directory)/other.sqlite", keyFile: "\(directory)/other.key")
        // Sealed under another key.
        #expect(try await other.merge(row, of: handle, limits) == nil)
        await other.close()
        try FileManager.default.copyItem(atPath: "\(directory)/handles.key", toPath: "\(directory)/full.key")
        let full = try HandleStore(at: "\(directory)/full.sqlite", keyFile: "\(directory)/full.key")
        let merged = try #require(try await full.merge(row, of: handle, none))
        #expect(!merged.isSaved && merged.entry.record.registration == phone(1))
        #expect(try await full.sealed(handle) == nil)
        await full.close()
        await end(store)
    }
}

/// What a request of an owner changes, without a store.
@Suite(.tags(.sockets)) struct HandleEntryTests {
    private let owner = Ed25519.PrivateKey(seed: [UInt8](repeating: 1, count: 32))!
    private let thief = Ed25519.PrivateKey(seed: [UInt8](repeating: 2, count: 32))!
    private let handle = Handle([UInt8](repeating: 3, count: 32))!
    private let now: Int64 = 1_760_000_000

    private func phone(_ text: String) -> HandleRequest.Registration {
        HandleRequest.Registration(magic: .android, deviceToken: Array(text.utf8))
    }

    private func register(_ sequence: UInt64, _ text: String = "first") -> HandleRequest {
        HandleRequest(.register(app: [], owner: owner.publicKey, phone(text)), sequence: sequence, at: .none, by: owner)
    }

    private func rotate(_ sequence: UInt64, _ text: String, by key: Ed25519.PrivateKey? = nil) -> HandleRequest {
        HandleRequest(.rotate(handle, phone(text)), sequence: sequence, at: .none, by: key ?? owner)
    }

    private func forget(_ sequence: UInt64, by key: Ed25519.PrivateKey? = nil) -> HandleRequest {
        HandleRequest(.forget(handle), sequence: sequence, at: .none, by: key ?? owner)
    }

    private func change(_ request: HandleRequest, _ present: HandleEntry?) -> HandleEntry.Change {
        HandleEntry.change(request, app: "bisq", present, at: now)
    }

    private func stored(_ request: HandleRequest, _ present: HandleEntry?) throws -> HandleEntry {
        guard case .store(let entry) = change(request, present) else {
            throw StoreFailure()
        }
        return entry
    }

    private struct StoreFailure: Error {}

    @Test func `only a REGISTER makes a handle`() throws {
        let entry = try stored(register(1), nil)
        #expect(entry.state == .unconfirmed && entry.time == now && entry.record.registration == phone("first"))
        #expect(change(rotate(2, "x"), nil) == .none(HandleEntry.unknown))
        #expect(change(forget(2), nil) == .none(HandleEntry.unknown))
    }

    @Test func `a request with the bytes of before is answered as before`() throws {
        var entry = try stored(register(1), nil)
        #expect(change(register(1), entry) == .none(.delivered()))
        entry = try stored(rotate(2, "second"), entry)
        #expect(change(rotate(2, "second"), entry) == .none(.delivered()))
        entry = try stored(forget(3), entry)
        #expect(change(forget(3), entry) == .none(.delivered()))
    }

    @Test func `an old sequence is refused, whatever the request`() throws {
        let entry = try stored(rotate(5, "second"), try stored(register(1), nil))
        for request in [register(1), register(5, "first"), rotate(4, "x"), rotate(5, "x"), forget(5)] {
            #expect(change(request, entry) == .none(.rejected(.notTheOwner)))
        }
    }

    @Test func `who has an old pairing cannot undo a ROTATE by registering again`() throws {
        let entry = try stored(rotate(5, "second"), try stored(register(1), nil))
        #expect(change(register(6), entry) == .none(.rejected(.notTheOwner)))
        #expect(try stored(rotate(7, "first"), entry).record.registration == phone("first"))
    }

    @Test func `nobody but the owner changes or ends a handle`() throws {
        let entry = try stored(register(1), nil)
        #expect(change(rotate(2, "x", by: thief), entry) == .none(.rejected(.notTheOwner)))
        #expect(change(forget(2, by: thief), entry) == .none(.rejected(.notTheOwner)))
    }

    @Test func `ROTATE and REGISTER keep a handle in use, and do not give an unconfirmed one more time`() throws {
        var entry = try stored(register(1), nil)
        entry.time = now - 500
        #expect(try stored(rotate(2, "x"), entry).time == now - 500)
        entry.state = .confirmed
        for request in [rotate(2, "x"), register(2)] {
            let changed = try stored(request, entry)
            #expect(changed.state == .confirmed && changed.time == now - 500)
        }
    }

    @Test func `an ended handle has no device token, and only a newer REGISTER revives it`() throws {
        let ended = try stored(forget(2), try stored(register(1), nil))
        #expect(ended.state == .forgotten && ended.record.registration.deviceToken.isEmpty)
        #expect(change(rotate(3, "x"), ended) == .none(HandleEntry.unknown))
        #expect(change(forget(3), ended) == .none(HandleEntry.unknown))
        #expect(change(register(1), ended) == .none(.rejected(.notTheOwner)))
        #expect(try stored(register(3), ended).state == .unconfirmed)
    }
}
