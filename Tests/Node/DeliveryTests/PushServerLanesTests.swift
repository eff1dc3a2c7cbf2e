// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Delivery

@Suite(.tags(.computing)) struct PushServerLanesTests {
    @Test func `a server keeps its lane, and the least recently used idle one is given away`() {
        var lanes = PushServerLanes(count: 3, named: [])
        #expect(lanes.lane(of: "a") { _ in .idle } == .new(0))
        #expect(lanes.lane(of: "b") { _ in .idle } == .new(1))
        #expect(lanes.lane(of: "c") { _ in .idle } == .new(2))
        #expect(lanes.lane(of: "a") { _ in .busy } == .kept(0))
        #expect(lanes.lane(of: "d") { _ in .busy } == .noneFree)
        #expect(lanes.lane(of: "d") { _ in .idle } == .new(1))
        #expect(lanes.lane(of: "b") { $0 == 0 ? .holding : .busy } == .new(0))
        #expect(lanes.lane(of: "a") { _ in .idle } == .new(2))
    }

    @Test func `servers that the operator has not named leave the lanes that the named ones need`() {
        var lanes = PushServerLanes(count: 4, named: ["ntfy", "mozilla"])
        #expect(lanes.lane(of: "a") { _ in .idle } == .new(0))
        #expect(lanes.lane(of: "b") { $0 == 0 ? .busy : .idle } == .new(1))
        // Two lanes are free, and they are not for these.
        #expect(lanes.lane(of: "c") { _ in .busy } == .noneFree)
        #expect(lanes.lane(of: "c") { $0 == 0 ? .idle : .busy } == .new(0))
        #expect(lanes.lane(of: "ntfy") { $0 < 2 ? .busy : .idle } == .new(2))
        #expect(lanes.lane(of: "mozilla") { $0 < 3 ? .busy : .idle } == .new(3))
        // A named server keeps its lane even if it is idle.
        #expect(lanes.lane(of: "d") { $0 < 2 ? .busy : .idle } == .noneFree)
        #expect(lanes.lane(of: "d") { $0 == 1 ? .holding : .busy } == .new(1))
        #expect(lanes.lane(of: "ntfy") { _ in .busy } == .kept(2))
    }
}
