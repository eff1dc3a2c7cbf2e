// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import Time
import World

/// Applies the faults of a plan to a world.
final class WeatherStation {
    private let world: SimulatedWorld
    private let attackers: SimulatedAttackers
    private var active: [WeatherEvent] = []

    init(_ world: SimulatedWorld, attackers: SimulatedAttackers) {
        self.world = world
        self.attackers = attackers
    }

    /// Schedules the faults, and calls `trace` with a line when one begins and when it ends.
    func schedule(_ plan: [WeatherEvent], trace: @escaping (String) -> Void) {
        let simulation = world.simulation
        for event in plan {
            simulation.schedule(after: event.start, in: simulation.background) { [self] in
                trace("fault \(event)")
                begin(event)
                simulation.schedule(after: event.length, in: simulation.background) { [self] in
                    trace("end of fault \(event.number)")
                    end(event)
                }
            }
        }
    }

    /// The node that a fault is about.
    private func node(of event: WeatherEvent) -> SimulatedNode {
        world.nodes[Int(event.choice >> 40 % UInt64(world.nodes.count))]
    }

    private func begin(_ event: WeatherEvent) {
        active.append(event)
        let (simulation, choice, node) = (world.simulation, event.choice, node(of: event))
        let service = SimulatedWorld.endpoint(of: event.platform)
        let (low, high) = (Int(choice >> 8 & 0xFFFF), Int(choice >> 24 & 0xFFFF))
        switch event.kind {
        case .serviceDown:
            let platform = event.platform
            world.changeServices { await $0.kill(platform) }
        case .serviceClock: world.changeServices { await $0.moveClock(by: Self.serviceStep(event)) }
        case .newDeviceTokens:
            for index in 0...(low % 3) { world.renewToken(ofPhone: (high + index) % world.phones.count) }
        case .resetConnections: resetConnections(to: service, perMille: 500 + low % 501)
        case .stalledConnections: stallConnections(to: service, until: event)
        case .resetSenders:
            for endpoint in world.endpointsForSenders {
                resetConnections(to: endpoint, perMille: 100 + low % 901)
            }
        case .kill:
            node.kill(afterOperations: low % 200, losingPower: false, for: event.length)
        case .powerFailure:
            node.kill(afterOperations: low % 200, losingPower: true, for: event.length)
        case .restart: node.restart(after: event.length)
        case .reload: node.reload()
        case .engineKill, .engineSlow, .engineLoss, .cutFromEngine, .cutOneWay, .cutFromServices, .cutReplica,
            .stoppedNode:
            world.cluster?.begin(event, node)
        case .loop: world.setLoop(true)
        case .outage:
            world.nodes[NodeLayout.outage].kill(losingPower: choice.isMultiple(of: 2), for: event.length)
        case .keyHolderKill: node.holders?.killOne([.now, .beforeAnswer, .afterAnswer][low % 3], choice: high)
        case .keyHolderStop: node.holders?.stopOne(for: .seconds(1 + low % 120), choice: high)
        case .supervisorKill: node.holders?.hasEnded = true
        case .clockStep: node.moveClock(by: Self.step(event))
        case .clockExcursion: node.moveClock(by: Self.excursion(event))
        case .hangingDisk: node.disk.hangsUntil = simulation.now + event.length
        case .unknownTokens, .brokenFrames, .silentConnections, .manyConnections: attackers.begin(event)
        default: break
        }
        refresh()
    }

    private func end(_ event: WeatherEvent) {
        active.removeAll { $0.number == event.number }
        switch event.kind {
        case .serviceDown:
            let platform = event.platform
            if !has(.serviceDown, platform) { world.changeServices { try await $0.restart(platform) } }
        case .serviceClock: world.changeServices { await $0.moveClock(by: -Self.serviceStep(event)) }
        case .engineSlow, .cutFromEngine, .cutOneWay, .cutFromServices, .cutReplica:
            world.cluster?.end(event, node(of: event))
        case .loop: world.setLoop(has(.loop))
        case .keyHolderKill, .keyHolderStop: node(of: event).holders?.disarm()
        // The operator restarts the node, as its log asks.
        case .supervisorKill:
            if node(of: event).holders?.hasEnded == true { node(of: event).restart(after: .seconds(1)) }
        case .clockStep: node(of: event).moveClock(by: -Self.step(event))
        case .clockExcursion: node(of: event).moveClock(by: -Self.excursion(event))
        case .unknownTokens, .brokenFrames, .silentConnections, .manyConnections: attackers.end(event)
        default: break
        }
        refresh()
    }

