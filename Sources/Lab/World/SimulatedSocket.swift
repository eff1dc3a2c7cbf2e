// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// One side of a connection of a simulated network, in place of a socket of the kernel.
final class SimulatedSocket: StreamSocket {
    /// The stream that uses the socket; it outlives the socket, or closes it.
    unowned(unsafe) var stream: ByteStream?
    private let loop: EventLoop
    let process: SimulatedProcess
    private var network: SimulatedNetwork { process.simulation.network }
    var connection: SimulatedConnection?
    weak var peer: SimulatedSocket?

    /// Received bytes that the stream has not read.
    private var input: [UInt8] = []
    private var inputEnded = false
    private var failure: String?
    private(set) var isClosed = false
    private var hasShutDown = false
    /// Bytes sent that the peer has not read: at most ``window``.
    private var unread = 0
    /// When the last sent bytes arrive: later ones arrive later.
    private var lastArrival: MonotonicTime?
    /// What a cut of the network has held up, in the order in which it was sent.
    private var held: [(SimulatedSocket) -> Void] = []
    private var isReportScheduled = false
    /// Whether the connection is established; the listener's side is from the start.
    var isConnected = false

    /// Whether to call the stream when there are bytes to read, or room for bytes to write.
    var wantsRead = false { didSet { if wantsRead, !oldValue { report() } } }
    var wantsWrite = false { didSet { if wantsWrite { report() } } }

    /// The bytes that a connection holds in one direction: the buffers of both sides.
    private static let window = 256 * 1024

    init(in process: SimulatedProcess, on loop: EventLoop) {
        self.loop = loop
        self.process = process
    }

    // MARK: The stream's side

    /// Sends bytes as `send(2)` does.
    /// - Returns: how many the network took; `nil` after an error.
    func send(_ bytes: UnsafeRawBufferPointer) -> Int? {
        guard failure == nil, !isClosed, !hasShutDown else { return nil }
        let count = min(bytes.count, Self.window - unread)
        guard count > 0, process.operates() else { return max(0, count) }
        unread += count
        let taken = Array(bytes[..<count])
        if let connection { network.observe?(connection, .sent(taken, byListener: connection.listenerSide === self)) }
        let first =
            count > 1 && connection.map(network.splits) == true
            ? 1 + Int(network.random.next() % UInt64(count - 1)) : count
        deliver { $0.arrived(taken[..<first]) }
        if first < count { deliver { $0.arrived(taken[first...]) } }
        return count
    }

    /// Calls `body` with the peer when what is sent now arrives.
    private func deliver(_ body: @escaping (SimulatedSocket) -> Void) {
        guard let connection else { return }
        let simulation = network.simulation
        guard let time = network.travelTime(on: connection) else {
            // Later bytes must not arrive either: there would be a gap before them.
            connection.isSilent = true
            return timeOut()
        }
        let arrival = max(
            simulation.now + time, connection.stalledUntil ?? simulation.now, lastArrival ?? simulation.now)
        lastArrival = arrival
        simulation.schedule(at: arrival, in: simulation.background) { [self] in
            guard let peer else { return reset(after: time) }
            if connection.isSilent { return }
            guard held.isEmpty, !network.isCut(from: process.machine, to: peer.process.machine) else {
                held.append(body)
                if held.count == 1 { sendAgain(after: Self.firstRetransmission, time) }
                return
            }
            arrive(at: peer, after: time, body)
        }
    }

    private func arrive(at peer: SimulatedSocket, after time: Duration, _ body: @escaping (SimulatedSocket) -> Void) {
        guard peer.process.isKilled else { return network.simulation.run(as: peer.process) { body(peer) } }
        // A process that was killed has closed its sockets; a machine without power does not respond.
        if peer.process.hasPower { reset(after: time) } else { timeOut() }
    }

    /// How long TCP waits before it first retransmits what was lost; then it doubles the wait each time.
    private static let firstRetransmission = Duration.milliseconds(200)

