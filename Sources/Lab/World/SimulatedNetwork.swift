// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// The network of a simulation: listeners by endpoint, and connections whose bytes take time.
///
/// A connection behaves as TCP does: bytes arrive in order and once, in pieces of any size, or the connection ends.
package final class SimulatedNetwork {
    /// How the connections to one endpoint behave.
    package struct Conditions: Sendable {
        /// How long bytes travel.
        package var latency: ClosedRange<Duration>
        /// How many of 1,000 writes arrive in two pieces.
        package var splitPerMille: Int
        /// Whether all bytes are lost without an error.
        package var dropsEverything = false

        package init(latency: ClosedRange<Duration>, splitPerMille: Int = 50) {
            self.latency = latency
            self.splitPerMille = splitPerMille
        }
    }

    /// What an observer sees of a connection.
    package enum Event {
        /// The listener's side exists.
        case opened
        /// One side has sent these bytes.
        case sent([UInt8], byListener: Bool)
        /// One side has read these bytes.
        case read([UInt8], byListener: Bool)
        /// One side has ended the connection, and will not read what still arrives.
        case closed(byListener: Bool)
    }

    /// The conditions of endpoints that have none of their own.
    package var defaultConditions = Conditions(latency: .microseconds(50)...(.microseconds(200)))
    /// The conditions by the listener's endpoint.
    package var conditions: [Endpoint: Conditions] = [:]
    /// Endpoints whose connections go to another one, as through an onion service: the first bytes that the listener
    /// receives are then the proxy's, such as tor's PROXY line.
    package var forwards: [Endpoint: (target: Endpoint, firstBytes: (SimulatedConnection) -> [UInt8])] = [:]
    /// Pairs of machines: the bytes of the first one do not reach the second one.
    private var cuts: Set<[String]> = []
    /// Sees all events of all connections.
    package var observe: ((SimulatedConnection, Event) -> Void)?

    /// The open connections, oldest first.
    package private(set) var connections: [SimulatedConnection] = []

    unowned let simulation: Simulation
    var random: SimulatedRandomNumbers
    private var listeners: [Endpoint: SimulatedListener] = [:]
    private var lastNumber = 0

    /// How long bytes are retransmitted to a peer that does not answer before the connection ends (Linux,
    /// tcp_retries2).
    static let retransmissionLimit = Duration.seconds(924)

    init(_ simulation: Simulation, random: SimulatedRandomNumbers) {
        self.simulation = simulation
        self.random = random
    }

    // MARK: Cuts

    /// Lets nothing through from one machine to another, until ``heal(from:to:)``. Connections survive: what was lost
    /// is retransmitted, as TCP does.
    package func cut(from machine: String, to other: String) { cuts.insert([machine, other]) }

    /// Ends a cut.
    package func heal(from machine: String, to other: String) { cuts.remove([machine, other]) }

    /// Whether nothing arrives from one machine at another.
    func isCut(from machine: String, to other: String) -> Bool {
        !cuts.isEmpty && machine != other && cuts.contains([machine, other])
    }

    /// Whether two machines cannot talk: each connection needs both directions.
    func isCut(between machine: String, and other: String) -> Bool {
        isCut(from: machine, to: other) || isCut(from: other, to: machine)
    }

    // MARK: Listeners

    /// - Returns: `false` if a running process listens on this endpoint already.
    func listen(at endpoint: Endpoint, _ listener: SimulatedListener) -> Bool {
        if let present = listeners[endpoint], !present.process.isKilled { return false }
        listeners[endpoint] = listener
        return true
    }

    func close(_ listener: SimulatedListener) {
        for (endpoint, present) in listeners where present === listener { listeners[endpoint] = nil }
    }

    // MARK: Connections

    /// Starts to connect `socket`.
    func connect(_ socket: SimulatedSocket, to endpoint: Endpoint) {
        let (target, forward) = forwards[endpoint].map { ($0.target, $0) } ?? (endpoint, nil)
        lastNumber += 1
        let connection = SimulatedConnection(lastNumber, to: target, from: socket)
        socket.connection = connection
        let conditions = self.conditions[target] ?? defaultConditions
        let travel = random.duration(in: conditions.latency)
        guard !conditions.dropsEverything else { return }
        simulation.schedule(after: travel, in: simulation.background) { [self] in
            guard !socket.isClosed else { return }
            guard let listener = listeners[target], !listener.process.isKilled else {
                // A machine without power does not even refuse.
                guard listeners[target]?.process.hasPower ?? true else { return }
                if let machine = listeners[target]?.process.machine,
                    isCut(between: socket.process.machine, and: machine)
                {
                    return
                }
                return simulation.schedule(after: travel, in: socket.process) { socket.fail("Connection refused") }
            }
            guard !isCut(between: socket.process.machine, and: listener.process.machine) else { return }
            let other = SimulatedSocket(in: listener.process, on: listener.loop)
            other.isConnected = true
            other.connection = connection
            other.peer = socket
            socket.peer = other
            connection.listenerSide = other
            connections.append(connection)
            observe?(connection, .opened)
            if let forward { other.arrived(forward.firstBytes(connection)[...]) }
            listener.offer(other)
            simulation.schedule(after: travel, in: socket.process) { socket.connected() }
        }
    }

    /// How long the next bytes on this connection travel; `nil` if they never arrive.
    func travelTime(on connection: SimulatedConnection) -> Duration? {
        let conditions = self.conditions[connection.endpoint] ?? defaultConditions
        if conditions.dropsEverything || connection.isSilent { return nil }
        return random.duration(in: conditions.latency)
    }

    /// Whether the next write on this connection arrives in two pieces.
    func splits(on connection: SimulatedConnection) -> Bool {
        random.happens(perMille: (conditions[connection.endpoint] ?? defaultConditions).splitPerMille)
    }

    func ended(_ connection: SimulatedConnection) {
        connections.removeAll { $0 === connection }
    }

    func closeAll(of process: SimulatedProcess) {
        for connection in connections {
            for side in connection.sides where side.process === process { side.close() }
        }
    }
}

