// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import TNP

/// A desktop program that rings its phone over HTTP, and how it takes an answer (Docs/bisq.md).
enum DesktopProgram: CaseIterable {
    /// Sends `GET /relay`; gives up after any error.
    case bisq1
    /// Sends `GET /relay`; after 429 or 503 it sleeps as the answer says, and sends once more.
    case haveno
    /// Sends `POST /v1/…/device`, and otherwise does as Haveno.
    case bisq2

    /// Which program a phone is paired with: Bisq 2 does not know Apple's development environment.
    init(ofPhone phone: SimulatedPhone) {
        let program = Self.allCases[phone.number / 3 % Self.allCases.count]
        self = program == .bisq2 && phone.magic == .iOSDev ? .haveno : program
    }

    /// How many requests may be in flight; the program loses further notifications.
    var maximumRequests: Int { self == .bisq2 ? 5 : 1 }

    /// How long it waits for an answer.
    var timeout: Duration { self == .bisq2 ? .seconds(30) : .seconds(60) }

    /// The pause of Apache's HttpClient 5 if the answer has no Retry-After.
    private static let standardPause = Duration.seconds(1)

    /// How long it sleeps before it sends the same request once more; `nil` if it does not.
    func pause(after answer: DesktopAnswer) -> Duration? {
        guard self != .bisq1, answer.status == 429 || answer.status == 503 else { return nil }
        return answer.retryAfter ?? Self.standardPause
    }

    /// The bytes of the request.
    func request(for envelope: Envelope, to host: String) -> [UInt8] {
        let relay = BisqRelayRequest(envelope)
        guard self == .bisq2 else { return relay.bytes(host: host) }
        let service = envelope.magic.isApple ? "apns" : "fcm"
        let body =
            "{\"encrypted\":\"\(String(decoding: relay.text, as: UTF8.self))\",\"isUrgent\":true,\"isMutableContent\":true}"
        return Array(
            """
            POST /v1/\(service)/device/\(String(decoding: envelope.deviceToken, as: UTF8.self)) HTTP/1.1\r
            Host: \(host)\r
            Content-Type: application/json\r
            Content-Length: \(body.utf8.count)\r
            Connection: close\r
            \r
            \(body)
            """.utf8)
    }
}

/// What a desktop reads of an answer.
struct DesktopAnswer {
    let status: Int
    let retryAfter: Duration?
    let body: Substring

    /// - Returns: `nil` if these bytes are no whole answer: the connection ended before.
    init?(_ bytes: [UInt8]) {
        let text = String(decoding: bytes, as: UTF8.self)
        guard text.hasPrefix("HTTP/1.1 "), let end = text.firstRange(of: "\r\n\r\n") else { return nil }
        guard let status = Int(text.dropFirst(9).prefix(3)) else { return nil }
        self.status = status
        body = text[end.upperBound...]
        func header(_ name: String) -> Int? {
            text[..<end.lowerBound].split(separator: "\r\n").first { $0.lowercased().hasPrefix("\(name): ") }
                .flatMap { Int($0.dropFirst(name.count + 2)) }
        }
        guard header("content-length") == body.utf8.count else { return nil }
        retryAfter = header("retry-after").map { .seconds($0) }
    }

    /// Whether the notification counts as sent: Bisq 1 and Haveno compare the body.
    func isSuccess(for program: DesktopProgram) -> Bool {
        program == .bisq2 ? (200..<300).contains(status) : status == 200 && body == "success"
    }

    /// What is wrong with the answer to a correct request for a phone that has a device token; `nil` if nothing is.
    /// - Parameter mayBeRefused: whether there is a cause to refuse the notification for good.
    func fault(for program: DesktopProgram, mayBeRefused: Bool) -> String? {
        if isSuccess(for: program) || (status == 400 && mayBeRefused) { return nil }
        guard status == 429 || status == 503 else { return "HTTP \(status)" }
        guard let retryAfter else { return "HTTP \(status) without Retry-After" }
        return retryAfter > Self.maximumRetryAfter ? "HTTP \(status) with Retry-After \(retryAfter)" : nil
    }

    /// The longest Retry-After allowed: a thread of Haveno or Bisq 2 sleeps that long.
    private static let maximumRetryAfter = Duration.seconds(5)
}
