// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP

/// The attacker's end of one stream of a hostile circuit. Counts what the node answers.
final class HostileStream: ByteStreamHandler {
    private let stream: ByteStream
    private var decoder = FrameDecoder(maximumLength: 128 * 1024)
    /// What was sent and received on this stream.
    private(set) var statistics = HostileStatistics()
    /// Whether the node has closed the stream.
    private(set) var isClosed = false
    /// Whether the node blocked the circuit for abuse.
    var isBanned: Bool { statistics.goAways[.abuse] != nil }

    private let speaksHTTP: Bool

    /// - Parameters:
    ///   - speaksHTTP: whether the node answers in HTTP.
    ///   - reads: whether to read. If not, this side notices the end of the stream only when it sends.
    init(_ stream: ByteStream, speaksHTTP: Bool = false, reads: Bool) {
        self.stream = stream
        self.speaksHTTP = speaksHTTP
        stream.handler = self
        if reads { stream.resumeReading() }
    }

    /// Sends a burst, unless the stream has ended or the node leaves too much unread.
    func send(_ stroke: HostileScript.Burst) {
        guard stream.isOpen, stream.unsent < ByteStream.highWater else { return }
        stream.write(stroke.bytes)
        statistics.frames += stroke.frames
    }

    func close() { stream.close() }

    func stream(_ stream: ByteStream, received bytes: RawSpan) {
        guard !speaksHTTP else {
            // The status of a response follows "HTTP/1.1 ".
            let start = bytes.withUnsafeBytes { Array($0.prefix(12)) }
            if start.starts(with: "HTTP/1.1 ".utf8), start.count == 12 {
                statistics.statuses[String(decoding: start.suffix(3), as: UTF8.self), default: 0] += 1
            }
            return
        }
        guard statistics.unreadable == 0 else { return }
        decoder.append(bytes)
        do throws(ProtocolError) {
            while let frame = try decoder.next() { statistics.count(try Message(frame)) }
        } catch {
            statistics.unreadable = 1
        }
    }

    func stream(_ stream: ByteStream, ended reason: StreamError) { isClosed = true }
}
