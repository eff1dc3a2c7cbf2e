// SPDX-License-Identifier: Apache-2.0

import TNP

/// Builds frames without any check.
enum RawFrame {
    /// A valid HELLO.
    static let hello: [UInt8] = {
        var bytes: [UInt8] = []
        bytes.append(Hello())
        return bytes
    }()

    /// A frame of any type and payload.
    /// - Parameter length: the length that the frame claims; `nil` for the true one.
    static func bytes(_ type: UInt8, _ payload: [UInt8] = [], claiming length: UInt32? = nil) -> [UInt8] {
        let length = length ?? UInt32(1 + payload.count)
        return withUnsafeBytes(of: length.bigEndian) { Array($0) } + [type] + payload
    }
}
