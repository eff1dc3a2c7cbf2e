// SPDX-License-Identifier: Apache-2.0

import CHiredis
import Cryptography
import Glibc

/// A command for a Redis server, as hiredis encodes it. Prints as `<redacted>`, because arguments may be secret.
package struct RedisCommand: Sendable, Redacted {
    /// All arguments, one after the other.
    private var bytes: [UInt8] = []
    /// Where each argument ends in ``bytes``.
    private var ends: [Int] = []

    /// A command with these words.
    package init(_ words: String...) {
        for word in words { append(word) }
    }

    /// A call of a function (FCALL).
    package init(function: String, keys: [[UInt8]]) {
        self.init("FCALL", function)
        append(Int64(clamping: keys.count))
        for key in keys { append(key) }
    }

    /// Adds an argument.
    package mutating func append(_ argument: some Collection<UInt8>) {
        bytes += argument
        ends.append(bytes.count)
    }

    /// Adds an argument.
    package mutating func append(_ argument: String) { append(argument.utf8) }

    /// Adds a number, in decimal digits.
    package mutating func append(_ argument: Int64) { append(String(argument)) }

    /// Appends the encoded command.
    func encode(into output: inout [UInt8]) {
        bytes.withUnsafeBufferPointer { bytes in
            let text = UnsafeRawPointer(bytes.baseAddress)?.assumingMemoryBound(to: CChar.self)
            var start = 0
            var arguments: [UnsafePointer<CChar>?] = []
            var lengths: [Int] = []
            for end in ends {
                arguments.append(text.map { $0 + start })
                lengths.append(end - start)
                start = end
            }
            var encoded: UnsafeMutablePointer<CChar>?
            let count = redisFormatCommandArgv(&encoded, Int32(clamping: ends.count), &arguments, lengths)
            guard count >= 0, let encoded else { fatalError("no memory for a command") }
            output += UnsafeRawBufferPointer(start: encoded, count: Int(clamping: count))
            redisFreeCommand(encoded)
        }
    }
}