    /// The seconds by which a clock moves until the fault ends: a node's by up to an hour either way, or up to 22 days
    /// ahead, and a service's by up to 10 minutes either way.
    private static func step(_ event: WeatherEvent) -> Int64 { Int64(event.choice >> 8 & 0xFFFF) % 7200 - 3600 }
    private static func excursion(_ event: WeatherEvent) -> Int64 { Int64(event.choice >> 24 & 0xFFFF) * 30 }
    private static func serviceStep(_ event: WeatherEvent) -> Int64 { Int64(event.choice >> 8 & 0xFFFF) % 1200 - 600 }

    private func has(_ kind: WeatherEvent.Kind, _ platform: Device.Platform? = nil) -> Bool {
        active.contains { $0.kind == kind && (platform == nil || $0.platform == platform) }
    }

    /// Sets services, network, disks and configuration as the active faults require.
    private func refresh() {
        for platform in Device.Platform.allCases {
            world.apply(faults(of: platform), to: platform)
            var conditions = SimulatedWorld.serviceConditions
            if has(.slowNetwork, platform) { conditions.latency = .milliseconds(200)...(.seconds(8)) }
            conditions.dropsEverything = has(.lostNetwork, platform)
            world.simulation.network.conditions[SimulatedWorld.endpoint(of: platform)] = conditions
        }
        var conditions = SimulatedWorld.torConditions
        if has(.slowSenders) { conditions.latency = .milliseconds(500)...(.seconds(20)) }
        conditions.dropsEverything = has(.lostSenders)
        for endpoint in world.endpointsForSenders {
            world.simulation.network.conditions[endpoint] = conditions
        }
        for node in world.nodes {
            func has(_ kind: WeatherEvent.Kind) -> Bool {
                active.contains { $0.kind == kind && self.node(of: $0) === node }
            }
            node.disk.size = has(.fullDisk) ? node.disk.used : 1 << 30
            node.disk.isBroken = has(.brokenDisk)
            node.disk.workTime =
                has(.slowDisk) ? .milliseconds(50)...(.seconds(3)) : .microseconds(200)...(.milliseconds(3))
        }
        let tables = SimulatedWorld.usualTables.replacing(
            "[puzzle]", with: has(.puzzles) ? "[puzzle]\nmode = \"always\"" : "[puzzle]")
        if tables != world.additionalTables {
            world.additionalTables = tables
            for node in world.nodes { node.reload() }
        }
    }

    private func faults(of platform: Device.Platform) -> Faults {
        var faults = Faults()
        faults.latency = .uniform(5...120)
        for event in active where event.platform == platform {
            let (low, high) = (Int(event.choice >> 8 & 0xFFFF), Int(event.choice >> 24 & 0xFFFF))
            switch event.kind {
            case .errors:
                let status = [500, 502, 503, 504][high % 4]
                faults.errors = [Faults.ErrorAnswer(perMille: 100 + low % 901, status: status)]
            case .throttling:
                faults.errors = [Faults.ErrorAnswer(perMille: 300 + low % 701, status: 429, retryAfter: 1 + high % 120)]
            case .goAways: (faults.goAwayEvery, faults.goAwayIsEarly) = (2 + low % 20, high.isMultiple(of: 2))
            case .resetStreams: faults.resetPerMille = 50 + low % 500
            case .closedConnections: faults.closePerMille = 20 + low % 300
            case .unansweredRequests: faults.stallsAfter = low % 10
            case .silentService: faults.silentAfter = low % 10
            case .slowAnswers: faults.latency = .uniform(1000...(2000 + low % 60_000))
            case .oneStream: faults.concurrentStreams = 1
            case .tokenEndpointDown: faults.tokenEndpointIsDown = true
            default: break
            }
        }
        return faults
    }

    private func resetConnections(to endpoint: Endpoint, perMille: Int) {
        for connection in world.simulation.network.connections where connection.endpoint == endpoint {
            if world.random.happens(perMille: perMille) { connection.reset() }
        }
    }

    private func stallConnections(to endpoint: Endpoint, until event: WeatherEvent) {
        let end = world.simulation.now + event.length
        for connection in world.simulation.network.connections where connection.endpoint == endpoint {
            connection.stalledUntil = end
        }
    }
}
