// SPDX-License-Identifier: Apache-2.0

import TNP
import TestSupport
import Testing

@testable import Handles
@testable import Time

@Suite(.tags(.computing)) struct HandleBacklogTests {
    private static let start = MonotonicTime(nanoseconds: 0)

    private func handle(_ number: UInt8) throws -> Handle {
        try #require(Handle([UInt8](repeating: number, count: Handle.length)))
    }

    @Test func `what was changed without the engine is given to it`() throws {
        var backlog = HandleBacklog()
        #expect(backlog.isEmpty)
        backlog.changed(try handle(1))
        #expect(backlog.next(10) == [try handle(1)] && !backlog.isEmpty)
        backlog.giving(try handle(1))
        #expect(backlog.isEmpty)
        backlog.takeBack(try handle(1))
        #expect(!backlog.isEmpty)
    }

    @Test func `a new engine gets all handles, row by row`() {
        var backlog = HandleBacklog()
        backlog.engineReturned(isKnown: false, now: Self.start)
        #expect(backlog.position == [] && !backlog.isEmpty)
        let isSame = backlog.gave(after: [], last: [7])
        #expect(isSame)
        #expect(backlog.position == [7])
        // The engine has returned with another state in between.
        backlog.engineReturned(isKnown: false, now: Self.start)
        let isOther = !backlog.gave(after: [7], last: nil)
        #expect(isOther)
        #expect(backlog.position == [])
        _ = backlog.gave(after: [], last: nil)
        #expect(backlog.isEmpty)
    }

    @Test func `a replica that takes the engine's place gets the latest changes again`() throws {
        var backlog = HandleBacklog()
        backlog.told(try handle(1), now: Self.start)
        backlog.told(try handle(2), now: Self.start + .seconds(50))
        backlog.engineReturned(isKnown: true, now: Self.start + HandleBacklog.replicaDelay + .seconds(1))
        #expect(backlog.next(10) == [try handle(2)])
    }

    @Test func `the backlog is bounded`() throws {
        var backlog = HandleBacklog()
        for number in 0..<HandleBacklog.maximumUnsent + 10 {
            let bytes = withUnsafeBytes(of: number.bigEndian) { Array($0) }
            let handle = try #require(Handle(bytes + [UInt8](repeating: 0, count: Handle.length - bytes.count)))
            backlog.changed(handle)
            backlog.told(handle, now: Self.start)
        }
        #expect(backlog.next(.max).count == HandleBacklog.maximumUnsent)
    }
}
