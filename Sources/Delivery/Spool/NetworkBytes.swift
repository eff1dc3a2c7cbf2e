// SPDX-License-Identifier: Apache-2.0

import TNP

extension FixedWidthInteger {
    /// The number in network byte order.
    var networkBytes: [UInt8] { withUnsafeBytes(of: bigEndian) { Array($0) } }

    /// Decodes a number in network byte order; `nil` unless the bytes have exactly its width.
    init(networkBytes bytes: Bytes) {
        precondition(bytes.count == MemoryLayout<Self>.size)
        self = bytes.reduce(0) { $0 << 8 | Self(truncatingIfNeeded: $1) }
    }
}
