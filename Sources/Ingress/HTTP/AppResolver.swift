// SPDX-License-Identifier: Apache-2.0

import NodeConfiguration
import Providers
import TNP

/// Which app's phone a desktop of today wants to ring: its requests do not say, but what they carry does.
package struct AppResolver: Sendable {
    private struct App {
        let name: String
        let format: EnvelopeFormat
        /// What its phones read before the first `|`; nil: it does not serve them.
        let appleMagic: [UInt8]?
        let googleMagic: [UInt8]?

        func magic(on platform: Magic) -> [UInt8]? { platform == .android ? googleMagic : appleMagic }
    }

    private let apps: [App]

    /// - Parameter apps: the first that fits is taken.
    package init(_ apps: [Configuration.App]) {
        self.apps = apps.map { app in
            App(
                name: app.name, format: app.format, appleMagic: app.apns.map { Array($0.profile.messageMagic.utf8) },
                googleMagic: app.fcm.map { Array($0.profile.messageMagic.utf8) })
        }
    }

    /// Which apps nobody reaches through the endpoint, as an earlier one fits whatever they do; in words.
    package var unreachable: [String] {
        apps.indices.dropFirst().flatMap { later in
            [Magic.iOS, .android].compactMap { platform in
                guard let own = apps[later].magic(on: platform) else { return nil }
                let first = apps[..<later].first { app in
                    guard let magic = app.magic(on: platform), app.format == apps[later].format else { return false }
                    return app.format == .sealed || magic == own
                }
                return first.map { app in
                    "through the HTTP endpoint nothing reaches the app \(apps[later].name) on \(platform): its notifications look "
                        + "as those of \(app.name), which comes first; has it a message_magic of its own?"
                }
            }
        }
    }

    /// The envelope of a request, as a sender of TNP would have made it, and its app.
    /// - Throws: `Rejection` where no app fits, or the envelope breaks a rule of PROTOCOL §3.
    func envelope(of request: RelayRequest) throws(Rejection) -> (Envelope, app: (name: String, format: EnvelopeFormat))
    {
        let text = try SealedText(request.text)
        let app = apps.first { app in
            guard let own = app.magic(on: request.magic) else { return false }
            guard let magic = text.magic else { return app.format == .sealed }
            return app.format == .pipe && magic.elementsEqual(own)
        }
        guard let app else {
            throw Rejection(
                .unknownApp,
                text.magic == nil
                    ? "this node serves no app on this platform whose notifications come without a magic"
                    : "this node serves no app on this platform whose notifications have this magic")
        }
        var envelope = try Envelope(
            app: Array(app.name.utf8)[...], magic: request.magic, deviceToken: request.deviceToken[...], iv: text.iv,
            ciphertext: text.ciphertext, priority: request.priority, sound: request.sound, format: app.format)
        envelope.contentAvailable = request.contentAvailable
        envelope.mutableContent = request.mutableContent
        return (envelope, (app.name, app.format))
    }
}
