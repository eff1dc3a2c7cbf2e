// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Why a node has not accepted a request about a handle.
public struct HandleAnswer: Equatable, Sendable {
    /// What the phone does next.
    public enum Outcome: String, Sendable, Decodable {
        /// Never send this request again.
        case rejected = "REJECTED"
        /// Send it again after ``HandleAnswer/retryAfterMillis``.
        case retry = "RETRY"
        /// The node does not know the handle; the phone registers again.
        case gone = "GONE"
    }

    /// What the phone does next.
    public let outcome: Outcome
    /// The reason's number (PROTOCOL §4).
    public let reason: Int
    /// How long to wait before the request is sent again, in milliseconds.
    public let retryAfterMillis: Int
    /// One sentence for a person.
    public let text: String

    /// The node's text without control characters, at most 200 code points of it.
    private static func sentence(_ text: String) -> String {
        String(text.unicodeScalars.prefix(200).map { $0.value < 0x20 || $0.value == 0x7F ? " " : Character($0) })
    }

    /// Whether a REGISTER lacks a proof of work, or its proof is not good enough.
    var needsProof: Bool { outcome == .retry && (reason == 203 || reason == 204) }

    /// Reads the answer to a request over HTTP.
    /// - Returns: the handle.
    /// - Throws: ``PhoneError/refused(_:)``, ``PhoneError/badAnswer(_:)``.
    public static func handle(status: Int, body: [UInt8]) throws(PhoneError) -> PhoneHandle {
        switch try reply(status: status, body: body) {
        case .accepted(let handle): return handle
        case .refused(let answer): throw .refused(answer)
        }
    }

    /// What a node says to a request.
    enum Reply {
        case accepted(PhoneHandle)
        case refused(HandleAnswer)
    }

    static func reply(status: Int, body: [UInt8]) throws(PhoneError) -> Reply {
        struct Accepted: Decodable { let handle: String }
        struct Refused: Decodable {
            let outcome: Outcome
            let reason: Int
            let retryAfterMillis: Int
            let text: String
        }
        let (decoder, data) = (JSONDecoder(), Data(body))
        if status == 200 {
            guard let handle = (try? decoder.decode(Accepted.self, from: data)).flatMap({ PhoneHandle($0.handle) })
            else {
                throw .badAnswer("it has no handle")
            }
            return .accepted(handle)
        }
        guard let refused = try? decoder.decode(Refused.self, from: data) else {
            // A node that is full or shutting down answers with these statuses and no outcome, before it looks at the
            // request; so may a proxy.
            if [408, 429, 503].contains(status) {
                return .refused(
                    HandleAnswer(outcome: .retry, reason: 0, retryAfterMillis: 1000, text: "status \(status)"))
            }
            throw .badAnswer("status \(status), without an outcome: does this node keep handles?")
        }
        return .refused(
            HandleAnswer(
                outcome: refused.outcome, reason: refused.reason, retryAfterMillis: refused.retryAfterMillis,
                text: Self.sentence(refused.text)))
    }
}
