// SPDX-License-Identifier: Apache-2.0

import TNP

extension Message {
    /// Decodes a message; `nil` unless the bytes are exactly one valid frame.
    init?(wholeFrame bytes: Bytes) {
        guard bytes.count >= Frame.headerLength, let length: UInt32 = bytes.prefix(4).number(),
            length == bytes.count - 4
        else { return nil }
        let frame = Frame(type: bytes[bytes.startIndex + 4], payload: bytes.dropFirst(Frame.headerLength))
        guard let message = try? Message(frame) else { return nil }
        self = message
    }
}
