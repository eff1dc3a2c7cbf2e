// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP
import Time
import World

/// Reads the frames between senders and the node, and checks that on a connection which stays open each SUBMIT gets
/// exactly one final outcome.
final class ConnectionJudge {
    private struct Watched {
        var sender = FrameDecoder(maximumLength: 1 << 20)
        var node = FrameDecoder(maximumLength: 1 << 20)
        /// Whether the PROXY line, which precedes the first frame, has been read.
        var hasPassedLine = false
        /// When the node read each submission that has no final outcome yet, by request number.
        var open: [UInt32: MonotonicTime] = [:]
        /// Whether the sender has kept to the protocol; only then does the node owe answers.
        var isSound = true
        /// Whether the node has sent GOAWAY, after which it need not answer.
        var isLeaving = false
    }

    private var connections: [Int: Watched] = [:]
    private let simulation: Simulation
    private let violated: (String) -> Void

    init(_ simulation: Simulation, violated: @escaping (String) -> Void) {
        self.simulation = simulation
        self.violated = violated
    }

    /// The number of submissions on open connections that have had no final outcome for this time.
    func open(for time: Duration) -> Int {
        connections.values.filter { $0.isSound && !$0.isLeaving }
            .reduce(0) { $0 + $1.open.values.count { simulation.now - $0 >= time } }
    }

    func observe(_ connection: SimulatedConnection, _ event: SimulatedNetwork.Event) {
        switch event {
        case .opened: connections[connection.number] = Watched()
        case .closed: connections[connection.number] = nil
        case .sent: break
        case .read(let bytes, let byListener):
            guard var watched = connections.removeValue(forKey: connection.number) else { return }
            if watched.isSound {
                do throws(ProtocolError) {
                    try byListener ? read(bytes, ofSender: &watched) : read(bytes, ofNode: &watched, connection.number)
                } catch {
                    if !byListener { violated("connection \(connection.number): a broken frame of the node: \(error)") }
                    watched.isSound = false
                }
            }
            connections[connection.number] = watched
        }
    }

    private func read(_ bytes: [UInt8], ofSender watched: inout Watched) throws(ProtocolError) {
        var rest = bytes[...]
        if !watched.hasPassedLine {
            guard let end = rest.firstIndex(of: UInt8(ascii: "\n")) else { return }
            watched.hasPassedLine = true
            rest = rest[(end + 1)...]
        }
        watched.sender.append(Array(rest).span.bytes)
        while let frame = try watched.sender.next() {
            if case .submit(let submission) = try Message(frame) {
                // A sender that reuses the number of a request still in flight breaks the protocol.
                if watched.open.updateValue(simulation.now, forKey: submission.request) != nil {
                    watched.isSound = false
                }
            }
        }
    }

    private func read(_ bytes: [UInt8], ofNode watched: inout Watched, _ number: Int) throws(ProtocolError) {
        watched.node.append(bytes.span.bytes)
        while let frame = try watched.node.next() {
            switch try Message(frame) {
            case .result(let result) where result.outcome.isFinal:
                if watched.open.removeValue(forKey: result.request) == nil, watched.isSound {
                    violated("connection \(number): a second final outcome for request \(result.request)")
                }
            case .goAway: watched.isLeaving = true
            default: break
            }
        }
    }
}
