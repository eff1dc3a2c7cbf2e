// SPDX-License-Identifier: Apache-2.0

import TNP

/// Streams that are opened and then send nothing more, or almost nothing.
enum StalledStream: CaseIterable {
    case silent, halfProxyLine, noHello, halfHello, byteASecond, halfSubmission, nothingAfterHello

    /// The next bytes to send.
    /// - Parameters:
    ///   - stroke: the number of earlier bursts.
    ///   - line: tor's PROXY line.
    func burst(_ stroke: Int, after line: [UInt8]) -> HostileScript.Burst {
        let submission = RawFrame.bytes(FrameType.submit.rawValue, claiming: 4000)
        if self == .byteASecond {
            let bytes = RawFrame.hello + submission
            let byte = stroke == 0 ? line : [stroke <= bytes.count ? bytes[stroke - 1] : 0]
            return HostileScript.Burst(bytes: byte, pause: .seconds(1))
        }
        return HostileScript.Burst(
            bytes: stroke == 0 ? opening(line, submission) : [], pause: .seconds(3600))
    }

    private func opening(_ line: [UInt8], _ submission: [UInt8]) -> [UInt8] {
        switch self {
        case .silent: []
        case .halfProxyLine: Array(line.prefix(line.count / 2))
        case .noHello, .byteASecond: line
        case .halfHello: line + RawFrame.hello.prefix(6)
        case .halfSubmission: line + RawFrame.hello + submission
        case .nothingAfterHello: line + RawFrame.hello
        }
    }
}
