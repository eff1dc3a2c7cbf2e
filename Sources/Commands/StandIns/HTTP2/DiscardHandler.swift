// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// Reads and drops everything that arrives on a stream, and writes nothing.
final class DiscardHandler: ByteStreamHandler {
    private let stream: ByteStream
    private let ended: (DiscardHandler) -> Void

    /// - Parameter ended: called once, when the stream has ended.
    init(_ stream: ByteStream, ended: @escaping (DiscardHandler) -> Void) {
        self.stream = stream
        self.ended = ended
        stream.handler = self
    }

    deinit { stream.close() }

    func stream(_ stream: ByteStream, received bytes: RawSpan) {}

    func stream(_ stream: ByteStream, ended reason: StreamError) { ended(self) }
}
