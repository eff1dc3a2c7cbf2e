// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Sender
import TNP
import TestSupport
import Testing

@testable import Providers

/// The outcome table for the answers of an upstream node.
@Suite(.tags(.computing)) struct UpstreamAnswersTests {
    private func result(_ kind: Outcome.Kind, _ reason: Reason, after: UInt32 = 0, text: String? = nil) -> AttemptResult
    {
        UpstreamAnswers.attemptResult(on: Outcome(kind, reason: reason, retryAfter: after, text: text))
    }

    @Test func `every reason of the protocol has exactly one row`() {
        let rows = UpstreamAnswers.table.map(\.reason)
        #expect(Set(rows).count == rows.count)
        #expect(Set(rows).union([.none]) == Set(Reason.known.map(\.reason)))
    }

    @Test func `a final answer is final, and the node retries after the others`() {
        for row in UpstreamAnswers.table {
            let attempt = result(row.kind, row.reason)
            #expect(attempt.disposition == row.disposition)
            #expect(attempt.answer == row.reason.name)
            if attempt.outcome.kind == .retry {
                #expect(row.disposition.retry != .never && attempt.outcome.retryAfter > 0)
            } else {
                #expect(row.disposition.retry == .never && attempt.outcome.kind == row.kind)
            }
        }
    }

    @Test func `proof of work is never the sender's to do`() {
        for reason in [Reason.proofRequired, .proofWrong] {
            #expect(result(.retry, reason).outcome.reason == .nodeBusy)
        }
    }

    @Test func `a device token over its rate is paused alone, and a busy upstream slows the lane`() {
        let paused = result(.retry, .deviceTokenOverRate, after: 1500)
        #expect(paused.disposition.token == .paused && paused.disposition.lane == .success)
        #expect(paused.retryAfter == 2 && paused.outcome.retryAfter == 2000)
        #expect(result(.retry, .nodeBusy).disposition.lane == .failure)
        #expect(result(.retry, .connectionOverRate).outcome.reason == .nodeBusy)
    }

    @Test func `an unknown reason counts by its outcome`() {
        let (odd, rejected) = (Reason(rawValue: 999), result(.rejected, Reason(rawValue: 999), text: "why"))
        #expect(rejected.outcome == .rejected(odd, text: "why"))
        #expect(rejected.answer == "unknown")
        #expect(result(.retry, odd).outcome.reason == .providerUnreachable)
        // A reason with an outcome that the protocol does not pair it with.
        #expect(result(.gone, .nodeBusy).outcome.kind == .gone)
        #expect(result(.delivered, .nodeBusy).outcome.kind == .delivered)
    }

    @Test func `the text of a GOAWAY does not become a detail, which the log shows`() {
        let goAway = GoAway(code: .abuse, retryAfter: 90_000, text: "secret")
        for failure in [NodeLink.Failure.refused(goAway), .closing(goAway)] {
            let attempt = UpstreamAnswers.attemptResult(on: failure, isNew: true)
            #expect(attempt.detail == "GOAWAY with code 6")
            #expect(attempt.retryAfter == 90)
        }
        let long = GoAway(code: .abuse, retryAfter: .max, text: "")
        #expect(UpstreamAnswers.attemptResult(on: .refused(long), isNew: true).retryAfter == 600)
    }

    @Test func `no answer that one sender can cause opens the breaker`() throws {
        for row in UpstreamAnswers.table where row.disposition.lane == .trip {
            #expect([.unknownApp, .platformNotConfigured, .notASite].contains(row.reason))
        }
        // What an upstream node says about single device tokens, which strangers may have invented, or single connections.
        for reason in [
            .deviceTokenOverRate, .tooManyUnproven, .connectionOverRate, .tooManyInFlight, .providerThrottles,
            .credentialsRefused, .proofRequired,
        ] as [Reason] {
            let row = try #require(UpstreamAnswers.table.first { $0.kind == .retry && $0.reason == reason })
            #expect(row.disposition.lane == .success, "\(reason)")
        }
        let blocked = UpstreamAnswers.attemptResult(on: .refused(GoAway(code: .abuse)), isNew: true)
        #expect(blocked.disposition.token == .paused && blocked.disposition.lane == .success)
        // A failure that an earlier attempt for the same phone has counted counts no more.
        #expect(UpstreamAnswers.attemptResult(on: .unreachable("x"), isNew: true).disposition.lane == .failure)
        #expect(UpstreamAnswers.attemptResult(on: .unreachable("x"), isNew: false).disposition.lane == .none)
    }

    @Test func `the other node does not decide how long a text or an id is`() {
        let long = String(repeating: "x", count: 60_000)
        let attempt = UpstreamAnswers.attemptResult(
            on: Outcome(.rejected, reason: .payloadRefused, providerID: long, text: long))
        #expect(attempt.outcome.providerID == nil && attempt.outcome.text?.utf8.count == 512)
    }

    @Test func `each device token has a key of its own, which stays the same`() throws {
        func signed(_ secret: UInt8, _ token: String) throws -> Bytes? {
            let keys = UpstreamKeys(secret: SecretBytes([UInt8](repeating: secret, count: 32)))
            var envelope = try Envelope(
                magic: .android, deviceToken: Array(token.utf8)[...], iv: Array("0123456789abcdef".utf8)[...],
                ciphertext: [UInt8](repeating: 1, count: 16)[...], format: .pipe)
            keys.sign(&envelope)
            #expect(envelope.signature?.isValid(for: envelope.digest) == true)
            return envelope.signature?.key
        }
        #expect(try signed(1, "a") == signed(1, "a"))
        #expect(try signed(1, "a") != signed(1, "b"))
        #expect(try signed(1, "a") != signed(2, "a"))
    }
}
