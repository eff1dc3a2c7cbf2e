// SPDX-License-Identifier: Apache-2.0

import Console
import TNP

/// Describes an outcome to the user who sent the notification.
struct OutcomeText {
    private let outcome: Outcome

    init(_ outcome: Outcome) { self.outcome = outcome }

    /// The reason, and what to do about it if that is not obvious.
    var reason: String {
        let text = TerminalText.line(outcome.sentence)
        switch outcome.kind {
        case .delivered, .queued, .gone: return text
        case .rejected, .retry: return "\(text) (reason \(outcome.reason.rawValue))" + (advice.map { "; \($0)" } ?? "")
        }
    }

    private var advice: String? {
        switch (outcome.kind, outcome.reason) {
        case (.rejected, .senderKeyRequired):
            "this phone accepts only signed notifications: send without --no-key"
        case (.rejected, .senderKeyMismatch):
            """
            this phone was paired anew elsewhere, or this pairing token is an old one: use the phone's current one. If it \
            is the current one, give the one before with --old-pairing; if that is lost, ask the node's operator to run \
            tocsin unbind
            """
        case (.retry, .proofRequired), (.retry, .proofWrong): "--max-work SECONDS allows more computing"
        default: nil
        }
    }

    /// When to retry: in how many seconds, rounded up, or `later` if the node gives no time.
    var retryTime: String { outcome.retryAfter == 0 ? "later" : "in \(Self.seconds(outcome.retryAfter))" }

    /// A sentence with the number of notifications that the phone may still receive now; `nil` unless that number is 0
    /// or the phone's rate limit caused the outcome.
    var allowance: String? {
        guard let left = outcome.left, left == 0 || outcome.reason == .deviceTokenOverRate else { return nil }
        return "notifications left for this phone now: \(left)"
            + (outcome.fullIn.map { "; full allowance in \(Self.seconds($0))" } ?? "")
    }

    private static func seconds(_ milliseconds: UInt32) -> String { "\((UInt64(milliseconds) + 999) / 1000) s" }
}
