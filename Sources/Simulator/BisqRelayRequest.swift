// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP

/// `GET /relay` as Bisq 1 writes it, for what shows or measures the HTTP endpoint as a desktop of today would use it.
package struct BisqRelayRequest {
    /// Path and query.
    package let target: String

    /// - Parameter envelope: of a `pipe` app.
    package init(_ envelope: Envelope) {
        let isAndroid = envelope.magic == .android
        var text: [UInt8] = []
        envelope.appendDeliveredJSON(
            format: .pipe, messageMagic: Array((isAndroid ? "BisqMessageAndroid" : "BisqMessageiOS").utf8), to: &text)
        target =
            "/relay?isAndroid=\(isAndroid)&isProduction=\(envelope.magic == .iOS)&isContentAvailable=\(!isAndroid)"
            + "&snd=\(envelope.sound)&token=\(Hex.encode(envelope.deviceToken))&msg=\(Hex.encode(text))"
    }

    /// The whole request, after which the connection ends.
    /// - Parameter host: of the relay.
    package func bytes(host: String) -> [UInt8] {
        Array(
            "GET \(target) HTTP/1.1\r\nUser-Agent: bisq/1.9.17\r\nHost: \(host)\r\nConnection: close\r\n\r\n".utf8)
    }

    /// Sends it and reads until the relay ends the connection, or the time is over.
    package func answer(
        on stream: ByteStream, host: String, within time: Duration, _ loop: EventLoop,
        isolation: isolated (any Actor)? = #isolation
    ) async -> [UInt8] {
        let reader = StreamReader(stream)
        stream.write(bytes(host: host))
        let timer = Timer(on: loop) { stream.fail(.timedOut) }
        timer.start(after: time)
        defer { timer.stop() }
        return await reader.readToEnd()
    }

    /// All that Bisq looks at: the status, and these seven bytes as the body.
    package static func isSuccess(_ answer: [UInt8]) -> Bool {
        let text = String(decoding: answer, as: UTF8.self)
        return text.hasPrefix("HTTP/1.1 200 ") && text.hasSuffix("\r\n\r\nsuccess")
    }
}
