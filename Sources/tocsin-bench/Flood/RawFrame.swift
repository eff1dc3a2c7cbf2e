// SPDX-License-Identifier: Apache-2.0

import TNP

/// Frames as nobody should make them.
enum RawFrame {
    static let hello: [UInt8] = {
        var bytes: [UInt8] = []
        bytes.append(Hello())
        return bytes
    }()

    /// - Parameter length: what the frame claims, where not its true length.
    static func bytes(_ type: UInt8, _ payload: [UInt8] = [], claiming length: UInt32? = nil) -> [UInt8] {
        let length = length ?? UInt32(1 + payload.count)
        return withUnsafeBytes(of: length.bigEndian) { Array($0) } + [type] + payload
    }
}
