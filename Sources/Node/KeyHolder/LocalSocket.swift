// SPDX-License-Identifier: Apache-2.0

import CLinux
import Glibc
import Time

/// One end of a connection between two processes of a node. Waits block the thread, until a deadline if there is one.
/// Closes its descriptor when it is released.
final class LocalSocket: Sendable {
    /// Why nothing was sent or received.
    enum Failure: Error {
        /// The other process has closed its end or exited, or a system call failed.
        case closed
        case timedOut
        /// The other process has sent something unexpected.
        case malformed
    }

    let descriptor: Int32

    /// Takes over a descriptor.
    init(owning descriptor: Int32) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    /// Two connected ends.
    /// - Parameter keepsMessages: whether one receive returns what one send sent; otherwise, the bytes are a stream.
    static func pair(keepsMessages: Bool) throws(Failure) -> (LocalSocket, LocalSocket) {
        let kind = keepsMessages ? SOCK_SEQPACKET : SOCK_STREAM
        var ends: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, Int32(clamping: kind.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
            throw .closed
        }
        return (LocalSocket(owning: ends[0]), LocalSocket(owning: ends[1]))
    }

    /// Sends a short message, with a descriptor if there is one. Does not wait: fails if the buffer is full, because
    /// the other process does not read.
    func send(_ message: [UInt8], with passed: Int32? = nil) throws(Failure) {
        guard clinux_send(descriptor, message, message.count, passed ?? -1) == message.count else { throw .closed }
    }

    /// Receives a message and the descriptor that came with it; `nil` if none comes in time.
    /// - Parameters:
    ///   - limit: longer messages are cut.
    ///   - time: how long to wait for a message.
    func receive(
        atMost limit: Int, within time: Duration = .zero
    ) throws(Failure) -> (bytes: [UInt8], passed: Int32?)? {
        if time > .zero {
            do {
                try wait(for: Int16(POLLIN), until: .now + time)
            } catch {
                return nil
            }
        }
        var bytes = [UInt8](repeating: 0, count: limit)
        while true {
            var passed: Int32 = -1
            let count = clinux_receive(descriptor, &bytes, limit, &passed, Int32(MSG_DONTWAIT))
            if count > 0 { return (Array(bytes.prefix(count)), passed >= 0 ? passed : nil) }
            if passed >= 0 { close(passed) }
            switch (count, errno) {
            case (0, _): throw .closed
            case (_, EINTR): continue
            case (_, EAGAIN): return nil
            default: throw .closed
            }
        }
    }

    /// Whether the other process has closed its end, or exited.
    var isClosed: Bool {
        var byte: UInt8 = 0
        let count = recv(descriptor, &byte, 1, Int32(MSG_DONTWAIT) | Int32(MSG_PEEK))
        return count == 0 || count < 0 && errno != EAGAIN && errno != EINTR
    }

    /// Shuts down the connection: present and later waits for it fail with ``Failure/closed`` at once.
    func shutDown() { shutdown(descriptor, Int32(SHUT_RDWR)) }

    // MARK: Frames

    /// Sends a frame: its length in four bytes, then its bytes.
    func sendFrame(_ bytes: [UInt8], within limit: Duration) throws(Failure) {
        let deadline = MonotonicTime.now + limit
        let frame = withUnsafeBytes(of: UInt32(clamping: bytes.count).bigEndian) { Array($0) } + bytes
        var sent = 0
        while sent < frame.count {
            try wait(for: Int16(POLLOUT), until: deadline)
            let count = frame.withUnsafeBytes {
                Glibc.send(
                    descriptor, $0.baseAddress! + sent, $0.count - sent,
                    Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
            }
            if count >= 0 { sent += count } else if errno != EINTR, errno != EAGAIN { throw .closed }
        }
    }

    /// Receives a frame.
    /// - Parameters:
    ///   - size: the maximum length of its bytes.
    ///   - limit: `nil` to wait until one comes.
    func receiveFrame(atMost size: Int, within limit: Duration?) throws(Failure) -> [UInt8] {
        let deadline = limit.map { MonotonicTime.now + $0 }
        let head = try receive(exactly: 4, until: deadline)
        let length = head.reduce(0) { $0 << 8 | Int(clamping: $1) }
        guard length <= size else { throw .malformed }
        return try receive(exactly: length, until: deadline)
    }

    private func receive(exactly count: Int, until deadline: MonotonicTime?) throws(Failure) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var received = 0
        while received < count {
            try wait(for: Int16(POLLIN), until: deadline)
            let part = bytes.withUnsafeMutableBytes {
                recv(descriptor, $0.baseAddress! + received, $0.count - received, Int32(MSG_DONTWAIT))
            }
            if part == 0 { throw .closed }
            if part > 0 { received += part } else if errno != EINTR, errno != EAGAIN { throw .closed }
        }
        return bytes
    }

    private func wait(for event: Int16, until deadline: MonotonicTime?) throws(Failure) {
        while true {
            var limit: Int32 = -1
            if let deadline {
                guard .now < deadline else { throw .timedOut }
                limit = Int32(clamping: min((deadline - .now).wholeMilliseconds, 60_000) + 1)
            }
            var request = pollfd(fd: descriptor, events: event, revents: 0)
            if poll(&request, 1, limit) > 0 { return }
        }
    }
}
