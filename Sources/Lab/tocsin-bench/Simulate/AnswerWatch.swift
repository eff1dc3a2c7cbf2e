// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time
import World

/// Reads the frames (RFC 9113 §4.1) between the node and the push services, and knows which answers the node has read.
final class AnswerWatch {
    private struct Watched {
        var toService: FrameScanner
        var toNode: FrameScanner
        /// The envelopes whose answers the node has not read yet, by stream.
        var awaited: [Int32: String] = [:]
        /// When the node has sent the last request on each stream.
        var sent: [Int32: MonotonicTime] = [:]
        /// Streams that the node has reset, whose answers it ignores.
        var reset: Set<Int32> = []
        /// Whether the node has closed the connection, and reads no answers.
        var isClosedByNode = false
        var isEndedByService = false
    }

    private let simulation: Simulation
    private var connections: [Int: Watched] = [:]
    /// The connection whose requests a service is processing.
    private var current = 0
    /// Called once the node has read the whole answer to the request with this envelope.
    private let answered: (_ envelope: String) -> Void

    /// The frame types and the flag that matter (RFC 9113 §6).
    private static let (data, headers, resetStream): (UInt8, UInt8, UInt8) = (0, 1, 3)
    private static let endStream: UInt8 = 1
    /// The bytes that a client sends before its first frame (RFC 9113 §3.4).
    private static let prefaceLength = 24

    init(_ simulation: Simulation, answered: @escaping (_ envelope: String) -> Void) {
        self.simulation = simulation
        self.answered = answered
    }

    /// When the node has sent the request that a service is processing on this stream; `nil` if it is unknown.
    func timeSent(stream: Int32) -> MonotonicTime? { connections[current]?.sent[stream] }

    /// The request that a service is processing, on this stream, has this envelope.
    func accepted(_ envelope: String, stream: Int32) {
        guard let watched = connections[current], !watched.isClosedByNode, !watched.reset.contains(stream) else {
            return
        }
        connections[current]?.awaited[stream] = envelope
    }

    func observe(_ connection: SimulatedConnection, _ event: SimulatedNetwork.Event) {
        let number = connection.number
        switch event {
        case .opened:
            connections[number] = Watched(
                toService: FrameScanner(skipping: Self.prefaceLength), toNode: FrameScanner(skipping: 0))
        case .sent(let bytes, byListener: false):
            for frame in connections[number]?.toService.scan(bytes) ?? [] {
                if frame.type == Self.headers { connections[number]?.sent[frame.stream] = simulation.now }
                if frame.type == Self.resetStream {
                    connections[number]?.reset.insert(frame.stream)
                    connections[number]?.awaited[frame.stream] = nil
                }
            }
        case .read(let bytes, byListener: false):
            for frame in connections[number]?.toNode.scan(bytes) ?? []
            where (frame.type == Self.data || frame.type == Self.headers) && frame.flags & Self.endStream != 0 {
                if let envelope = connections[number]?.awaited.removeValue(forKey: frame.stream) { answered(envelope) }
            }
        case .read(_, byListener: true): current = number
        case .sent: break
        case .closed(byListener: false):
            connections[number]?.isClosedByNode = true
            if connections[number]?.isEndedByService == true { connections[number] = nil }
        case .closed(byListener: true):
            connections[number]?.isEndedByService = true
            if connections[number]?.isClosedByNode == true { connections[number] = nil }
        }
    }
}

/// Finds the frames in a stream of bytes of HTTP/2.
struct FrameScanner {
    struct Frame {
        let type: UInt8
        let flags: UInt8
        let stream: Int32
    }

    private var header: [UInt8] = []
    private var bytesToSkip: Int

    private static let headerLength = 9

    init(skipping bytes: Int) { bytesToSkip = bytes }

    /// - Returns: the frames whose last byte is among these bytes.
    mutating func scan(_ bytes: [UInt8]) -> [Frame] {
        var rest = bytes[...]
        var frames: [Frame] = []
        while true {
            let skipped = min(rest.count, bytesToSkip)
            rest = rest.dropFirst(skipped)
            bytesToSkip -= skipped
            if bytesToSkip == 0, header.count == Self.headerLength {
                let stream = header[5...].reduce(0) { $0 << 8 | UInt32($1) } & 0x7FFF_FFFF
                frames.append(Frame(type: header[3], flags: header[4], stream: Int32(stream)))
                header = []
            }
            guard !rest.isEmpty else { return frames }
            let added = rest.prefix(Self.headerLength - header.count)
            header += added
            rest = rest.dropFirst(added.count)
            if header.count == Self.headerLength { bytesToSkip = header[..<3].reduce(0) { $0 << 8 | Int($1) } }
        }
    }
}
