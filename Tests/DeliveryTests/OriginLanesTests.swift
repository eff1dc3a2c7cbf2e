// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import Delivery

@Suite struct OriginLanesTests {
    @Test func `a server keeps its lane, and the least recently used idle one is given away`() {
        var lanes = OriginLanes(count: 3)
        #expect(lanes.lane(of: "a") { _ in .idle } == .new(0))
        #expect(lanes.lane(of: "b") { _ in .idle } == .new(1))
        #expect(lanes.lane(of: "c") { _ in .idle } == .new(2))
        #expect(lanes.lane(of: "a") { _ in .busy } == .kept(0))
        #expect(lanes.lane(of: "d") { _ in .busy } == .none)
        #expect(lanes.lane(of: "d") { _ in .idle } == .new(1))
        #expect(lanes.lane(of: "b") { $0 == 0 ? .holding : .busy } == .new(0))
        #expect(lanes.lane(of: "a") { _ in .idle } == .new(2))
        lanes.removeAll()
        #expect(lanes.lane(of: "a") { _ in .idle } == .new(0))
    }
}
