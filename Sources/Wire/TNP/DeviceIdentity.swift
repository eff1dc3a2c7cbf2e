// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// What stands for a phone in everything that a node keeps: the canonical form of its device token (PROTOCOL §3,
/// "Identity"). Two phones never have the same identity. Prints as `<redacted>`.
package struct DeviceIdentity: Sendable, Hashable, Redacted {
    /// The platform whose device tokens have this form. The raw values are parts of stored hashes.
    package enum Kind: UInt8, Sendable {
        /// Apple's, the same in both environments: hexadecimal digits in lower case.
        case apple = 0
        /// Google's: byte for byte.
        case google = 1
        /// A push endpoint, under `web` and under `android`, with percent-encoding in capitals (RFC 3986 §6.2.2.1).
        /// ``PushEndpoint`` requires capitals in the path, but not in a query.
        case endpoint = 3
    }

    package let kind: Kind
    /// The canonical form.
    package let bytes: Bytes

    /// The identity of the phone with a device token that obeys the rules of its platform.
    package init(_ deviceToken: Bytes, of magic: Magic) {
        kind = magic.identity(of: deviceToken)
        bytes =
            switch kind {
            case .apple: Self.lowerCase(deviceToken)
            case .google: deviceToken
            case .endpoint: Self.capitalEscapes(deviceToken)
            }
    }

    /// Hexadecimal digits in lower case. Digits that are in lower case already, as usual, are not copied.
    private static func lowerCase(_ digits: Bytes) -> Bytes {
        // A capital letter has bit 0x40 set and bit 0x20 clear. The loop does not end early, so that the compiler can
        // vectorise it.
        let capitals: UInt8 = digits.withUnsafeBufferPointer { bytes in
            var seen: UInt8 = 0
            for index in bytes.indices { seen |= bytes[index] >> 1 & ~bytes[index] & 0x20 }
            return seen
        }
        return capitals == 0 ? digits : digits.map { $0 | 0x20 }[...]
    }

    private static func capitalEscapes(_ url: Bytes) -> Bytes {
        guard url.contains(UInt8(ascii: "%")) else { return url }
        var canonical = Array(url)
        for index in canonical.indices where canonical[index] == UInt8(ascii: "%") {
            for digit in canonical.indices.dropFirst(index + 1).prefix(2)
            where (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(canonical[digit]) {
                canonical[digit] &= 0xDF
            }
        }
        return canonical[...]
    }
}

extension Envelope {
    /// The phone that the envelope is for.
    package var phone: DeviceIdentity { DeviceIdentity(deviceToken, of: magic) }
}

extension HandleRequest.Registration {
    /// The phone that is registered.
    package var phone: DeviceIdentity { DeviceIdentity(deviceToken[...], of: magic) }
}