/// One connection of a simulated network.
package final class SimulatedConnection {
    /// The number of the connection, from 1.
    package let number: Int
    /// The listener's endpoint.
    package let endpoint: Endpoint
    /// Whether nothing arrives any more, including the bytes in flight.
    var isSilent = false
    /// Until when bytes that are sent now are held; `nil` for no stall.
    package var stalledUntil: MonotonicTime?
    private weak var dialingSide: SimulatedSocket?
    weak var listenerSide: SimulatedSocket?

    init(_ number: Int, to endpoint: Endpoint, from socket: SimulatedSocket) {
        self.number = number
        self.endpoint = endpoint
        dialingSide = socket
    }

    /// The process of the listener's side; `nil` once that side is closed.
    package var listeningProcess: SimulatedProcess? { listenerSide?.isClosed == false ? listenerSide?.process : nil }

    var sides: [SimulatedSocket] { [dialingSide, listenerSide].compactMap(\.self) }

    /// Ends the connection at both sides with an error. They lose the bytes in flight.
    package func reset() { for side in sides { side.fail("Connection reset by peer") } }
}

/// A listener of a simulated network.
final class SimulatedListener: WorldListener {
    let loop: EventLoop
    let process: SimulatedProcess
    private let accept: (any StreamSocket) -> Void
    private var backlog: [SimulatedSocket] = []
    var isPaused = false {
        didSet {
            guard !isPaused else { return }
            let waiting = backlog
            backlog = []
            for socket in waiting { accept(socket) }
        }
    }

    init(in process: SimulatedProcess, on loop: EventLoop, accept: @escaping (any StreamSocket) -> Void) {
        self.loop = loop
        self.process = process
        self.accept = accept
    }

    func close() { process.simulation.network.close(self) }

    func offer(_ socket: SimulatedSocket) {
        if isPaused {
            backlog.append(socket)
        } else {
            process.simulation.run(as: process) { accept(socket) }
        }
    }
}
