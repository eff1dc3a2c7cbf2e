// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import Logging
import TNP
import TestSupport
import Testing

@testable import Handles
@testable import NodeConfiguration
@testable import TocsinNode

/// What strangers cannot exceed: callers that wait for the store, and handles of one device token.
@Suite(.tags(.sockets)) struct HandleKeeperTests {
    private let directory: String
    private let domain = LoopDomain(EventLoop(name: "handles"))
    private let owner: Ed25519.PrivateKey
    /// 2025-10-09 08:53:20.
    private let now: Int64 = 1_760_000_000

    init() throws {
        directory = URL.temporaryDirectory.appending(path: "tocsin-handles-\(UUID().uuidString)").path()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        owner = try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: 1, count: 32)))
    }

    /// Runs `body` on a loop with the handles of a node, and closes them.
    private func withKeeper(
        _ body: @Sendable (HandleKeeper, isolated LoopDomain) async throws -> Void
    ) async throws {
        let directory = directory
        let now = now
        try await domain.run { domain in
            let log = EventLog(Logger(label: "handles") { _ in SwiftLogNoOpLogHandler() })
            let keeper = HandleKeeper(
                Configuration.Handles(maximum: 1000, forgetDays: 10), in: try HandleKeeper.store(in: directory),
                log: log, on: domain.loop)
            try await body(keeper, domain)
            await keeper.close(at: now)
        }
        try? FileManager.default.removeItem(atPath: directory)
    }

    private func register(_ number: Int, sequence: UInt64 = 1) -> HandleRequest {
        let token = Array(String(repeating: "\(number % 10)", count: 60).utf8) + Array("\(1000 + number)".utf8)
        return HandleRequest(
            .register(app: [], owner: owner.publicKey, .init(magic: .iOS, deviceToken: token, senderKeys: [])),
            sequence: sequence, at: .none, by: owner)
    }

    /// Waits until a condition holds, for a minute at most.
    private func wait(_ domain: isolated LoopDomain, until condition: () -> Bool) async {
        for _ in 0..<6000 where !condition() { await domain.loop.sleep(for: .milliseconds(10)) }
    }

    @Test func `a lookup beyond those that may wait is refused at once, the others are answered`() async throws {
        let now = now
        try await withKeeper { keeper, domain in
            let handle = try #require(Handle([UInt8](repeating: 1, count: Handle.length)))
            var (unknown, refused) = (0, 0)
            for _ in 0..<HandleKeeper.maximumLookups + 3 {
                keeper.find(handle, at: now) { found in
                    switch found {
                    case .unknown: unknown += 1
                    case .refused(let outcome): refused += outcome == .retry(.nodeBusy, after: 1000) ? 1 : 0
                    case .entry: Issue.record("nobody has registered this handle")
                    }
                }
            }
            #expect(unknown == 0 && refused == 3)
            await wait(domain) { unknown == HandleKeeper.maximumLookups }
            #expect(unknown == HandleKeeper.maximumLookups && refused == 3)
        }
    }

    @Test func `a request beyond those that may wait is refused at once, the others are answered`() async throws {
        let now = now
        try await withKeeper { keeper, domain in
            var (accepted, refused) = (0, 0)
            for number in 0..<HandleKeeper.maximumRequests + 3 {
                keeper.perform(register(number), app: "bisq", at: now) { answer in
                    if answer.handle != nil { accepted += 1 }
                    if answer.outcome == .retry(.nodeBusy, after: 1000) { refused += 1 }
                }
            }
            #expect(accepted == 0 && refused == 3)
            await wait(domain) { accepted == HandleKeeper.maximumRequests }
            #expect(accepted == HandleKeeper.maximumRequests && refused == 3)
        }
    }

    @Test func `one owner confirms eight handles of a phone at most, and other owners still confirm theirs`()
        async throws
    {
        let now = now
        try await withKeeper { keeper, domain in
            var handles: [Handle] = []
            for number in 0..<12 {
                keeper.perform(register(number), app: "bisq", at: now) { $0.handle.map { handles.append($0) } }
                await wait(domain) { handles.count == number + 1 }
            }
            let owner = HandleBounds.Owner(token: 7, key: [1])
            for handle in handles.dropLast(2) { keeper.use.rang(handle, confirming: owner) }
            // Again: this confirms nothing more.
            for handle in handles.prefix(5) { keeper.use.rang(handle, confirming: owner) }
            keeper.use.rang(handles[10], confirming: HandleBounds.Owner(token: 8, key: [1]))
            keeper.use.rang(handles[11], confirming: HandleBounds.Owner(token: 7, key: [2]))
            keeper.secondPassed(at: now)
            // An unconfirmed handle is dropped ten minutes after REGISTER.
            var (left, lost) = (0, 0)
            for handle in handles {
                keeper.find(handle, at: now + HandleEntry.confirmationTime) { found in
                    if case .entry = found { left += 1 } else { lost += 1 }
                }
            }
            await wait(domain) { left + lost == handles.count }
            #expect(left == HandleBounds.maximumConfirmed + 2)
            #expect(lost == handles.count - left)
        }
    }

    @Test func `the oldest unconfirmed handle of a phone yields, never a rung one`() async throws {
        let now = now
        try await withKeeper { keeper, domain in
            var handles: [Handle] = []
            for number in 0..<10 {
                keeper.perform(register(number), app: "bisq", at: now) { $0.handle.map { handles.append($0) } }
                await wait(domain) { handles.count == number + 1 }
                if number == 0 { keeper.use.rang(handles[0]) }
                keeper.use.registered(handles[number], token: 7)
            }
            var known: [Bool?] = Array(repeating: nil, count: handles.count)
            // The store performs this after the removals.
            keeper.perform(register(10), app: "bisq", at: now) { _ in
                for (index, handle) in handles.enumerated() {
                    keeper.find(handle, at: now) { found in
                        known[index] = if case .entry = found { true } else { false }
                    }
                }
            }
            await wait(domain) { !known.contains(nil) }
            #expect(known == [true, false] + Array(repeating: true, count: 8))
        }
    }

    @Test func `a REGISTER with the bytes of before is recognised`() async throws {
        let now = now
        try await withKeeper { keeper, domain in
            var answers: [Bool?] = []
            keeper.isRepeated(register(1), app: "bisq", at: now) { answers.append($0) }
            await wait(domain) { answers.count == 1 }
            var isDone = false
            keeper.perform(register(1), app: "bisq", at: now) { _ in isDone = true }
            await wait(domain) { isDone }
            keeper.isRepeated(register(1), app: "bisq", at: now) { answers.append($0) }
            keeper.isRepeated(register(2), app: "bisq", at: now) { answers.append($0) }
            await wait(domain) { answers.count == 3 }
            #expect(answers == [false, true, false])
        }
    }

    @Test func `an ended handle is known as ended until its owner registers again`() async throws {
        let now = now
        try await withKeeper { keeper, domain in
            var answers: [HandleStore.Answer] = []
            func perform(_ request: HandleRequest, _ domain: isolated LoopDomain) async -> HandleStore.Answer? {
                let before = answers.count
                keeper.perform(request, app: "bisq", at: now) { answers.append($0) }
                await wait(domain) { answers.count > before }
                return answers.last
            }
            let handle = try #require(await perform(register(1), domain)?.handle)
            #expect(!keeper.use.hasEnded(handle))
            let forgotten = await perform(HandleRequest(.forget(handle), sequence: 2, at: .none, by: owner), domain)
            #expect(forgotten?.ended != nil && keeper.use.hasEnded(handle))
            let again = await perform(register(1, sequence: 3), domain)
            #expect(again?.handle == handle && !keeper.use.hasEnded(handle))
        }
    }
}
