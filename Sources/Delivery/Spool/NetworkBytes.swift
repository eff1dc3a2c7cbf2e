// SPDX-License-Identifier: Apache-2.0

import TNP

extension FixedWidthInteger {
    /// The number in network byte order.
    var networkBytes: [UInt8] { withUnsafeBytes(of: bigEndian) { Array($0) } }

    /// Decodes a number from exactly its width of bytes, in network byte order.
    init(networkBytes bytes: Bytes) {
        precondition(bytes.count == MemoryLayout<Self>.size)
        self = bytes.reduce(0) { $0 << 8 | Self(truncatingIfNeeded: $1) }
    }
}
