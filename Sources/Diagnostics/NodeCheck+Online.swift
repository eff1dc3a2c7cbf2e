// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Glibc
import HTTP2
import NodeConfiguration
import Providers
import TNP
import Time

extension NodeCheck {
    /// For a name, a connection, an answer.
    private static let patience = Duration.seconds(10)
    /// The same for a connection through a proxy: tor has circuits to build.
    private static let patienceWithProxy = Duration.seconds(30)

    private var dialTimeout: Duration {
        configuration.outboundProxy == nil ? Self.patience : Self.patienceWithProxy
    }

    /// A server that the node calls.
    private struct Service: Hashable {
        let url: ServiceURL
        let trustFile: String?
    }

    /// Asks the push services: their names, their certificates, and what they say of the credentials. Nobody is rung.
    package func online() async -> [Finding] {
        var findings: [Finding] = []
        var reachable: Set<Service> = []
        for service in services() {
            let found = await look(at: service)
            findings += found
            if !found.hasFailure { reachable.insert(service) }
        }
        var skews: [(host: String, ahead: Int64)] = []
        for app in configuration.apps {
            findings += await apple(app, reachable, &skews)
            findings += await google(app, reachable, &skews)
        }
        var hosts: Set<String> = []
        for (host, ahead) in skews where hosts.insert(host).inserted {
            findings.append(ClockCheck.beside(host, ahead: ahead))
        }
        return findings
    }

    /// All of them, once each.
    private func services() -> [Service] {
        let settings = configuration.services
        var services: [Service] = []
        for app in configuration.apps {
            if app.apns != nil {
                services.append(Service(url: settings.production, trustFile: settings.apnsTrustFile))
                services.append(Service(url: settings.development, trustFile: settings.apnsTrustFile))
            }
            if let fcm = app.fcm {
                services.append(Service(url: settings.fcm, trustFile: settings.fcmTrustFile))
                if case .google(_, let tokenURL)? = try? Credential(serviceAccountFile: fcm.serviceAccountFile) {
                    services.append(tokenService(tokenURL))
                }
            }
        }
        // By authority: the path of the token endpoint does not matter here.
        var seen: Set<String> = []
        return services.filter { seen.insert("\($0.url.authority) \($0.trustFile ?? "")").inserted }
    }

    private func tokenService(_ url: ServiceURL) -> Service {
        Service(url: url, trustFile: configuration.services.fcmTrustFile)
    }

    private func isReachable(_ url: ServiceURL, in reachable: Set<Service>) -> Bool {
        reachable.contains { $0.url.authority == url.authority }
    }

    // MARK: The network

    private func look(at service: Service) async -> [Finding] {
        let url = service.url
        var findings: [Finding] = []
        if let proxy = configuration.outboundProxy {
            findings.append(
                Finding(.network, url.host, .ok, "its name is resolved by the proxy at \(proxy.endpoint)"))
        } else {
            show("resolving \(url.host) …")
            let count = await within(Self.patience) { checkup -> Result<Int, StreamError> in
                do throws(StreamError) {
                    return .success(try await checkup.loop.addressCount(of: url.host))
                } catch {
                    return .failure(error)
                }
            }
            switch count {
            case .success(let count)?:
                findings.append(Finding(.network, url.host, .ok, Format.count(count, "address", "addresses")))
            case .failure(let error)?:
                return [
                    Finding(
                        .network, url.host, .failed, "\(error): is this machine connected, and /etc/resolv.conf right?")
                ]
            case nil:
                return [Finding(.network, url.host, .failed, "no name server answers: look at /etc/resolv.conf")]
            }
        }
        show("connecting to \(url.authority) …")
        findings.append(await handshake(with: service))
        return findings
    }

    private func handshake(with service: Service) async -> Finding {
        let url = service.url
        let witness: CertificateRecorder
        do {
            witness = CertificateRecorder(of: try context(trustFile: service.trustFile, identity: nil))
        } catch {
            return Finding(.network, url.authority, .failed, error.text)
        }
        let result = await connect(to: url, witness.context)
        switch result {
        case .success?:
            let end = witness.notAfter.map { ", its certificate \(Format.end($0, at: UnixTime.now))" } ?? ""
            return Finding(.network, url.authority, .ok, "TLS and HTTP/2 are agreed\(end)")
        case .failure(.tls(let reason))?:
            return Finding(
                .network, url.authority, .failed,
                "TLS: \(reason). Are the certificates of this machine there (apt install ca-certificates) and its clock"
                    + " right? Does something in between open connections?")
        case .failure(let error)?:
            return Finding(
                .network, url.authority, .failed,
                "\(error): does the firewall let this machine out to port \(url.port)"
                    + (configuration.outboundProxy.map { ", and does the proxy at \($0.endpoint) work" } ?? "") + "?")
        case nil:
            return Finding(.network, url.authority, .failed, "no connection in \(dialTimeout.components.seconds) s")
        }
    }

    private func connect(to url: ServiceURL, _ context: TLSContext) async -> Result<Void, StreamError>? {
        let timeout = dialTimeout
        return await within(timeout + .seconds(1)) { checkup in
            do throws(StreamError) {
                let stream = try await checkup.loop.dial(
                    url.endpoint, through: checkup.configuration.outboundProxy, tls: context, timeout: timeout)
                stream.close()
                return .success(())
            } catch {
                return .failure(error)
            }
        }
    }

