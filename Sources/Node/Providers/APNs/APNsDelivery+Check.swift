// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Settings
import TNP

extension APNsDelivery {
    package func findings(
        for app: AppIdentity, after earlier: [(app: AppIdentity, delivery: any AppDelivery)], _ machine: CheckedMachine
    ) -> [Finding] {
        var findings: [Finding] = []
        let reference = credentials[0].reference
        let file = reference.files[0]
        findings += [reference.fields["key_id"].flatMap { CredentialCheck.fileName(file, keyID: $0) }].compactMap(
            \.self)
        // A certificate may have a file with its password.
        for file in reference.files.reversed() { findings += machine.ownerFindings(file) }
        do throws(CredentialProblem) {
            let credential = try CredentialFiles().load(reference).credential
            if let key = (credential as? AppleKeyCredential)?.issuer.publicKey {
                findings.append(Finding(.credentials, file, .ok, "APNs key \(key.keyID) of the team \(key.teamID)"))
            } else if let facts = (credential as? AppleCertificateCredential)?.certificate {
                findings += CredentialCheck.certificate(file, facts, topic: profile.topic, now: machine.now)
            }
        } catch {
            findings.append(Finding(.credentials, error.file, .failed, error.text))
        }
        let topics = earlier.compactMap { entry in
            (entry.delivery as? APNsDelivery).map { (entry.app.name, $0.profile.topic) }
        }
        return findings + [CredentialCheck.sharedTopic((app.name, profile.topic), topics)].compactMap(\.self)
    }

    package func servers() -> [CheckedServer] {
        [service.production, service.development].map { CheckedServer(url: $0, trustFile: service.trustFile) }
    }

    package nonisolated(nonsending) func probe(_ app: AppIdentity, _ desk: ProbeDesk) async -> [Finding] {
        guard let credential = desk.credential(credentials[0]) else { return [] }
        let token = (credential as? AppleKeyCredential).map { desk.token($0.issuer) }
        let identity = (credential as? AppleCertificateCredential)?.identity
        var findings: [Finding] = []
        for platform in platforms {
            let (url, environment) = (self.url(of: platform), platform.service.environment)
            guard desk.reachable.contains(url.authority) else { continue }
            desk.show("sending a probe to Apple for \(app.name), \(environment.rawValue) …")
            do {
                guard let envelope = try ProbeEnvelope.make(platform, format: profile.format) else { continue }
                let provider = APNsProvider(
                    APNsRequestBuilder(profile, authority: url.authority), token: token,
                    pool: desk.pool(
                        url, try desk.context(trustFile: service.trustFile, identity: identity)))
                let answer = await provider.probe(envelope, timeout: desk.answerTimeout)
                provider.close()
                desk.note(answer, of: url)
                findings.append(
                    AppleAdvice.finding(
                        on: answer, app: app.name, environment: environment, topic: profile.topic,
                        isCertificate: identity != nil))
            } catch {
                findings.append(Finding(.apple, "\(app.name) \(environment.rawValue)", .failed, "\(error)"))
            }
        }
        return findings
    }
}
