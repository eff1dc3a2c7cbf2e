// SPDX-License-Identifier: Apache-2.0

import Foundation
import HTTP2
import Settings
import StandIns
import TNP
import TestSupport
import Testing

@testable import Cryptography
@testable import Providers

/// What `tocsin check` finds out about credentials, and says about the answers to probes.
@Suite(.tags(.computing)) struct ProviderCheckTests {
    private let now: Int64 = 1_800_000_000
    private let day: Int64 = 86_400

    // MARK: Credentials

    @Test func `equal references have one text, by which a reload recognises a credential`() {
        let texts = (0..<50).map { _ in
            AppleKeyCredential.reference(file: "/k.p8", keyID: "ABCDE12345", teamID: "FGHIJ67890").canonicalText
        }
        #expect(Set(texts).count == 1 && texts[0].contains("ABCDE12345") && texts[0].contains("FGHIJ67890"))
    }

    @Test func `a key file with another key id in its name is a warning`() {
        #expect(CredentialCheck.fileName("/x/AuthKey_ABCDE12345.p8", keyID: "ABCDE12345") == nil)
        #expect(CredentialCheck.fileName("/x/key.p8", keyID: "ABCDE12345") == nil)
        #expect(CredentialCheck.fileName("/x/AuthKey_short.p8", keyID: "ABCDE12345") == nil)
        let finding = CredentialCheck.fileName("/x/AuthKey_ZZZZZ99999.p8", keyID: "ABCDE12345")
        #expect(finding?.grade == .warning)
        #expect(finding?.text.contains("ZZZZZ99999") == true && finding?.text.contains("ABCDE12345") == true)
    }

    @Test func `a credential must belong to the node's user`() {
        #expect(CredentialCheck.owner("/k", owner: 7, mode: 0o600, nodeUser: 7) == nil)
        let finding = CredentialCheck.owner("/k", owner: 0, mode: 0o600, nodeUser: 4_000_000)
        #expect(finding?.grade == .failed && finding?.text.contains("belongs to root") == true)
        #expect(finding?.text.contains("chown 4000000 /k") == true)
        // Root can read every file, so a credential of the node's user is not a failure.
        #expect(CredentialCheck.owner("/k", owner: 7, mode: 0o600, nodeUser: 0) == nil)
        // As systemd and container runtimes give secrets.
        #expect(CredentialCheck.owner("/run/secrets/k", owner: 0, mode: 0o444, nodeUser: 4_000_000) == nil)
        #expect(CredentialCheck.owner("/run/credentials/k", owner: 0, mode: 0o440, nodeUser: 4_000_000) == nil)
    }

    private func certificate(
        ending: Int64, name: String = "Apple Push Services: a.b", environment: CertificateFacts.Environment? = .both
    ) -> CertificateFacts {
        CertificateFacts(
            commonName: name, userID: nil, environment: environment, notBefore: now - 300 * day, notAfter: ending)
    }

    @Test func `a certificate is a warning for its last 30 days, then a failure`() {
        let cases: [(left: Int64, grade: Finding.Grade)] = [
            (365 * day, .ok), (30 * day + 1, .ok), (30 * day, .warning), (1, .warning), (0, .failed), (-day, .failed),
        ]
        for (left, grade) in cases {
            let findings = CredentialCheck.certificate(
                "/c.p12", certificate(ending: now + left), topic: "a.b", now: now)
            #expect(findings.map(\.grade) == [grade], "\(left) s left")
        }
        var early = certificate(ending: now + 300 * day)
        early.notBefore = now + 1
        #expect(CredentialCheck.certificate("/c", early, topic: "a.b", now: now).first?.grade == .failed)
    }

    @Test func `a certificate for another app fails, for development only is a warning`() {
        let good = now + 300 * day
        let other = CredentialCheck.certificate(
            "/c", certificate(ending: good, name: "Apple Push Services: c.d"), topic: "a.b", now: now)
        #expect(other.map(\.grade) == [.ok, .failed] && other[1].text.contains("c.d"))
        let development = CredentialCheck.certificate(
            "/c", certificate(ending: good, environment: .development), topic: "a.b", now: now)
        #expect(development.map(\.grade) == [.ok, .warning])
        let unknown = CredentialCheck.certificate(
            "/c", certificate(ending: good, name: "push", environment: nil), topic: "a.b", now: now)
        #expect(unknown.map(\.grade) == [.ok])
    }

    @Test func `a certificate's app is its user id, or else the end of its common name`() throws {
        var facts = certificate(ending: now)
        #expect(facts.topic == "a.b")
        facts.userID = "u.v"
        #expect(facts.topic == "u.v")
        facts.userID = nil
        facts.commonName = "push"
        #expect(facts.topic == nil)
        let issued = CertificateAuthority(name: "test").issue(
            subject: "Apple Push Services: com.example.app", purpose: .client, validFor: 3600)
        let read = try #require(CertificateFacts(pem: issued.certificates))
        #expect(read.topic == "com.example.app" && read.environment == nil)
        #expect(read.notAfter == issued.notAfter && read.notBefore < read.notAfter)
        #expect(CertificateFacts(pem: Array("nothing".utf8)) == nil)
    }

    @Test func `an app with the topic of an earlier one is a warning that names both`() {
        #expect(CredentialCheck.sharedTopic(("b", "y"), [("a", "x")]) == nil)
        let finding = CredentialCheck.sharedTopic(("c", "x"), [("a", "x"), ("b", "x")])
        #expect(finding?.subject == "c/apns" && finding?.grade == .warning)
        #expect(finding?.text.contains(" a (x)") == true)
    }

    // MARK: Apple and Google

    @Test func `each APNs answer that the operator must act on is a failure with advice`() {
        for row in APNsAnswers.table {
            let response = Response(status: row.status, body: Array("{\"reason\":\"\(row.reason)\"}".utf8))
            let answer = ProbeAnswer(APNsAnswers.attemptResult(on: response))
            let finding = AppleAdvice.finding(
                on: answer, app: "a", environment: .production, topic: "x.y", isCertificate: false)
            switch row.disposition.failureSource {
            case .none, .deviceToken: #expect(finding.grade == .ok, "\(row.reason)")
            case .nodeOperator, .developer:
                #expect(finding.grade == .failed && finding.text.contains(row.reason), "\(row.reason)")
                #expect(finding.text.contains(": "), "\(row.reason): no advice")
            case .provider: #expect(finding.grade != .ok, "\(row.reason)")
            }
        }
    }

    @Test func `a credential for production only is a warning in development`() {
        for reason in ["BadCertificateEnvironment", "BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken"] {
            let response = Response(status: 403, body: Array("{\"reason\":\"\(reason)\"}".utf8))
            let answer = ProbeAnswer(APNsAnswers.attemptResult(on: response))
            let grades = [PushService.Environment.production, .development].map {
                AppleAdvice.finding(on: answer, app: "a", environment: $0, topic: "x", isCertificate: true).grade
            }
            #expect(grades == [.failed, .warning], "\(reason)")
        }
    }

    private func google(_ status: Int, _ code: String, field: String? = nil) -> Finding {
        let detail =
            field.map { "{\"fieldViolations\":[{\"field\":\"\($0)\"}]}" } ?? "{\"errorCode\":\"\(code)\"}"
        let body =
            status == 200
            ? "{\"name\":\"projects/p/messages/fake_message_id\"}"
            : "{\"error\":{\"status\":\"\(code)\",\"details\":[\(detail)]}}"
        let attemptResult = FCMAnswers.attemptResult(on: Response(status: status, body: Array(body.utf8)))
        return GoogleAdvice.finding(on: ProbeAnswer(attemptResult), app: "a", projectID: "p")
    }

    @Test func `an FCM answer about the device token is fine, about the account a failure`() {
        let cases: [(Int, String, String?, Finding.Grade)] = [
            (200, "", nil, .ok), (400, "INVALID_ARGUMENT", "message.token", .ok), (404, "UNREGISTERED", nil, .ok),
            (400, "INVALID_ARGUMENT", "message.data", .failed), (403, "PERMISSION_DENIED", nil, .failed),
            (403, "SENDER_ID_MISMATCH", nil, .failed), (401, "UNAUTHENTICATED", nil, .failed),
            (401, "THIRD_PARTY_AUTH_ERROR", nil, .failed), (404, "NOT_FOUND", nil, .failed),
            (429, "QUOTA_EXCEEDED", nil, .warning), (503, "UNAVAILABLE", nil, .failed),
        ]
        for (status, code, field, grade) in cases {
            let finding = google(status, code, field: field)
            #expect(finding.grade == grade, "\(status) \(code): \(finding.text)")
        }
        #expect(google(403, "PERMISSION_DENIED").text.contains("project p"))
    }

    @Test(arguments: [EnvelopeFormat.pipe, .sealed])
    func `a probe's envelope is valid and unique`(_ format: EnvelopeFormat) throws {
        let token = Array(String(repeating: "0", count: PairingToken.appleTokenLength).utf8)
        let (one, other) = (
            try #require(try ProbeEnvelope.make(.iOS, format: format)),
            try #require(try ProbeEnvelope.make(.iOS, format: format))
        )
        #expect(one.digest != other.digest && one.ttl == 0 && !one.sound)
        #expect(one.deviceToken.elementsEqual(token))
        // Nobody knows a push server before a sender names one.
        #expect(try ProbeEnvelope.make(.web, format: format) == nil)
    }
}