    private func context(
        trustFile: String?, identity: TLSContext.Identity?
    ) throws(Credential.Problem) -> TLSContext {
        do {
            let authorities = try trustFile.map {
                try ConfiguredFile.read($0, for: "trust_file", of: configuration.file)
            }
            return try TLSContext.client(
                extraAuthorities: authorities, identity: identity, applicationProtocol: "h2")
        } catch {
            throw Credential.Problem(file: trustFile ?? configuration.file, text: "\(error)")
        }
    }

    private func upstream(_ url: ServiceURL, _ context: TLSContext) -> Upstream {
        Upstream(
            Upstream.Target(
                endpoint: url.endpoint, tls: context, proxy: configuration.outboundProxy, dialTimeout: dialTimeout),
            on: loop)
    }

    /// For an answer, connecting included.
    private var answerTimeout: Duration { dialTimeout + Self.patience }

    // MARK: Apple

    private func apple(
        _ app: Configuration.App, _ reachable: Set<Service>, _ skews: inout [(host: String, ahead: Int64)]
    ) async -> [Finding] {
        // What is wrong with the file itself was said before.
        guard let (profile, named) = app.apns, let credential = try? Credential(named) else { return [] }
        var token: APNsProviderToken?
        var identity: TLSContext.Identity?
        switch credential {
        case .appleKey(let key, let keyID, let teamID):
            token = self.token(key, keyID, teamID)
        case .appleCertificate(let its, _): identity = its
        case .google: return []
        }
        var findings: [Finding] = []
        for environment in AppleAdvice.Environment.allCases {
            let isProduction = environment == .production
            let url = isProduction ? configuration.services.production : configuration.services.development
            guard isReachable(url, in: reachable) else { continue }
            show("asking Apple about \(app.name), \(environment.rawValue) …")
            do {
                let envelope = try ProbeEnvelope.make(isProduction ? .iOS : .iOSDev, format: profile.format)
                let context = try context(trustFile: configuration.services.apnsTrustFile, identity: identity)
                let probe = APNsProbe(
                    APNsRequestBuilder(profile, authority: url.authority), token: token,
                    upstream: upstream(url, context))
                let answer = await probe.ask(envelope, timeout: answerTimeout)
                probe.close()
                if let ahead = answer.clockAhead { skews.append((url.host, ahead)) }
                findings.append(
                    AppleAdvice.finding(
                        on: answer, app: app.name, environment: environment, topic: profile.topic,
                        isCertificate: identity != nil))
            } catch let problem as Credential.Problem {
                findings.append(Finding(.apple, "\(app.name) \(environment.rawValue)", .failed, problem.text))
            } catch {
                findings.append(Finding(.apple, "\(app.name) \(environment.rawValue)", .failed, "\(error)"))
            }
        }
        return findings
    }

    /// Apple wants no second token of a key within 20 minutes: what the node has kept is used, for all apps of the key.
    private func token(_ key: SigningKey, _ keyID: String, _ teamID: String) -> APNsProviderToken {
        let file = "\(configuration.state)/apns-\(teamID)-\(keyID).token"
        if let token = tokens[file] { return token }
        let isNodeUser = state.kind == .directory && state.owner == geteuid()
        let token = APNsProviderToken(
            key: key, keyID: keyID, teamID: teamID,
            keeping: SharedProviderToken(file: ProviderTokenFile(path: file), isKept: isNodeUser))
        tokens[file] = token
        return token
    }

    // MARK: Google

    private func google(
        _ app: Configuration.App, _ reachable: Set<Service>, _ skews: inout [(host: String, ahead: Int64)]
    ) async -> [Finding] {
        guard let (profile, file) = app.fcm,
            case .google(let account, let tokenURL)? = try? Credential(serviceAccountFile: file),
            isReachable(configuration.services.fcm, in: reachable), isReachable(tokenURL, in: reachable)
        else { return [] }
        show("asking Google about \(app.name) …")
        do {
            let envelope = try ProbeEnvelope.make(.android, format: profile.format)
            let context = try context(trustFile: configuration.services.fcmTrustFile, identity: nil)
            let url = configuration.services.fcm
            let probe = FCMProbe(
                FCMRequestBuilder(profile, authority: url.authority, projectID: account.projectID),
                token: FCMAccessToken(
                    account, authority: tokenURL.authority, path: tokenURL.path, upstream: upstream(tokenURL, context)),
                upstream: upstream(url, context))
            let answer = await probe.ask(envelope, timeout: answerTimeout)
            probe.close()
            if let ahead = answer.clockAhead { skews.append((url.host, ahead)) }
            return [GoogleAdvice.finding(on: answer, app: app.name, projectID: account.projectID)]
        } catch let problem as Credential.Problem {
            return [Finding(.google, app.name, .failed, problem.text)]
        } catch {
            return [Finding(.google, app.name, .failed, "\(error)")]
        }
    }
}

/// The node's provider token. One that is made here is kept for the node where that can read it.
private struct SharedProviderToken: ProviderTokenKeeping {
    let file: ProviderTokenFile
    let isKept: Bool

    func load() -> [UInt8]? { file.load() }

    func save(_ token: [UInt8]) { if isKept { file.save(token) } }
}
