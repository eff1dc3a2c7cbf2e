// SPDX-License-Identifier: Apache-2.0

import HTTP2
import TNP
import TestSupport
import Testing

@testable import Providers

@Suite(.tags(.computing)) struct TransportEventsTests {
    @Test func `each request failure maps to one event`() {
        let failures: [(failure: RequestFailure, event: TransportEvent)] = [
            (.notProcessed(.unreachable("refused")), .unreachable),
            (.notProcessed(.timedOut), .noCapacity),
            (.notProcessed(.reset(code: 7)), .refusedStream),
            (.notProcessed(.goAway), .goAway),
            (.notProcessed(.connectionLost("closed")), .lostBeforeSent),
            (.notProcessed(.responseTooLarge), .responseTooLarge),
            (.outcomeUnknown(.connectionLost("closed")), .connectionLost),
            (.outcomeUnknown(.reset(code: 2)), .reset),
            (.outcomeUnknown(.timedOut), .timedOut),
            (.outcomeUnknown(.responseTooLarge), .responseTooLarge),
        ]
        for (failure, event) in failures { #expect(TransportEvent(failure) == event) }
    }

    @Test func `a request that may have been processed is retried at most once`() {
        let causes: [RequestFailure.Cause] = [
            .unreachable("refused"), .connectionLost("closed"), .timedOut, .reset(code: 7), .goAway, .responseTooLarge,
        ]
        for cause in causes {
            #expect(RequestFailure.outcomeUnknown(cause).attemptResult.disposition.retry == .onceMore, "\(cause)")
        }
    }

    @Test func `each event has the decided disposition`() {
        for (event, retry, lane, seconds) in decided {
            let disposition = event.disposition
            #expect(disposition.retry == retry, "\(event)")
            #expect(disposition.lane == lane, "\(event)")
            #expect(disposition.kind == .retry, "\(event)")
            #expect(disposition.reason == .providerUnreachable, "\(event)")
            #expect(disposition.defaultRetryAfter == seconds, "\(event)")
            #expect(disposition.failureSource == .provider, "\(event)")
            // A transport event concerns neither the device token nor the credential.
            #expect(disposition.token == .none, "\(event)")
            #expect(disposition.credential == .kept, "\(event)")
            let connection: ConnectionEffect = event == .timedOut ? .drain : .keep
            #expect(disposition.connection == connection, "\(event)")
        }
    }

    @Test func `every event has a decision`() {
        #expect(decided.map { $0.event } == TransportEvent.allCases)
    }

    @Test func `no two events have the same name in logs and metrics`() {
        #expect(Set(TransportEvent.allCases.map(\.rawValue)).count == TransportEvent.allCases.count)
    }

    @Test func `the operator sees the cause, and the sender only when to retry`() {
        let details: [(failure: RequestFailure, detail: String?)] = [
            (.notProcessed(.unreachable("push.example:443: refused")), "push.example:443: refused"),
            (.outcomeUnknown(.connectionLost("closed")), "closed"),
            (.outcomeUnknown(.reset(code: 2)), "HTTP/2 error code 2"),
            (.outcomeUnknown(.timedOut), nil), (.notProcessed(.goAway), nil),
        ]
        for (failure, detail) in details {
            let attemptResult = failure.attemptResult
            #expect(attemptResult.detail == detail)
            #expect(attemptResult.answer == TransportEvent(failure).rawValue)
            #expect(attemptResult.outcome.text == nil)
            #expect(attemptResult.outcome.retryAfter == TransportEvent(failure).disposition.defaultRetryAfter * 1000)
            #expect(attemptResult.retryAfter == nil)
        }
    }
}

/// The decision for each event: whether the node retries, the effect on the lane, and the seconds after which the
/// sender may retry.
private let decided:
    [(event: TransportEvent, retry: Disposition.Retry, lane: Disposition.LaneEffect, seconds: UInt32)] = [
        (.unreachable, .later(minimum: 0), .failure, 30),
        (.noCapacity, .later(minimum: 0), .failure, 5),
        (.refusedStream, .atOnce, .none, 1),
        (.goAway, .atOnce, .none, 1),
        (.lostBeforeSent, .atOnce, .none, 1),
        (.connectionLost, .onceMore, .none, 5),
        (.reset, .onceMore, .failure, 5),
        (.timedOut, .onceMore, .none, 5),
        (.responseTooLarge, .onceMore, .failure, 5),
    ]

@Suite(.tags(.computing)) struct DispositionTests {
    private static let rows: [(name: String, disposition: Disposition)] = {
        var rows = APNsAnswers.table.map { (name: $0.reason, disposition: $0.disposition) }
        rows += FCMAnswers.table.map { (name: $0.code, disposition: $0.disposition) }
        rows += TransportEvent.allCases.map { (name: $0.rawValue, disposition: $0.disposition) }
        return rows
    }()

    @Test func `the node retries exactly what the sender may retry`() {
        for (name, disposition) in Self.rows {
            #expect((disposition.kind == .retry) == (disposition.retry != .never), "\(name)")
            #expect((disposition.kind == .retry) == (disposition.defaultRetryAfter > 0), "\(name)")
        }
    }

    @Test func `only an answer about the device itself ends a pairing`() {
        for (name, disposition) in Self.rows {
            let endsPairing = disposition.kind == .gone || disposition.reason == .badDeviceToken
            let isAboutDevice = [Disposition.TokenEffect.unknownInEnvironment, .otherApp, .gone].contains(
                disposition.token)
            #expect(endsPairing == isAboutDevice, "\(name)")
            #expect(endsPairing == (disposition.failureSource == .deviceToken), "\(name)")
        }
    }

    @Test func `a device token cannot trip the breaker of its lane`() {
        // FCM answers this for a token of an iOS or web app in the Firebase project.
        let names: Set = ["THIRD_PARTY_AUTH_ERROR"]
        for (name, disposition) in Self.rows where disposition.token != .none || names.contains(name) {
            #expect(disposition.lane != .trip, "\(name)")
        }
    }

    @Test func `only refused credentials or throttling trip the breaker at once`() {
        for (name, disposition) in Self.rows where disposition.lane == .trip {
            #expect(disposition.reason == .credentialsRefused || disposition.reason == .providerThrottles, "\(name)")
        }
    }

    @Test func `the operator is alerted exactly when senders are told that credentials are refused`() {
        for (name, disposition) in Self.rows {
            #expect(
                (disposition.failureSource == .nodeOperator) == (disposition.reason == .credentialsRefused), "\(name)")
        }
    }

    @Test func `the sender receives the provider's retry-after, up to one day`() {
        let disposition = Disposition.unavailable(seconds: 30, minimum: 10)
        let cases: [(retryAfter: UInt32?, seconds: UInt32)] = [
            (nil, 30), (1, 1), (86_400, 86_400), (86_401, 86_400), (.max, 86_400),
        ]
        for (retryAfter, seconds) in cases {
            let attemptResult = disposition.attemptResult(answer: "UNAVAILABLE", retryAfter: retryAfter)
            #expect(attemptResult.outcome == .retry(.providerUnreachable, after: seconds * 1000))
            #expect(attemptResult.retryAfter == retryAfter.map { min($0, 86_400) })
        }
    }

    @Test func `an outcome carries only the fields of its kind`() {
        func attemptResult(_ disposition: Disposition) -> AttemptResult {
            disposition.attemptResult(
                answer: "of a test", providerID: "an-id", retryAfter: 7, goneSince: 1_700_000_000_000)
        }
        #expect(attemptResult(.delivered).outcome == .delivered(id: "an-id"))
        #expect(attemptResult(.gone).outcome == .gone(since: 1_700_000_000_000))
        var unknown = Outcome.rejected(.badDeviceToken, text: Reason.badDeviceToken.description)
        #expect(attemptResult(.foreignToken).outcome == unknown)
        unknown.isTokenUnknown = true
        #expect(attemptResult(.badToken).outcome == unknown)
        let long = String(repeating: "i", count: SubmissionResult.maximumProviderIDLength + 1)
        #expect(Disposition.delivered.attemptResult(answer: "accepted", providerID: long).outcome == .delivered())
        #expect(attemptResult(.misconfigured).outcome == .retry(.credentialsRefused, after: 7000))
        for disposition in [Disposition.delivered, .gone, .badToken] {
            #expect(attemptResult(disposition).retryAfter == nil)
        }
    }

    @Test func `Retry-After is a number of seconds or absent`() {
        let values: [(text: String, seconds: UInt32?)] = [
            ("0", 0), ("120", 120), ("4294967295", .max), ("4294967296", nil), ("-1", nil), ("1.5", nil), ("", nil),
            ("soon", nil), ("Sun, 06 Nov 1994 08:49:37 GMT", nil),
        ]
        for (text, seconds) in values {
            var headers = HeaderBlock()
            headers.append("retry-after", text)
            #expect(retryAfter(headers) == seconds, "\(text)")
        }
        #expect(retryAfter(HeaderBlock()) == nil)
    }
}
