// SPDX-License-Identifier: Apache-2.0

import TNP

extension FixedWidthInteger {
    /// The number's bytes in network order.
    var networkBytes: [UInt8] { withUnsafeBytes(of: bigEndian) { Array($0) } }

    /// The number that these bytes, as many as it has, are in network order.
    init(networkBytes bytes: Bytes) {
        precondition(bytes.count == MemoryLayout<Self>.size)
        self = bytes.reduce(0) { $0 << 8 | Self(truncatingIfNeeded: $1) }
    }
}
