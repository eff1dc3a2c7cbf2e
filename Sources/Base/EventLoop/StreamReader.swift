// SPDX-License-Identifier: Apache-2.0

/// Reads a stream with `await`, for step-by-step protocols such as a proxy handshake or tor's control port. Only one
/// read may be pending at a time.
package final class StreamReader: ByteStreamHandler {
    /// The underlying stream.
    package let stream: ByteStream
    private let limit: Int
    private var buffer: [UInt8] = []
    private var ended: StreamError?
    /// Whether data can flow: TCP is connected, and a TLS handshake is complete. Set it to `false` before TLS starts.
    var isConnected: Bool
    private let pausesWhenConnected: Bool
    private var waiting: CheckedContinuation<Void, Never>?
    /// Counts changes: bytes that arrived, the connection, the end.
    private var changes: UInt = 0

    /// Becomes the handler of `stream`, and closes it if more than `limit` bytes are buffered.
    /// - Parameter pausesWhenConnected: whether to pause the stream as soon as it is connected, without reading. The
    ///   first bytes from the peer are then left to the next handler.
    package init(_ stream: ByteStream, limit: Int = 65_536, pausesWhenConnected: Bool = false) {
        self.stream = stream
        self.limit = limit
        self.pausesWhenConnected = pausesWhenConnected
        isConnected = stream.isOpen
        ended = stream.endReason
        stream.handler = self
        if !pausesWhenConnected { stream.resumeReading() }
    }

    deinit { stream.detach(ObjectIdentifier(self)) }

    /// Waits until the stream is connected and, if TLS has started, until its handshake is complete.
    package func connected(isolation: isolated (any Actor)? = #isolation) async throws(StreamError) {
        while !isConnected, ended == nil { await change(since: changes) }
        if let ended { throw ended }
    }

    /// Reads the next `count` bytes.
    /// - Throws: ``StreamError`` if the stream ends first, or ``StreamError/tooLong``.
    package func read(exactly count: Int, isolation: isolated (any Actor)? = #isolation) async throws(StreamError)
        -> [UInt8]
    {
        while buffer.count < count { try await more(since: changes) }
        defer { buffer.removeFirst(count) }
        return Array(buffer.prefix(count))
    }

    /// Reads the bytes up to the next LF, without it and without a CR before it.
    /// - Parameter limit: maximum length of the line in bytes, LF included.
    /// - Throws: ``StreamError`` if the stream ends first, or ``StreamError/tooLong``.
    package func readLine(
        atMost limit: Int = .max, isolation: isolated (any Actor)? = #isolation
    ) async throws(StreamError) -> String {
        while true {
            if let end = buffer.prefix(limit).firstIndex(of: UInt8(ascii: "\n")) {
                var line = buffer[..<end]
                if line.last == UInt8(ascii: "\r") { line.removeLast() }
                defer { buffer.removeFirst(end + 1) }
                return String(decoding: line, as: UTF8.self)
            }
            if buffer.count >= limit { throw .tooLong }
            try await more(since: changes)
        }
    }

    /// Reads everything until the stream ends.
    package func readToEnd(isolation: isolated (any Actor)? = #isolation) async -> [UInt8] {
        while ended == nil { await change(since: changes) }
        defer { buffer = [] }
        return buffer
    }

    /// Sends a request, and reads until the peer ends the connection, the time is over, or `limit` bytes are exceeded.
    package static func answer(
        to request: [UInt8], on stream: ByteStream, limit: Int = 65_536, within time: Duration, _ loop: EventLoop,
        isolation: isolated (any Actor)? = #isolation
    ) async -> [UInt8] {
        let reader = StreamReader(stream, limit: limit)
        stream.write(request)
        let timer = Timer(on: loop, after: time) { stream.fail(.timedOut) }
        defer { timer.stop() }
        return await reader.readToEnd()
    }

    private func more(since seen: UInt, isolation: isolated (any Actor)? = #isolation) async throws(StreamError) {
        if let ended { throw ended }
        if buffer.count >= limit { throw .tooLong }
        await change(since: seen)
    }

    /// Waits for a change, unless there was one since the caller read ``changes``: at each asynchronous call, the
    /// runtime may let the loop take a turn.
    private func change(since seen: UInt, isolation: isolated (any Actor)? = #isolation) async {
        precondition(waiting == nil, "two concurrent reads of one stream")
        await withCheckedContinuation { if changes == seen { waiting = $0 } else { $0.resume() } }
    }

    private func wake() {
        changes &+= 1
        let continuation = waiting
        waiting = nil
        continuation?.resume()
    }

    package func stream(_ stream: ByteStream, received bytes: RawSpan) {
        bytes.withUnsafeBytes { buffer.append(contentsOf: $0) }
        if buffer.count > limit {
            ended = .tooLong
            stream.close()
        }
        wake()
    }

    package func streamDrained(_ stream: ByteStream) {
        isConnected = true
        if pausesWhenConnected { stream.pauseReading() }
        wake()
    }

    package func stream(_ stream: ByteStream, ended reason: StreamError) {
        ended = ended ?? reason
        wake()
    }

    /// Returns unread bytes to the stream, for its next handler.
    func returnUnread() {
        stream.prepend(buffer)
        buffer = []
    }
}
