// SPDX-License-Identifier: Apache-2.0

import CLinux
import Confinement
import Cryptography
import Glibc
import Logging
import NodeConfiguration
import Providers
import Time

/// The process that holds the keys: it reads the configuration and the keys, gives up the right to open files and
/// sockets (unless `node.sandbox` is off), and then answers requests over its connection to the node, as ssh-agent
/// does. It ends when the node closes the connection.
package enum HolderProcess {
    /// The descriptors that the supervisor passes: the connection to the node, and the memory of ``IssuedTokens``.
    static let connection: Int32 = 3
    static let memory: Int32 = 4
    /// The largest content of that memory, in bytes.
    private static let maximumMemory = 1 << 20
    /// How long the node may take to read an answer.
    private static let sendTimeout = Duration.seconds(10)

    /// - Parameters:
    ///   - file: the configuration file.
    ///   - makeLogger: makes the logger of a configuration.
    package static func run(configuration file: String, makeLogger: (Configuration) -> Logger) -> Never {
        _ = ProcessHardening.forbidCoreDumps()
        // The inherited filter of the supervisor allows the network, which its resolvers need.
        let isOffline = Result { try SystemCallFilter.keyHolderStart.apply(.refuse) }
        let socket = LocalSocket(owning: connection)
        var keys = HeldKeys(issued: readMemory())
        let report = keys.load(file)
        let configuration = try? Configuration(file: file, copies: report.copies)
        let logger = configuration.map(makeLogger)
        // The first line of the log also reads files such as the time zone, which the filter forbids later.
        logger?.notice("the key holder has read the keys", metadata: ["keys": "\(keys.count)"])
        do {
            _ = try isOffline.get()
            if let sandbox = configuration?.sandbox, sandbox != .off {
                _ = try FileRules().apply()
                try SystemCallFilter.keyHolder.apply(sandbox == .kill ? .kill : .refuse)
            }
        } catch {
            logger?.error("the key holder cannot confine itself: \(error)")
        }
        do {
            try socket.sendFrame(report.json, within: sendTimeout)
            while true {
                let frame = try socket.receiveFrame(atMost: HolderRequest.maximumBytes, within: nil)
                let request = try HolderRequest(json: frame)
                // Several key holders may run: the lock keeps two of them from issuing a token for the same key.
                guard lockMemory(true) else { throw LocalSocket.Failure.timedOut }
                keys.issued.merge(readMemory())
                let before = keys.issued
                let answer = keys.answer(request, at: ClockReading(monotonic: .now, unix: UnixTime.now))
                if keys.issued != before { write(keys.issued) }
                _ = lockMemory(false)
                if let use = answer.use { logger?.notice("\(use.what)", metadata: ["file": "\(use.file)"]) }
                try socket.sendFrame(answer.bytes ?? [], within: sendTimeout)
            }
        } catch {
            _exit(0)
        }
    }

    /// Locks the memory for this process, or unlocks it. Waits for a tenth of a second at most.
    private static func lockMemory(_ isLocked: Bool) -> Bool {
        var lock = flock()
        lock.l_type = Int16(clamping: isLocked ? F_WRLCK : F_UNLCK)
        lock.l_whence = Int16(SEEK_SET)
        for _ in 0..<100 {
            if fcntl(memory, F_SETLK, &lock) == 0 { return true }
            // The process has nothing else to do, and another key holder needs less than a millisecond.
            usleep(1000)
        }
        return false
    }

    private static func readMemory() -> IssuedTokens {
        var status = stat()
        guard fstat(memory, &status) == 0, status.st_size > 0, status.st_size <= maximumMemory else {
            return IssuedTokens()
        }
        var bytes = [UInt8](repeating: 0, count: Int(clamping: status.st_size))
        let count = pread(memory, &bytes, bytes.count, 0)
        guard count > 0 else { return IssuedTokens() }
        return (try? IssuedTokens(json: Array(bytes.prefix(count)))) ?? IssuedTokens()
    }

    private static func write(_ issued: IssuedTokens) {
        let bytes = issued.json
        _ = ftruncate(memory, 0)
        _ = pwrite(memory, bytes, bytes.count, 0)
    }
}
