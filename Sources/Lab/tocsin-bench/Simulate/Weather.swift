// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import World

/// A fault of a simulated world: when it begins, what it is, and how long it lasts.
struct WeatherEvent: CustomStringConvertible {
    /// The kinds of faults.
    enum Kind: String, CaseIterable {
        // Apple and Google.
        case errors, throttling, goAways, resetStreams, closedConnections, unansweredRequests, silentService
        case slowAnswers, oneStream, serviceDown, tokenEndpointDown, serviceClock
        // Phones.
        case newDeviceTokens
        // The network between the node and Apple or Google, and between senders and the node.
        case lostNetwork, slowNetwork, resetConnections, stalledConnections, lostSenders, slowSenders, resetSenders
        // The node.
        case kill, powerFailure, restart, reload, puzzles
        // Its disk and its clock.
        case fullDisk, brokenDisk, slowDisk, hangingDisk, clockStep, clockExcursion
        // Other senders.
        case unknownTokens, brokenFrames, silentConnections, manyConnections
        // The engine of a cluster, and the network between it, its nodes, and Apple and Google.
        case engineKill, engineSlow, engineLoss, cutFromEngine, cutOneWay, cutFromServices, cutReplica, stoppedNode
        // A chain: two nodes are each other's upstream; and the preferred one of two upstream nodes is off.
        case loop, outage
        // A node's key holders and its supervisor.
        case keyHolderKill, keyHolderStop, supervisorKill

        /// The kinds for the nodes of a chain, and for a single node, without ``besideNode``.
        static let ofChain = allCases.filter { !ofEngine.contains($0) && !besideNode.contains($0) && $0 != .outage }
        static let ofNode = ofChain.filter { $0 != .loop }
        /// The further kinds for nodes with key holders.
        static let besideNode: [Kind] = [.keyHolderKill, .keyHolderStop, .supervisorKill]
        private static let ofEngine: [Kind] = [
            .engineKill, .engineSlow, .engineLoss, .cutFromEngine, .cutOneWay, .cutFromServices, .cutReplica,
            .stoppedNode,
        ]
        /// The kinds for a cluster: those of what its nodes share, and half of a single node's. No kind moves a clock,
        /// because a cluster's clocks are apart all the time.
        static let ofCluster =
            ofEngine + [
                .errors, .throttling, .goAways, .closedConnections, .silentService, .serviceDown, .newDeviceTokens,
                .resetConnections, .lostSenders, .resetSenders, .kill, .powerFailure, .restart, .reload, .fullDisk,
                .slowDisk, .unknownTokens, .manyConnections,
            ]
        /// The kinds that make nodes of a cluster decide alone, or the engine forget.
        static let ofFloodedCluster = ofEngine + [.kill, .powerFailure, .restart]

        /// The kinds that hostile senders cause, against which the node protects honest ones.
        static let attacks: [Kind] = [.unknownTokens, .brokenFrames, .silentConnections, .manyConnections]
    }

    /// The place in the plan, from 1, for `--skip`.
    private(set) var number: Int
    /// When the fault begins, after the start.
    let start: Duration
    let kind: Kind
    let length: Duration
    /// Random bits that choose the details, such as the node and how severe the fault is.
    let choice: UInt64

    var description: String {
        "\(number) \(kind) at \(Self.text(start)) for \(Self.text(length))"
    }

    /// The service that the fault is about.
    var platform: Device.Platform { Device.Platform.allCases[Int(choice % UInt64(Device.Platform.allCases.count))] }

    /// A duration as days, hours, minutes and seconds.
    static func text(_ duration: Duration) -> String {
        let seconds = duration.components.seconds
        let time = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60].map { $0 < 10 ? "0\($0)" : "\($0)" }
        return "\(seconds / 86_400)d \(time.joined(separator: ":"))"
    }

    /// Six hours, in seconds. Each period ends with attacks only.
    private static let period: Int64 = 21_600

    /// Whether only attacks begin at this time: in the last 90 minutes of each period. Other faults end within the
    /// first 15 of them, and the node recovers in the next 30.
    private static func hasOnlyAttacks(at time: Duration) -> Bool { time.components.seconds % period >= 16_200 }

    /// Whether an honest sender's wait is bounded at this time: in each period's last 45 minutes.
    static func boundsWaits(at time: Duration) -> Bool { time.components.seconds % period >= 18_900 }

    /// When in each period ``NodeLayout/outage`` is off, among attacks only: its standby takes over, and the senders of
    /// other nodes wait no longer than usual.
    private static let outageTime = (start: Duration.seconds(19_200), length: Duration.seconds(1200))

    /// Whether the senders of the node that is off may wait for longer than a bound.
    static func mayBeOff(at time: Duration) -> Bool {
        time.components.seconds % period >= (outageTime.start - SimulatedSenders.maximumAllowedWait).components.seconds
    }

    /// One outage in each period, until `length` is over.
    static func outages(over length: Duration, using random: inout SimulatedRandomNumbers) -> [WeatherEvent] {
        sequence(first: outageTime.start) { $0 + .seconds(period) }.prefix { $0 < length }.map { start in
            WeatherEvent(number: 0, start: start, kind: .outage, length: outageTime.length, choice: random.next())
        }
    }

    /// Merges two plans, and gives their events new numbers. A longer plan begins like a shorter one.
    static func merged(_ one: [WeatherEvent], _ other: [WeatherEvent]) -> [WeatherEvent] {
        var events = (one + other).sorted { $0.start < $1.start }
        for index in events.indices { events[index].number = index + 1 }
        return events
    }

    /// The faults until `length` is over, as the random numbers choose them.
    /// - Parameters:
    ///   - kinds: the kinds of faults outside the times with attacks only.
    ///   - calm: the average time between two faults.
    static func plan(
        over length: Duration, of kinds: [Kind], calm: Duration, using random: inout SimulatedRandomNumbers
    ) -> [WeatherEvent] {
        var events: [WeatherEvent] = []
        var time = Duration.seconds(30)
        while true {
            // Between nothing and twice the average, most often near it.
            time += calm * (Double.random(in: 0..<1, using: &random) + Double.random(in: 0..<1, using: &random))
            guard time < length else { return events }
            let possible = hasOnlyAttacks(at: time) ? Kind.attacks : kinds
            let kind = possible[Int(random.next() % UInt64(possible.count))]
            let longest: Duration =
                switch kind {
                case .kill, .powerFailure, .supervisorKill: .seconds(60)
                case .restart, .reload, .resetConnections, .resetSenders: .seconds(1)
                case .hangingDisk: .seconds(30)
                case .engineKill, .engineSlow, .engineLoss, .cutFromEngine, .cutOneWay, .cutReplica, .stoppedNode:
                    .seconds(120)
                default: .seconds(900)
                }
            events.append(
                WeatherEvent(
                    number: events.count + 1, start: time, kind: kind,
                    length: random.duration(in: .seconds(1)...longest),
                    choice: random.next()))
        }
    }
}
