// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import Delivery

@Suite struct OriginLanesTests {
    @Test func `a server keeps its lane, and the least recently used idle one is given away`() {
        var lanes = OriginLanes(count: 3)
        #expect(lanes.lane(of: "a") { _ in true } == .new(0))
        #expect(lanes.lane(of: "b") { _ in true } == .new(1))
        #expect(lanes.lane(of: "c") { _ in true } == .new(2))
        #expect(lanes.lane(of: "a") { _ in false } == .kept(0))
        #expect(lanes.lane(of: "d") { _ in false } == .none)
        #expect(lanes.lane(of: "d") { _ in true } == .new(1))
        #expect(lanes.lane(of: "b") { $0 == 0 } == .new(0))
        #expect(lanes.lane(of: "a") { _ in true } == .new(2))
        lanes.removeAll()
        #expect(lanes.lane(of: "a") { _ in true } == .new(0))
    }
}
