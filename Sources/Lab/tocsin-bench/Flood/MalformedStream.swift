// SPDX-License-Identifier: Apache-2.0

import TNP

/// Streams of invalid or useless data, which no honest sender produces.
enum MalformedStream: CaseIterable {
    case noProxyLine, otherProxyLine, noise, emptyFrame, hugeFrame, unknownType, secondHello, serverFrame
    case descendingFields
    /// Frames that the node answers or skips one by one: only their number is a reason to close the connection.
    case emptySubmissions, pings, skippedTypes

    /// For the kinds that are sent in bulk.
    private static let (framesPerBurst, bursts) = (25, 20)

    /// The next bytes to send; `nil` if the stream is over.
    /// - Parameters:
    ///   - stroke: the number of earlier bursts.
    ///   - line: tor's PROXY line.
    func burst(
        _ stroke: Int, after line: [UInt8], using random: inout some RandomNumberGenerator
    ) -> HostileScript.Burst? {
        if let frame = bulk(using: &random) {
            if stroke == 0 { return HostileScript.Burst(bytes: line + RawFrame.hello, pause: .zero) }
            guard stroke <= Self.bursts else { return nil }
            return HostileScript.Burst(
                bytes: Array(repeatElement(frame, count: Self.framesPerBurst).joined()), frames: Self.framesPerBurst,
                pause: .milliseconds(100))
        }
        guard stroke == 0 else { return nil }
        // Time for the node to answer.
        return HostileScript.Burst(bytes: fault(line, using: &random), frames: 1, pause: .seconds(5))
    }

    private func bulk(using random: inout some RandomNumberGenerator) -> [UInt8]? {
        switch self {
        case .emptySubmissions: RawFrame.bytes(FrameType.submit.rawValue, .random(4, using: &random))
        case .pings: RawFrame.bytes(FrameType.ping.rawValue, .random(Message.pingLength, using: &random))
        case .skippedTypes: RawFrame.bytes(FrameType.firstSkippable + 9, .random(100, using: &random))
        default: nil
        }
    }

    private func fault(_ line: [UInt8], using random: inout some RandomNumberGenerator) -> [UInt8] {
        let greeting = line + RawFrame.hello
        switch self {
        case .noProxyLine: return .random(64, using: &random)
        case .otherProxyLine: return Array("PROXY TCP4 192.0.2.1 192.0.2.2 7 80\r\n".utf8) + RawFrame.hello
        case .noise: return line + .random(500, using: &random)
        case .emptyFrame: return greeting + [0, 0, 0, 0]
        case .hugeFrame: return greeting + RawFrame.bytes(FrameType.submit.rawValue, claiming: 1 << 24)
        case .unknownType: return greeting + RawFrame.bytes(0x30, .random(32, using: &random))
        case .secondHello: return greeting + RawFrame.hello
        case .serverFrame: return greeting + RawFrame.bytes(FrameType.result.rawValue, .random(11, using: &random))
        case .descendingFields:
            return greeting + RawFrame.bytes(FrameType.submit.rawValue, [0, 0, 0, 1, 4, 0, 1, 7, 1, 0, 1, 7])
        case .emptySubmissions, .pings, .skippedTypes: return greeting
        }
    }
}
