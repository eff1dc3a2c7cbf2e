// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Settings
import TNP

extension FCMDelivery {
    package func findings(
        for app: AppIdentity, after earlier: [(app: AppIdentity, delivery: any AppDelivery)], _ machine: CheckedMachine
    ) -> [Finding] {
        let findings = machine.ownerFindings(serviceAccountFile)
        do throws(CredentialProblem) {
            guard let credential = try CredentialFiles().load(credentials[0].reference).credential as? GoogleCredential
            else { return findings }
            let project = credential.account.publicAccount.projectID
            return findings + [
                Finding(.credentials, serviceAccountFile, .ok, "FCM service account of the project \(project)")
            ]
        } catch {
            return findings + [Finding(.credentials, error.file, .failed, error.text)]
        }
    }

    package func servers() -> [CheckedServer] {
        var urls = [service.url]
        if let credential = try? CredentialFiles().load(credentials[0].reference).credential as? GoogleCredential {
            urls.append(credential.tokenURL)
        }
        return urls.map { CheckedServer(url: $0, trustFile: service.trustFile) }
    }

    package nonisolated(nonsending) func probe(_ app: AppIdentity, _ desk: ProbeDesk) async -> [Finding] {
        guard let credential = desk.credential(credentials[0]) as? GoogleCredential,
            desk.reachable.isSuperset(of: [service.url.authority, credential.tokenURL.authority])
        else { return [] }
        let (account, tokenURL) = (credential.account, credential.tokenURL)
        let project = account.publicAccount.projectID
        desk.show("sending a probe to Google for \(app.name) …")
        do {
            guard let envelope = try ProbeEnvelope.make(.android, format: profile.format) else { return [] }
            let context = try desk.context(trustFile: service.trustFile)
            let provider = FCMProvider(
                FCMRequestBuilder(profile, authority: service.url.authority, projectID: project),
                token: FCMAccessToken(
                    account, authority: tokenURL.authority, path: tokenURL.path,
                    pool: desk.pool(tokenURL, context)),
                pool: desk.pool(service.url, context))
            let answer = await provider.probe(envelope, timeout: desk.answerTimeout)
            provider.close()
            desk.note(answer, of: service.url)
            return [GoogleAdvice.finding(on: answer, app: app.name, projectID: project)]
        } catch {
            return [Finding(.google, app.name, .failed, "\(error)")]
        }
    }
}
