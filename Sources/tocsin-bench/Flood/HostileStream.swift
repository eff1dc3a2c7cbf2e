// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP

/// The near end of one stream of a hostile circuit: hears what the node says and takes it down.
final class HostileStream: ByteStreamHandler {
    private let stream: ByteStream
    private var decoder = FrameDecoder(maximumLength: 128 * 1024)
    private(set) var heard = HostileStatistics()
    /// Whether the node has ended it.
    private(set) var isCut = false
    /// Whether the node called its circuit abusive.
    var isBanned: Bool { heard.goAways[.abuse] != nil }

    /// - Parameter reads: whether anything is ever read. An end is then only noticed when something is sent.
    init(_ stream: ByteStream, reads: Bool) {
        self.stream = stream
        stream.handler = self
        if reads { stream.resumeReading() }
    }

    /// Sends a stroke, unless the node has taken too little of what was sent before.
    func send(_ stroke: HostileScript.Stroke) {
        guard stream.isOpen, stream.unsent < ByteStream.highWater else { return }
        stream.write(stroke.bytes)
        heard.frames += stroke.frames
    }

    func close() { stream.close() }

    func stream(_ stream: ByteStream, received bytes: RawSpan) {
        guard heard.unreadable == 0 else { return }
        decoder.append(bytes)
        do throws(ProtocolError) {
            while let frame = try decoder.next() { heard.count(try Message(frame)) }
        } catch {
            heard.unreadable = 1
        }
    }

    func stream(_ stream: ByteStream, ended reason: StreamError) { isCut = true }
}
