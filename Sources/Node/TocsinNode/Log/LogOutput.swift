// SPDX-License-Identifier: Apache-2.0

import Glibc
import Synchronization

/// Lines on their way to a reader that may be slow, may have stopped, or may be gone: a line that the reader has no room
/// for is dropped and counted, and the next one that it takes says so.
struct LogOutput {
    /// Writes bytes without waiting for the reader, and returns the number that the reader has taken.
    typealias Write = (ArraySlice<UInt8>) -> Int

    /// The end of a line whose start is written.
    private var rest: ArraySlice<UInt8> = []
    private(set) var dropped = 0

    /// Writes a line, or drops it.
    /// - Parameters:
    ///   - notice: the line that reports a number of dropped lines.
    mutating func write(_ line: some Collection<UInt8>, notice: (Int) -> [UInt8], by write: Write) {
        flush(by: write)
        if dropped > 0, rest.isEmpty {
            rest = notice(dropped)[...]
            let length = rest.count
            flush(by: write)
            // Not even its start: it counts the following ones as well.
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

/// Standard error, which one thread after the other writes to.
enum StandardError {
    private static let output = Mutex(LogOutput())

    /// Writes a line, or drops it if that would wait: a program that has stopped to read the log must not stop the node.
    static func write(_ line: String, notice: (Int) -> String) {
        output.withLock { $0.write(line.utf8, notice: { Array(notice($0).utf8) }, by: writeNow) }
    }

    /// Writes at most what fits into a pipe that takes anything (PIPE_BUF, pipe(7)).
    private static func writeNow(_ bytes: ArraySlice<UInt8>) -> Int {
        var descriptor = pollfd(fd: STDERR_FILENO, events: Int16(POLLOUT), revents: 0)
        guard poll(&descriptor, 1, 0) == 1 else { return 0 }
        return bytes.prefix(4096).withUnsafeBytes { max(0, Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count)) }
    }
}
