// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP
import Time

/// Which lane serves which route, how much of the memory each one uses, and the lanes of push servers, which senders name
/// by Web Push endpoints.
struct LaneTable {
    /// A lane that has ended. Its envelopes continue elsewhere.
    struct Closed {
        let route: RouteTable.Number
        let lane: Lane
    }

    /// What serves an envelope.
    enum Choice {
        /// The route whose lane serves the envelope, and the lane of another push server that was closed to make room
        /// for it, if one was.
        case found(RouteTable.Number, closing: Closed? = nil)
        case notConfigured
        /// All lanes carry envelopes of other servers.
        case noneFree
    }

    private(set) var routes = RouteTable()
    /// The lane of each route; `nil` if the route is not served.
    private var lanes: [Lane?] = []
    /// The push servers with a lane of their own, by app; `nil` if all of them share one lane.
    private var servers: [PushServerLanes?] = []
    /// Number of envelopes that each route is delivering; they are in memory.
    private(set) var inMemory: [Int] = []
    /// The sum of ``inMemory`` over the push servers of each app.
    private(set) var inMemoryToServers: [Int] = []
    private var lastGeneration = 0
    /// The largest number of attempts that a lane may have in flight.
    private var concurrency: Int

    init(concurrency: Int) { self.concurrency = concurrency }

    subscript(route: RouteTable.Number) -> Lane? { lanes[route] }

    /// The numbers of all routes.
    var numbers: Range<RouteTable.Number> { lanes.indices }

    // MARK: The route of an envelope

    /// Adds the routes of an app if it is new.
    mutating func add(app: String) {
        routes.add(app: app)
        while lanes.count < routes.count {
            lanes.append(nil)
            inMemory.append(0)
        }
        while servers.count < routes.appCount {
            servers.append(nil)
            inMemoryToServers.append(0)
        }
    }

    /// The platform that delivers an envelope. An envelope with a push endpoint goes to Web Push under any magic if
    /// this node itself delivers to the app's push servers (PROTOCOL §15); otherwise its magic decides, and an upstream
    /// node finds the endpoint itself.
    func platform(of envelope: Envelope, app: String) -> Magic {
        guard let platform = envelope.endpointPlatform, platform != envelope.magic,
            let first = routes.number(app: app, magic: platform), lanes[first] != nil,
            servers[routes.app(of: first)] != nil
        else { return envelope.magic }
        return platform
    }

    /// The first route of an envelope, which is the only one unless its sender names the server; `nil` if its app was never
    /// configured.
    func firstRoute(of envelope: Envelope, app: String) -> RouteTable.Number? {
        routes.number(app: app, magic: platform(of: envelope, app: app))
    }

    /// Chooses the lane of an envelope.
    /// - Parameter first: from ``firstRoute(of:app:)``.
    mutating func choose(for envelope: Envelope, from first: RouteTable.Number, at now: MonotonicTime) -> Choice {
        // The first lane exists as long as the route is served.
        guard lanes[first] != nil else { return .notConfigured }
        guard routes.hasLanePerServer(first) else { return .found(first) }
        guard let origin = envelope.pushEndpoint?.origin else { return .notConfigured }
        let (inMemory, lanes) = (inMemory, lanes)
        let choice = servers[routes.app(of: first)]?.lane(of: origin) { index in
            if inMemory[first + index] > 0 { return .busy }
            let holds = lanes[first + index].map { !$0.heldRows.isEmpty || $0.probeRow != nil } ?? false
            return holds ? .holding : .idle
        }
        switch choice {
        case nil: return .found(first)
        case .kept(let lane): return .found(first + lane)
        case .noneFree: return .noneFree
        case .new(let lane):
            let former = close(first + lane)
            open(first + lane, now)
            return .found(first + lane, closing: former)
        }
    }

    /// Chooses the lane of an envelope again before its delivery: another server may have got the former lane, or a reload
    /// may have added the platform of its servers.
    /// - Parameter route: its route until now.
    mutating func chooseAgain(
        for envelope: Envelope, on route: RouteTable.Number, at now: MonotonicTime
    ) -> Choice {
        guard envelope.endpointPlatform != nil,
            let first = firstRoute(of: envelope, app: routes[route].app), routes.hasLanePerServer(first)
        else { return .found(route) }
        let choice = choose(for: envelope, from: first, at: now)
        if case .notConfigured = choice { return .found(route) }
        return choice
    }

    // MARK: Memory

    /// Adds `change` to the number of envelopes that a lane is delivering.
    mutating func countInMemory(on route: RouteTable.Number, _ change: Int) {
        inMemory[route] += change
        if routes.hasLanePerServer(route) { inMemoryToServers[routes.app(of: route)] += change }
    }

    /// Whether a lane may hold one more envelope in memory. It may hold only as many as it leaves free for other lanes,
    /// so that a hanging lane cannot take all the room. All push servers of an app share the room of one lane; those
    /// that the operator has not named may fill less of it, so that the named ones keep some.
    /// - Parameter left: for how many envelopes there is room.
    func hasRoom(on route: RouteTable.Number, of left: Int) -> Bool {
        guard left > 0 else { return false }
        let app = routes.app(of: route)
        guard routes.hasLanePerServer(route), let servers = servers[app] else { return inMemory[route] <= left }
        let isNamed = servers.isNamed(routes.lane(of: route))
        return inMemory[route] + inMemoryToServers[app] * (isNamed ? 1 : 2) <= left
    }

    // MARK: Reload

    /// Serves these routes from now on. A route that is listed as replaced gets a new lane; a route that is not listed
    /// is no longer served.
    /// - Parameters:
    ///   - namedServers: by app, the push servers that the operator has named, if each has a lane of its own.
    ///   - concurrency: the largest number of attempts that a lane may have in flight.
    /// - Returns: the lanes that ended, and the routes that have a new one.
    mutating func serve(
        _ served: [Route], replacing replaced: Set<Route>, namedServers: [String: Set<String>], concurrency: Int,
        at now: MonotonicTime
    ) -> (closed: [Closed], opened: [Route]) {
        self.concurrency = concurrency
        var current: Set<RouteTable.Number> = []
        for route in served {
            add(app: route.app)
            if !replaced.contains(route) { current.formUnion(routes.numbers(app: route.app, magic: route.magic)) }
        }
        let former = Set(numbers.filter { lanes[$0] != nil })
        let closed = former.sorted().filter { !current.contains($0) }.compactMap { close($0) }
        var opened: [Route] = []
        for route in served {
            let numbers = routes.numbers(app: route.app, magic: route.magic)
            guard let first = numbers.first, lanes[first] == nil else { continue }
            // A server that had a lane gets a new one, because envelopes refer to its number.
            for number in numbers where number == first || former.contains(number) { open(number, now) }
            opened.append(route)
            // Only for a route with a new provider: the servers of other routes keep their lanes.
            guard routes.hasLanePerServer(first) else { continue }
            servers[routes.app(of: first)] = namedServers[route.app].map {
                PushServerLanes(count: RouteTable.serverLanes, named: $0)
            }
        }
        for number in numbers { lanes[number]?.window.range = Lane.range(concurrency) }
        return (closed, opened)
    }

    private mutating func open(_ route: RouteTable.Number, _ now: MonotonicTime) {
        lastGeneration += 1
        lanes[route] = Lane(generation: lastGeneration, concurrency: concurrency, now: now)
    }

    private mutating func close(_ route: RouteTable.Number) -> Closed? {
        defer { lanes[route] = nil }
        return lanes[route].map { Closed(route: route, lane: $0) }
    }
}
