// SPDX-License-Identifier: Apache-2.0

import StandIns
import TNP

/// Generates what one stream of a hostile circuit sends, burst by burst, from random numbers. No I/O and no clock.
struct HostileScript {
    /// Bytes to send at once.
    struct Burst {
        var bytes: [UInt8]
        /// The number of frames in ``bytes``, without HELLO.
        var frames = 0
        /// The pause after the burst.
        var pause: Duration
    }

    private let circuit: HostileCircuit
    private let line: [UInt8]
    private let turn: Int
    private let pauseFactor: Double
    private var source: EnvelopeGenerator
    private var strokes = 0
    private var request: UInt32 = 0

    /// - Parameters:
    ///   - line: the bytes to send first, which name the circuit to the node; empty through tor.
    ///   - turn: selects the kind of ``MalformedStream`` or ``StalledStream``.
    ///   - pauseFactor: multiplies the pauses between submissions.
    init(_ circuit: HostileCircuit, after line: [UInt8], turn: Int, pauseFactor: Double = 1) {
        self.pauseFactor = pauseFactor
        self.circuit = circuit
        self.turn = turn
        self.line = line
        source = EnvelopeGenerator(
            Dictionary(grouping: circuit.targets, by: \.magic).mapValues { $0.map(\.deviceToken) })
    }

    /// The next bytes to send; `nil` if the circuit closes the stream.
    mutating func next(using random: inout some RandomNumberGenerator) -> Burst? {
        defer { strokes += 1 }
        switch circuit.kind {
        case .garbage:
            return MalformedStream.allCases[turn % MalformedStream.allCases.count].burst(
                strokes, after: line, using: &random)
        case .http:
            // The node closes the stream after its response.
            guard strokes == 0 else { return Burst(bytes: [], pause: .seconds(3600)) }
            let request = BisqRelayRequest(envelope(using: &random)).bytes(host: "node.onion")
            return Burst(bytes: line + request, frames: 1, pause: .seconds(3600))
        case .stalling: return StalledStream.allCases[turn % StalledStream.allCases.count].burst(strokes, after: line)
        case .working: return nil
        case .inventedTokens, .badTokens, .replaying, .neverReading, .ownPhones:
            if strokes == 0 { return Burst(bytes: line + RawFrame.hello, pause: .zero) }
            let (count, pause) = pace
            var bytes: [UInt8] = []
            for _ in 0..<count {
                request &+= 1
                bytes.append(Submission(request: request, envelope: envelope(using: &random)))
            }
            return Burst(bytes: bytes, frames: count, pause: circuit.kind == .ownPhones ? pause : pause * pauseFactor)
        }
    }

    private var pace: (count: Int, pause: Duration) {
        switch circuit.kind {
        // Fifty per second: a hundred times the pace of an honest sender.
        case .inventedTokens, .replaying: (5, .milliseconds(100))
        case .ownPhones: (1, NodeDefaults.shortestPauseOfCircuit)
        // Answers in small writes fill the socket's buffer soonest.
        case .neverReading: (2, .milliseconds(20))
        // Ten per second are enough: the node blocks circuits that submit only to bad device tokens.
        case .badTokens, .garbage, .stalling, .http, .working: (1, .milliseconds(100))
        }
    }

    private mutating func envelope(using random: inout some RandomNumberGenerator) -> Envelope {
        if let captured = circuit.captured { return captured }
        guard [.inventedTokens, .http].contains(circuit.kind) else {
            return source.next(circuit.targets[Int(request) % circuit.targets.count].magic)
        }
        // The HTTP API has no Web Push.
        let magic = circuit.kind == .http ? .iOS : [Magic.web, .iOS, .android][Int(request % 3)]
        let recipient = Recipient.invented(magic, at: circuit.pushServer, using: &random)
        var source = EnvelopeGenerator([recipient.magic: [recipient.deviceToken]])
        return source.next(recipient.magic)
    }
}
