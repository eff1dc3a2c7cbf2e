// SPDX-License-Identifier: Apache-2.0

import Console
import TNP

/// What an outcome means to the person who sends.
struct OutcomeText {
    private let outcome: Outcome

    init(_ outcome: Outcome) { self.outcome = outcome }

    /// The reason, and what to do about it where that is not plain.
    var why: String {
        let text = outcome.text.map(TerminalText.line) ?? outcome.reason.description
        switch outcome.kind {
        case .delivered, .queued, .gone: return text
        case .rejected, .retry: return "\(text) (reason \(outcome.reason.rawValue))" + (advice.map { "; \($0)" } ?? "")
        }
    }

    private var advice: String? {
        switch (outcome.kind, outcome.reason) {
        case (.rejected, .senderKeyNeeded):
            "this phone is rung by signed notifications only: send without --no-key"
        case (.rejected, .notThisSenderKey):
            """
            this phone is bound to another sender key, which comes from its pairing: use its present pairing token. If \
            this is it, somebody else has bound the phone: ask the node's operator to run tocsin unbind
            """
        case (.retry, .proofNeeded), (.retry, .proofWrong): "--max-work SECONDS lets it compute for longer"
        default: nil
        }
    }

    /// When to try again.
    var when: String { outcome.retryAfter == 0 ? "later" : "in \(Self.seconds(outcome.retryAfter))" }

    /// What is left to the phone, where that is nothing or was too little.
    var allowance: String? {
        guard let left = outcome.left, left == 0 || outcome.reason == .deviceTokenOverRate else { return nil }
        return "\(left) more to this phone now" + (outcome.fullIn.map { "; full again in \(Self.seconds($0))" } ?? "")
    }

    private static func seconds(_ milliseconds: UInt32) -> String { "\((UInt64(milliseconds) + 999) / 1000) s" }
}
