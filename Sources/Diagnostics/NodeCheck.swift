// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Glibc
import NodeConfiguration
import Providers
import Time

/// The checks of `tocsin check`. The only file they change is the provider token for Apple in the state directory, which
/// the node uses, too.
package actor NodeCheck {
    nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    let configuration: Configuration
    private let searchPath: String?
    private let progress: @Sendable (String) -> Void
    let state: StateCheck
    /// The provider tokens for Apple, by the file in which the node saves them.
    var tokens: [String: APNsProviderToken] = [:]

    /// Prepares the checks of a configuration.
    /// - Parameters:
    ///   - configuration: after a call of ``Configuration/decideTor(path:)``.
    ///   - searchPath: the environment's `PATH`.
    ///   - loop: runs all network operations.
    ///   - progress: receives a description of each check that may take some time.
    package init(
        _ configuration: Configuration, searchPath: String?, on loop: EventLoop,
        progress: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        self.configuration = configuration
        self.searchPath = searchPath
        self.loop = loop
        self.progress = progress
        state = StateCheck(lookingAt: configuration.state)
    }

    func show(_ text: String) { progress(text) }

    // MARK: Without the network

    /// Runs the checks that need no network.
    package func offline() async -> [Finding] {
        var findings = settings()
        findings += state.findings + state.databases(spool: configuration.spool?.file)
        findings += credentials()
        findings.append(ClockCheck.local(now: UnixTime.now, isSynchronised: KernelClock.isSynchronised))
        if let disk = DiskCheck(lookingAt: configuration.state, spool: configuration.spool) {
            findings.append(disk.finding)
        }
        findings += limits()
        progress("asking tor for its version …")
        findings += await TorCheck.run(configuration, path: searchPath).findings
        findings += await ports()
        return findings
    }

    private func settings() -> [Finding] {
        let names = configuration.apps.map(\.name).joined(separator: ", ")
        var findings = [Finding(.configuration, configuration.file, .ok, "valid; apps: \(names)")]
        func warn(_ key: String, _ text: String) { findings.append(Finding(.configuration, key, .warning, text)) }
        for (key, text) in HTTPEndpointAdvice.texts(for: configuration) { warn(key, text) }
        if !configuration.listen.circuitIDs {
            warn(
                "listen.circuit_ids",
                "is off, so limits apply to connections instead of circuits: turn it on together with"
                    + " HiddenServiceExportCircuitID haproxy in torrc")
        }
        return findings
    }

    private func credentials() -> [Finding] {
        let now = UnixTime.now
        var findings: [Finding] = []
        for app in configuration.apps {
            if let (profile, credential) = app.apns {
                findings += apple(credential, topic: profile.topic, now: now)
            }
            if let file = app.fcm?.serviceAccountFile {
                findings += file.ownerFindings(nodeUser: state.nodeUser)
                do throws(Credential.Problem) {
                    guard case .google(let account, _) = try CredentialFiles().load(.google(file: file)).credential
                    else { continue }
                    let project = account.publicAccount.projectID
                    findings.append(
                        Finding(.credentials, file, .ok, "FCM service account of the project \(project)"))
                } catch {
                    findings.append(Finding(.credentials, error.file, .failed, error.text))
                }
            }
        }
        for app in configuration.apps { if let web = app.web { findings += keys(of: web) } }
        return findings
            + CredentialCheck.sharedTopics(
                configuration.apps.compactMap { app in app.apns.map { (app.name, $0.profile.topic) } })
    }

    /// The node's key for Web Push: browsers need its public key to subscribe.
    private func keys(of web: Configuration.Web) -> [Finding] {
        let file = web.keyFile(in: configuration.state)
        do throws(PrivateFileError) {
            guard let key = try VAPIDKey.read(file, subject: web.contact) else {
                return [Finding(.credentials, file, .ok, "the key for Web Push, which the node makes when it starts")]
            }
            return [Finding(.credentials, file, .ok, "key for Web Push (VAPID); public: \(key.publicKey)")]
                + file.ownerFindings(nodeUser: state.nodeUser)
        } catch {
            return [Finding(.credentials, file, .failed, "\(error)")]
        }
    }

    private func apple(_ credential: Configuration.APNsCredential, topic: String, now: Int64) -> [Finding] {
        var findings: [Finding] = []
        let file: String
        switch credential {
        case .token(let keyFile, let keyID, _):
            file = keyFile
            findings += [CredentialCheck.fileName(keyFile, keyID: keyID)].compactMap(\.self)
        case .certificate(let certificateFile, let passwordFile):
            file = certificateFile
            findings += passwordFile?.ownerFindings(nodeUser: state.nodeUser) ?? []
        }
        findings += file.ownerFindings(nodeUser: state.nodeUser)
        do throws(Credential.Problem) {
            switch try CredentialFiles().load(.apple(credential)).credential {
            case .appleKey(let issuer):
                let key = issuer.publicKey
                findings.append(Finding(.credentials, file, .ok, "APNs key \(key.keyID) of the team \(key.teamID)"))
            case .appleCertificate(_, let facts):
                findings += CredentialCheck.certificate(file, facts, topic: topic, now: now)
            case .google: break
            }
        } catch {
            findings.append(Finding(.credentials, error.file, .failed, error.text))
        }
        return findings
    }

    private func limits() -> [Finding] {
        var node: Int32?
        if case .held(let pid) = state.lock { node = pid }
        return LimitCheck.read(node: node)?.findings(
            connections: configuration.limits.connections, others: configuration.reservedDescriptors) ?? []
    }

    private func ports() async -> [Finding] {
        let listen = configuration.listen
        let endpoints = [
            ("listen.tnp", Optional(listen.tnp)), ("listen.http", listen.http), ("listen.admin", listen.admin),
        ]
        var findings: [Finding] = []
        for case (let key, let endpoint?) in endpoints {
            let present = await PortCheck.State.probe(endpoint, on: loop)
            findings.append(PortCheck(key: key, endpoint: endpoint, state: present, lock: state.lock).finding)
        }
        return findings
    }
}

extension String {
    /// Checks that a private file, which only its owner can read, belongs to the node's user. `self` is the path.
    fileprivate func ownerFindings(nodeUser: uid_t) -> [Finding] {
        var status = stat()
        guard stat(self, &status) == 0 else { return [] }
        return [CredentialCheck.owner(self, owner: status.st_uid, nodeUser: nodeUser)].compactMap(\.self)
    }
}