    /// Retransmits what a cut has held up, until the cut ends.
    private func sendAgain(after pause: Duration, _ time: Duration) {
        let simulation = network.simulation
        simulation.schedule(after: pause, in: simulation.background) { [self] in
            guard let peer else { return reset(after: time) }
            guard !network.isCut(from: process.machine, to: peer.process.machine) else {
                guard pause < SimulatedNetwork.retransmissionLimit else { return timeOut() }
                return sendAgain(after: pause * 2, time)
            }
            let bodies = held
            held = []
            for body in bodies { arrive(at: peer, after: time, body) }
        }
    }

    /// Ends the connection after the time for which the system retransmits to a peer that does not answer.
    private func timeOut() {
        network.simulation.schedule(after: SimulatedNetwork.retransmissionLimit, in: process) { [weak self] in
            self?.fail("Connection timed out")
        }
    }

    /// Ends the connection with a reset, because the peer is gone.
    private func reset(after time: Duration) {
        guard !isClosed else { return }
        network.simulation.schedule(after: time, in: process) { [weak self] in self?.fail("Connection reset by peer") }
    }

    /// `false`: the lengths of TLS records vary, and would make every run different.
    var carriesTLS: Bool { false }

    func connectFailure() -> StreamError? { failure.map { .system($0) } }

    /// Does nothing, because only TLS calls it.
    func reportReadable() {}

    /// Does nothing: bytes in flight arrive all the same.
    func discardOutput() {}

    func receive(into buffer: UnsafeMutableRawBufferPointer, atMost limit: Int) -> SocketInput {
        if let failure { return .failed(.system(failure)) }
        if input.isEmpty { return inputEnded ? .end : .nothing }
        let count = min(input.count, limit, buffer.count)
        input.withUnsafeBytes { buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[..<count])) }
        if let connection, let observe = network.observe {
            observe(connection, .read(Array(input[..<count]), byListener: connection.listenerSide === self))
        }
        input.removeFirst(count)
        peer?.wasRead(count)
        return .bytes(count)
    }

    /// Sends no more bytes, as `shutdown(2)` does.
    func shutDown() {
        guard !hasShutDown, !isClosed else { return }
        hasShutDown = true
        guard process.operates() else { return }
        deliver { $0.inputEnds() }
    }

    /// Closes the socket; input that was not read resets the connection.
    func close() {
        guard !isClosed else { return }
        isClosed = true
        stream = nil
        guard let connection else { return }
        if !process.isKilled || process.hasPower {
            network.observe?(connection, .closed(byListener: connection.listenerSide === self))
        }
        if let peer, !process.isKilled || process.hasPower {
            if !input.isEmpty {
                deliver { $0.fail("Connection reset by peer") }
            } else if !hasShutDown {
                deliver { $0.inputEnds() }
            }
            if peer.isClosed { network.ended(connection) }
        } else {
            network.ended(connection)
        }
    }

    // MARK: The network's side

    func connected() {
        isConnected = true
        report()
    }

    func arrived(_ bytes: ArraySlice<UInt8>) {
        guard !isClosed else {
            peer?.fail("Connection reset by peer")
            return
        }
        input += bytes
        report()
    }

    private func inputEnds() {
        inputEnded = true
        report()
    }

    func fail(_ reason: String) {
        guard !isClosed, failure == nil else { return }
        failure = reason
        report()
    }

    private func wasRead(_ count: Int) {
        unread -= count
        report()
    }

    private var isReadable: Bool { failure != nil || inputEnded || !input.isEmpty }
    private var isWritable: Bool { failure != nil || (isConnected && unread < Self.window) }

    /// Calls the stream in the next turn of its loop if it waits for something that is ready.
    private func report() {
        guard !isReportScheduled, !isClosed, (wantsRead && isReadable) || (wantsWrite && isWritable) else { return }
        isReportScheduled = true
        loop.inNextTurn { [self] in callStream() }
    }

    /// Calls the stream for what is ready. If something is still ready then, the next turn calls it again.
    private func callStream() {
        isReportScheduled = false
        if wantsWrite, isWritable, !isClosed { stream?.writable() }
        if wantsRead, isReadable, !isClosed { stream?.readable() }
        report()
    }
}
