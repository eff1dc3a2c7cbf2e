// SPDX-License-Identifier: Apache-2.0

import Time

/// The bodies that wait for room in a connection's flow-control window (RFC 9113 §5.2). nghttp2 takes turns among streams, and
/// gives a stream that has sent a part its next turn after all newer ones: while requests keep coming, a body that was cut
/// would wait for seconds. So a body is started only if the window has room for all of it, the oldest first.
struct BodyQueue {
    /// How long the oldest body waits before it is sent in parts: some servers may enlarge the window only when it is used up.
    static let patience = Duration.milliseconds(500)
    /// The length of the largest body that waits, in bytes. nghttp2 splits longer ones anyway, because they do not fit
    /// into one frame (RFC 9113 §4.2).
    static let maximumLength = 16_384

    private struct Entry {
        let stream: Int32
        let size: Int
        let since: MonotonicTime
    }

    /// Oldest first.
    private var waiting: [Entry] = []
    /// The sizes of the bodies that may start and have not started yet.
    private var allowed: [Int32: Int] = [:]
    /// The sum of ``allowed``: room in the window that other bodies must leave free.
    private var reserved = 0

    /// Whether no body waits or is about to start.
    var isEmpty: Bool { waiting.isEmpty && allowed.isEmpty }

    /// Whether a body may be started. If not, it waits.
    /// - Parameter window: the bytes that the connection's window has room for.
    mutating func mayStart(_ stream: Int32, size: Int, window: Int, now: MonotonicTime) -> Bool {
        if size > Self.maximumLength { return true }
        if let size = allowed.removeValue(forKey: stream) {
            reserved -= size
            return true
        }
        if waiting.isEmpty, size <= window - reserved { return true }
        if !waiting.contains(where: { $0.stream == stream }) {
            waiting.append(Entry(stream: stream, size: size, since: now))
        }
        return false
    }

    /// The streams whose bodies may start now that the window has this much room.
    mutating func next(window: Int, now: MonotonicTime) -> [Int32] {
        var (room, streams) = (window - reserved, [Int32]())
        while let first = waiting.first, first.size <= room || (now - first.since >= Self.patience && room > 0) {
            room -= first.size
            waiting.removeFirst()
            allowed[first.stream] = first.size
            reserved += first.size
            streams.append(first.stream)
        }
        return streams
    }

    /// Forgets the body of a stream that has closed, if it has not started.
    mutating func remove(_ stream: Int32) {
        if let size = allowed.removeValue(forKey: stream) {
            reserved -= size
        } else {
            waiting.removeAll { $0.stream == stream }
        }
    }
}
