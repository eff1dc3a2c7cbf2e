// SPDX-License-Identifier: Apache-2.0

import CLinux
import Confinement
import Cryptography
import Glibc
import Logging
import NodeConfiguration
import Time

/// The process that holds the keys: it reads the configuration and the keys, gives up all files and sockets but its
/// connection to the node, and then answers requests, as ssh-agent does. It ends when the node closes the connection.
package enum HolderProcess {
    /// The descriptors that the supervisor passes: the connection to the node, and the memory of ``IssuedTokens``.
    static let connection: Int32 = 3
    static let memory: Int32 = 4
    /// The largest content of that memory, in bytes.
    private static let largestMemory = 1 << 20
    /// How long the node may take to read an answer.
    private static let sendTimeout = Duration.seconds(10)

    /// - Parameters:
    ///   - file: the configuration file.
    ///   - makeLogger: makes the logger of a configuration.
    package static func run(configuration file: String, makeLogger: (Configuration) -> Logger) -> Never {
        _ = ProcessHardening.forbidCoreDumps()
        let socket = LocalSocket(owning: connection)
        var keys = HeldKeys(issued: readMemory())
        let report = keys.load(file)
        let configuration = try? Configuration(file: file, copies: report.copies)
        let logger = configuration.map(makeLogger)
        // The first line also reads what a line needs, such as the time zone, which the filter forbids.
        logger?.notice("the key holder has read the keys", metadata: ["keys": "\(keys.count)"])
        do {
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
                let frame = try socket.receiveFrame(atMost: HolderRequest.largest, within: nil)
                let (answer, use) = keys.answer(
                    try HolderRequest(json: frame), at: ClockReading(monotonic: .now, unix: UnixTime.now))
                if let use {
                    if use.kind == .providerToken { write(keys.issued) }
                    logger?.notice("\(use.kind.rawValue)", metadata: ["file": "\(use.file)"])
                }
                try socket.sendFrame(answer ?? [], within: sendTimeout)
            }
        } catch {
            _exit(0)
        }
    }

    private static func readMemory() -> IssuedTokens {
        var bytes = [UInt8](repeating: 0, count: largestMemory)
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
