// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// Takes what comes on a stream, drops it and says nothing, not even that it got it.
final class DiscardHandler: ByteStreamHandler {
    private let stream: ByteStream
    private let ended: (DiscardHandler) -> Void

    /// - Parameter ended: called once, when the peer has ended the stream.
    init(_ stream: ByteStream, ended: @escaping (DiscardHandler) -> Void) {
        self.stream = stream
        self.ended = ended
        stream.handler = self
    }

    deinit { stream.close() }

    func stream(_ stream: ByteStream, received bytes: RawSpan) {}

    func stream(_ stream: ByteStream, ended reason: StreamError) { ended(self) }
}
