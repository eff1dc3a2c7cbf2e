// SPDX-License-Identifier: Apache-2.0

import TNP

/// One app on one platform: the destination of an envelope.
package struct Route: Hashable, Sendable, CustomStringConvertible {
    /// The name of the app.
    package let app: String
    /// The platform; Apple's two environments have separate values.
    package let magic: Magic

    package init(app: String, magic: Magic) {
        self.app = app
        self.magic = magic
    }

    /// The form in WELCOME, e.g. "bisq/iOS".
    package var description: String { "\(app)/\(magic.rawValue)" }

    /// Hashes the app's name and the platform's index, which is faster than the platform's text: metrics look up routes
    /// for each envelope.
    package func hash(into hasher: inout Hasher) {
        hasher.combine(app)
        hasher.combine(magic.index)
    }
}
