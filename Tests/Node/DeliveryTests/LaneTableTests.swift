// SPDX-License-Identifier: Apache-2.0

import TNP
import TestSupport
import Testing
import Time

@testable import Delivery

@Suite(.tags(.computing)) struct LaneTableTests {
    private let now = MonotonicTime(nanoseconds: 1_000_000_000_000)
    private let apple = Route(app: "one", magic: .iOS)
    private let web = Route(app: "one", magic: .web)

    private func makeTable(_ routes: [Route], named: Set<String>? = []) -> LaneTable {
        var table = LaneTable(concurrency: 10)
        _ = table.serve(
            routes, replacing: [], namedServers: named.map { ["one": $0] } ?? [:], concurrency: 10, at: now)
        return table
    }

    private func envelope(_ magic: Magic, device: Int = 1) throws -> Envelope {
        try Draft(magic: magic, device: device).envelope()
    }

    private func route(_ choice: LaneTable.Choice) -> RouteTable.Number? {
        if case .found(let route, _) = choice { route } else { nil }
    }

    @Test func `a route that is served has a lane, and others have none`() throws {
        let table = makeTable([apple])
        let first = try #require(table.firstRoute(of: envelope(.iOS), app: "one"))
        #expect(table[first] != nil)
        let other = try #require(table.firstRoute(of: envelope(.android), app: "one"))
        #expect(table[other] == nil)
        #expect(try table.firstRoute(of: envelope(.iOS), app: "two") == nil)
    }

    @Test func `a reload keeps the lanes of what has not changed, and ends the others`() throws {
        var table = makeTable([apple, Route(app: "one", magic: .android)])
        let kept = try #require(table.firstRoute(of: envelope(.iOS), app: "one"))
        let replaced = try #require(table.firstRoute(of: envelope(.android), app: "one"))
        let (keptLane, replacedLane) = (table[kept], table[replaced])
        let change = table.serve(
            [apple, Route(app: "one", magic: .android)], replacing: [Route(app: "one", magic: .android)],
            namedServers: [:], concurrency: 20, at: now)
        #expect(change.closed.map(\.route) == [replaced] && change.closed.first?.lane === replacedLane)
        #expect(change.opened == [Route(app: "one", magic: .android)])
        #expect(table[kept] === keptLane && table[replaced] !== replacedLane)
        let end = table.serve([], replacing: [], namedServers: [:], concurrency: 20, at: now)
        #expect(end.closed.map(\.route).sorted() == [kept, replaced].sorted() && end.opened.isEmpty)
    }

    @Test func `each push server has its lane, and an idle one goes to the next server`() throws {
        var table = makeTable([web])
        let first = try #require(table.firstRoute(of: envelope(.web), app: "one"))
        var routes: Set<Int> = []
        for device in 0..<RouteTable.serverLanes {
            routes.insert(try #require(route(table.choose(for: envelope(.web, device: device), from: first, at: now))))
        }
        #expect(routes.count == RouteTable.serverLanes)
        // The one that was used longest ago.
        let next = try table.choose(for: envelope(.web, device: RouteTable.serverLanes), from: first, at: now)
        guard case .found(let route, let closed?) = next else { return #expect(Bool(false), "no lane was given away") }
        #expect(route == closed.route && table[route] !== closed.lane)
    }

    @Test func `no lane is given away that carries envelopes`() throws {
        var table = makeTable([web])
        let first = try #require(table.firstRoute(of: envelope(.web), app: "one"))
        for device in 0..<RouteTable.serverLanes {
            let lane = try #require(route(table.choose(for: envelope(.web, device: device), from: first, at: now)))
            table.countInMemory(on: lane, 1)
        }
        let choice = try table.choose(for: envelope(.web, device: RouteTable.serverLanes), from: first, at: now)
        guard case .noneFree = choice else { return #expect(Bool(false), "a busy lane was given away") }
    }

    @Test func `a push endpoint under another magic goes to the lane of its server`() throws {
        let android = Route(app: "one", magic: .android)
        // The android device tokens of these drafts with 3 modulo 5 are push endpoints.
        let endpoint = try envelope(.android, device: 3)
        let table = makeTable([android, web])
        #expect(table.platform(of: endpoint, app: "one") == .web)
        #expect(try table.platform(of: envelope(.android, device: 1), app: "one") == .android)
        // Without the operator's list of servers, an upstream node decides.
        #expect(makeTable([android, web], named: nil).platform(of: endpoint, app: "one") == .android)
        #expect(makeTable([android]).platform(of: endpoint, app: "one") == .android)
    }

    @Test func `before delivery, an envelope follows its server to a lane that a reload has added`() throws {
        var table = makeTable([Route(app: "one", magic: .android)])
        let endpoint = try envelope(.android, device: 3)
        let before = try #require(table.firstRoute(of: endpoint, app: "one"))
        #expect(route(table.chooseAgain(for: endpoint, on: before, at: now)) == before)
        _ = table.serve(
            [Route(app: "one", magic: .android), web], replacing: [], namedServers: ["one": []], concurrency: 10,
            at: now)
        let after = try #require(route(table.chooseAgain(for: endpoint, on: before, at: now)))
        #expect(table.routes[after] == web)
        // Other device tokens stay where they are.
        #expect(route(try table.chooseAgain(for: envelope(.android, device: 1), on: before, at: now)) == before)
    }

    @Test func `a lane leaves as much room as it takes`() throws {
        var table = makeTable([apple])
        let first = try #require(table.firstRoute(of: envelope(.iOS), app: "one"))
        table.countInMemory(on: first, 5)
        #expect(table.hasRoom(on: first, of: 5))
        #expect(!table.hasRoom(on: first, of: 4))
        #expect(!makeTable([apple]).hasRoom(on: first, of: 0))
    }

    @Test func `push servers share the room of one lane, and those that nobody named leave some`() throws {
        let named = "https://server3.example"
        var table = makeTable([web], named: [named])
        let first = try #require(table.firstRoute(of: envelope(.web), app: "one"))
        let other = try #require(route(table.choose(for: envelope(.web, device: 1), from: first, at: now)))
        let known = try #require(route(table.choose(for: envelope(.web, device: 3), from: first, at: now)))
        table.countInMemory(on: other, 2)
        #expect(table.inMemoryToServers == [2])
        #expect(table.hasRoom(on: known, of: 2) && !table.hasRoom(on: known, of: 1))
        #expect(table.hasRoom(on: other, of: 6) && !table.hasRoom(on: other, of: 5))
    }
}
