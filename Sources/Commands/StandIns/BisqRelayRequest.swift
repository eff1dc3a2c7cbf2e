// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP

/// A request `GET /relay` exactly as Bisq 1 sends it, for demos and benchmarks of the HTTP endpoint.
package struct BisqRelayRequest {
    /// Path and query.
    package let target: String
    /// The notification's text, which the target carries in hexadecimal.
    package let text: [UInt8]

    /// Builds the request for an envelope.
    /// - Parameter envelope: an envelope of a `pipe` app.
    package init(_ envelope: Envelope) {
        let isAndroid = envelope.magic == .android
        var text: [UInt8] = []
        envelope.appendDeliveredJSON(
            format: .pipe, messageMagic: Array((isAndroid ? "BisqMessageAndroid" : "BisqMessageiOS").utf8), to: &text)
        // Bisq 1 sends the fourth part of the pairing token, whatever it is.
        let address = envelope.handle.map { Array($0.text.utf8) } ?? Array(envelope.deviceToken)
        target =
            "/relay?isAndroid=\(isAndroid)&isProduction=\(envelope.magic == .iOS)&isContentAvailable=\(!isAndroid)"
            + "&snd=\(envelope.sound)&token=\(Hex.encode(address))&msg=\(Hex.encode(text))"
        self.text = text
    }

    /// Returns the complete request, with `Connection: close`.
    /// - Parameter host: the host name of the relay.
    package func bytes(host: String) -> [UInt8] {
        Array(
            "GET \(target) HTTP/1.1\r\nUser-Agent: bisq/1.9.17\r\nHost: \(host)\r\nConnection: close\r\n\r\n".utf8)
    }

    /// Sends the request and reads until the relay closes the connection or the time is over.
    package func answer(
        on stream: ByteStream, host: String, within time: Duration, _ loop: EventLoop,
        isolation: isolated (any Actor)? = #isolation
    ) async -> [UInt8] {
        await StreamReader.answer(to: bytes(host: host), on: stream, within: time, loop)
    }

    /// Whether Bisq 1 would accept the answer: it checks only the status and the body `success`.
    package static func isSuccess(_ answer: [UInt8]) -> Bool {
        let text = String(decoding: answer, as: UTF8.self)
        return text.hasPrefix("HTTP/1.1 200 ") && text.hasSuffix("\r\n\r\nsuccess")
    }
}
