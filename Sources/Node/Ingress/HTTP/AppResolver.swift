// SPDX-License-Identifier: Apache-2.0

import NodeConfiguration
import Providers
import TNP

/// Finds the app that an HTTP request is for. The request does not name it, but the form of the encrypted text tells
/// the apps apart.
package struct AppResolver: Sendable {
    private struct App {
        let name: String
        let format: EnvelopeFormat
        /// The text before the first `|` of a notification for iPhones; `nil` if the app is not served there.
        let appleMagic: [UInt8]?
        /// The text before the first `|` of a notification for Android phones; `nil` if the app is not served there.
        let googleMagic: [UInt8]?

        func magic(on platform: Magic) -> [UInt8]? { platform.isApple ? appleMagic : googleMagic }
    }

    private let apps: [App]

    /// Creates a resolver.
    /// - Parameter apps: in order; the first that matches is used.
    package init(_ apps: [Configuration.App]) {
        self.apps = apps.map { app in
            App(
                name: app.name, format: app.format,
                appleMagic: Self.messageMagic(of: app, on: .iOS), googleMagic: Self.messageMagic(of: app, on: .android))
        }
    }

    private static func messageMagic(of app: Configuration.App, on platform: Magic) -> [UInt8]? {
        app.deliveries.lazy.compactMap { $0.messageMagic(on: platform) }.first.map { Array($0.utf8) }
    }

    /// Warnings about apps that no HTTP request can reach, because an earlier app matches the same notifications.
    package var unreachable: [String] {
        apps.indices.dropFirst().flatMap { later in
            [Magic.iOS, .android].compactMap { platform in
                guard let own = apps[later].magic(on: platform) else { return nil }
                let first = apps[..<later].first { app in
                    guard let magic = app.magic(on: platform), app.format == apps[later].format else { return false }
                    return app.format == .sealed || magic == own
                }
                return first.map { app in
                    "the HTTP endpoint cannot reach the app \(apps[later].name) on \(platform): its notifications look like "
                        + "those of \(app.name), which comes first; a pipe app needs a message_magic of its own"
                }
            }
        }
    }

    /// Converts a request for a device token into its app and the envelope that a TNP sender would submit.
    /// - Throws: `Rejection` if no app matches, or the envelope breaks a rule of PROTOCOL §3.
    func envelope(
        of request: APIRequest, to magic: Magic, deviceToken: Bytes
    ) throws(Rejection) -> (Envelope, app: (name: String, format: EnvelopeFormat)) {
        let text = try SealedText(request.text)
        let app = apps.first { app in
            guard let own = app.magic(on: magic) else { return false }
            guard let magic = text.magic else { return app.format == .sealed }
            return app.format == .pipe && magic.elementsEqual(own)
        }
        guard let app else {
            throw Rejection(
                .unknownApp,
                text.magic == nil
                    ? "this node serves no app on this platform whose notifications have no magic"
                    : "this node serves no app on this platform whose notifications have this magic")
        }
        let envelope = try request.envelope(
            of: text, app: (app.name, app.format), magic: magic, deviceToken: deviceToken)
        return (envelope, (app.name, app.format))
    }
}

extension APIRequest {
    /// The envelope that a TNP sender would submit.
    /// - Parameters:
    ///   - text: the parsed ``text``.
    ///   - handle: the handle by which the sender knows the phone; `nil` if it knows the device token.
    /// - Throws: `Rejection` if the envelope breaks a rule of PROTOCOL §3.
    func envelope(
        of text: SealedText, app: (name: String, format: EnvelopeFormat), magic: Magic, deviceToken: Bytes,
        handle: Handle? = nil
    ) throws(Rejection) -> Envelope {
        var envelope = try Envelope(
            app: Array(app.name.utf8)[...], magic: magic, deviceToken: deviceToken, handle: handle, iv: text.iv,
            ciphertext: text.ciphertext, priority: priority, sound: sound, format: app.format)
        envelope.contentAvailable = contentAvailable
        envelope.mutableContent = mutableContent
        return envelope
    }
}
