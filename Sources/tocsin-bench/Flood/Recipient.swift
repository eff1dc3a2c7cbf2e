// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// Whom an envelope is for. Prints as `<redacted>`.
struct Recipient: Redacted {
    let magic: Magic
    let deviceToken: [UInt8]

    /// One whose device token has the right form, and that nobody has given out. Never of Apple's development
    /// environment: that is also asked for what production does not know, and so tells how often one was asked for twice.
    static func invented(_ magic: Magic, using random: inout some RandomNumberGenerator) -> Self {
        let text = Hex.encode([UInt8].random(magic == .android ? 70 : 32, using: &random))
        let token = magic == .android ? "\(text.prefix(22)):APA91b\(text)" : text
        return Self(magic: magic, deviceToken: Array(token.utf8))
    }
}

extension [UInt8] {
    static func random(_ count: Int, using random: inout some RandomNumberGenerator) -> [UInt8] {
        (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
    }
}
