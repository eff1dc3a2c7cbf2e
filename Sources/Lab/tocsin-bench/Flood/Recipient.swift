// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// The phone that an envelope is for. Prints as `<redacted>`.
struct Recipient: Redacted {
    let magic: Magic
    let deviceToken: [UInt8]

    /// A recipient with a well-formed device token that was never issued. Callers do not ask for `iOSDev`, see
    /// ``Refusals/badTokens``.
    /// - Parameter pushServer: the origin of the push server.
    static func invented(
        _ magic: Magic, at pushServer: String, using random: inout some RandomNumberGenerator
    ) -> Self {
        let text = Hex.encode([UInt8].random(magic == .android ? 70 : 32, using: &random))
        let token =
            switch magic {
            case .iOS, .iOSDev: text
            case .android: "\(text.prefix(22)):APA91b\(text)"
            case .web: "\(pushServer)/push/\(text)"
            }
        return Self(magic: magic, deviceToken: Array(token.utf8))
    }
}

extension [UInt8] {
    /// Random bytes.
    static func random(_ count: Int, using random: inout some RandomNumberGenerator) -> [UInt8] {
        (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
    }
}
