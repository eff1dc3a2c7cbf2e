// SPDX-License-Identifier: Apache-2.0

import TNP

/// Where envelopes for one app on one platform go.
package struct Route: Hashable, Sendable, CustomStringConvertible {
    /// The app profile's name.
    package let app: String
    package let magic: Magic

    /// - Parameters: as the properties of the same names.
    package init(app: String, magic: Magic) {
        self.app = app
        self.magic = magic
    }

    /// As WELCOME names it, e.g. "bisq/iOS".
    package var description: String { "\(app)/\(magic.rawValue)" }

    // Not by the magic's text: this is looked up several times for each envelope.
    package func hash(into hasher: inout Hasher) {
        hasher.combine(app)
        switch magic {
        case .iOS: hasher.combine(0 as UInt8)
        case .iOSDev: hasher.combine(1 as UInt8)
        case .android: hasher.combine(2 as UInt8)
        }
    }
}
