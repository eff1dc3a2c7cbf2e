// SPDX-License-Identifier: Apache-2.0

/// A counter whose values differ from those of other processes, because it starts at a random number.
struct HexCounter {
    /// The number of digits of each value.
    static let digits = 16

    private(set) var value = UInt64.random(in: 0...UInt64.max)

    mutating func advance() { value &+= 1 }

    /// Appends the value as ``digits`` lower-case hexadecimal digits, `count` times.
    func append(to output: inout [UInt8], times count: Int = 1) {
        for _ in 0..<count {
            for shift in stride(from: 60, through: 0, by: -4) {
                let nibble = UInt8(truncatingIfNeeded: value >> shift) & 15
                output.append(nibble < 10 ? nibble + UInt8(ascii: "0") : nibble - 10 + UInt8(ascii: "a"))
            }
        }
    }
}
