// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// A command for a Redis server (Redis, "Redis serialization protocol specification": an array of bulk strings), or
/// arguments that many commands share. Prints as `<redacted>`, because arguments may be secret.
package struct RedisCommand: Sendable, Redacted {
    /// The capacity that a function call reserves at its creation, in bytes.
    private static let typicalLength = 1024

    /// The encoded arguments, the command's name included.
    private var bytes: [UInt8] = []
    /// The number of arguments.
    package private(set) var count = 0

    /// A command with these words.
    package init(_ words: String...) {
        for word in words { append(word) }
    }

    /// Arguments, to be added to commands.
    package init(_ arguments: [[UInt8]]) {
        for argument in arguments { append(argument) }
    }

    /// A call of a function (FCALL).
    /// - Parameter encodedKeys: keys that are encoded already; they stand before `keys`.
    package init(function: String, _ encodedKeys: RedisCommand = RedisCommand(), keys: [[UInt8]]) {
        bytes.reserveCapacity(Self.typicalLength)
        append("FCALL")
        append(function)
        append(UInt64(clamping: encodedKeys.count + keys.count))
        append(encodedKeys)
        for key in keys { append(key) }
    }

    /// Appends the encoded command.
    func encode(into output: inout [UInt8]) {
        output.append(copying: "*")
        output.append(decimal: UInt64(clamping: count))
        output.append(copying: "\r\n")
        output.append(copying: bytes)
    }

    package mutating func append(_ argument: [UInt8]) {
        argument.withUnsafeBytes { append($0) }
    }

    package mutating func append(_ argument: String) {
        var argument = argument
        argument.withUTF8 { append(UnsafeRawBufferPointer($0)) }
    }

    /// Adds a number, in decimal digits.
    package mutating func append(_ argument: UInt64) { append(isNegative: false, argument) }

    /// Adds a number, in decimal digits.
    package mutating func append(_ argument: Int64) { append(isNegative: argument < 0, argument.magnitude) }

    private mutating func append(isNegative: Bool, _ magnitude: UInt64) {
        var length: UInt64 = isNegative ? 2 : 1
        var rest = magnitude
        while rest >= 10 {
            rest /= 10
            length += 1
        }
        begin(length)
        if isNegative { bytes.append(UInt8(ascii: "-")) }
        bytes.append(decimal: magnitude)
        end()
    }

    /// Adds arguments that are encoded already.
    package mutating func append(_ others: RedisCommand) {
        bytes.append(copying: others.bytes)
        count += others.count
    }

    package mutating func append(_ argument: UnsafeRawBufferPointer) {
        begin(UInt64(clamping: argument.count))
        bytes.append(copying: argument)
        end()
    }

    private mutating func begin(_ length: UInt64) {
        bytes.append(UInt8(ascii: "$"))
        bytes.append(decimal: length)
        bytes.append(copying: "\r\n")
    }

    private mutating func end() {
        bytes.append(copying: "\r\n")
        count += 1
    }
}
