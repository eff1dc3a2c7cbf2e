// SPDX-License-Identifier: Apache-2.0

import Glibc
import Synchronization

/// Writes lines for a reader that may be slow, may have stopped, or may be gone. A line for which the reader has no
/// room is dropped and counted; as soon as there is room, a notice tells the number.
struct LogOutput {
    /// Writes bytes without waiting for the reader, and returns the number that the reader has taken.
    typealias Write = (ArraySlice<UInt8>) -> Int

    /// The end of a line whose start has been written.
    private var rest: ArraySlice<UInt8> = []
    private(set) var dropped = 0

    /// Writes a line, or drops it.
    /// - Parameters:
    ///   - notice: makes the line that reports a number of dropped lines.
    mutating func write(_ line: some Collection<UInt8>, notice: (Int) -> [UInt8], by write: Write) {
        flush(by: write)
        if dropped > 0, rest.isEmpty {
            rest = notice(dropped)[...]
            let length = rest.count
            flush(by: write)
            // If not even the start of the notice was written, a later notice has the number of all.
            if rest.count == length { rest = [] } else { dropped = 0 }
        }
        guard rest.isEmpty, dropped == 0 else { return dropped += 1 }
        rest = Array(line)[...]
        let length = rest.count
        flush(by: write)
        guard rest.count == length, length > 0 else { return }
        rest = []
        dropped += 1
    }

    private mutating func flush(by write: Write) {
        while !rest.isEmpty {
            let count = write(rest)
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }
}

/// Standard error. Any thread may write to it.
enum StandardError {
    private static let output = Mutex(LogOutput())

    /// Writes a line, or drops it if writing would block: a program that has stopped reading the log must not stop the
    /// node.
    static func write(_ line: String, notice: (Int) -> String) {
        output.withLock { $0.write(line.utf8, notice: { Array(notice($0).utf8) }, by: writeNow) }
    }

    /// Writes at most `PIPE_BUF` (4096) bytes: a pipe that is ready for writing takes that many without blocking
    /// (pipe(7)).
    private static func writeNow(_ bytes: ArraySlice<UInt8>) -> Int {
        var descriptor = pollfd(fd: STDERR_FILENO, events: Int16(POLLOUT), revents: 0)
        guard poll(&descriptor, 1, 0) == 1 else { return 0 }
        return bytes.prefix(4096).withUnsafeBytes { max(0, Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count)) }
    }
}
