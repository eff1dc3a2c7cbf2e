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
    /// The timeout for resolving a name, for a connection and for an answer.
    private static let timeout = Duration.seconds(10)
    /// The timeout for a connection through a proxy; tor may have to build circuits.
    private static let proxyTimeout = Duration.seconds(30)

    private var dialTimeout: Duration {
        configuration.outboundProxy == nil ? Self.timeout : Self.proxyTimeout
    }

    /// A server to which the node connects.
    private struct Service: Hashable {
        let url: ServiceURL
        let trustFile: String?
    }

    /// Checks the push services: name resolution, TLS and the credentials. Rings no phone.
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
            findings.append(ClockCheck.comparison(with: host, ahead: ahead))
        }
        return findings
    }

    /// All servers to which the node connects, without duplicates.
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
        // Compares authorities only, because the path of the token endpoint does not matter here.
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
                Finding(.network, url.host, .ok, "the proxy at \(proxy.endpoint) resolves this name"))
        } else {
            show("resolving \(url.host) …")
            let count = await within(Self.timeout) { checkup -> Result<Int, StreamError> in
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
                        .network, url.host, .failed, "\(error): check the network connection and /etc/resolv.conf")
                ]
            case nil:
                return [Finding(.network, url.host, .failed, "no name server answers: check /etc/resolv.conf")]
            }
        }
        show("connecting to \(url.authority) …")
        findings.append(await handshake(with: service))
        return findings
    }

    private func handshake(with service: Service) async -> Finding {
        let url = service.url
        let recorder: CertificateRecorder
        do {
            recorder = CertificateRecorder(of: try context(trustFile: service.trustFile, identity: nil))
        } catch {
            return Finding(.network, url.authority, .failed, error.text)
        }
        let result = await connect(to: url, recorder.context)
        switch result {
        case .success?:
            let end = recorder.notAfter.map { ", its certificate \(Format.expiry($0, at: UnixTime.now))" } ?? ""
            return Finding(.network, url.authority, .ok, "TLS and HTTP/2 work\(end)")
        case .failure(.tls(let reason))?:
            return Finding(
                .network, url.authority, .failed,
                "TLS: \(reason). Check that CA certificates are installed (apt install ca-certificates), that the clock is"
                    + " right, and that nothing in between intercepts TLS")
        case .failure(let error)?:
            return Finding(
                .network, url.authority, .failed,
                "\(error): check that the firewall allows outgoing connections to port \(url.port)"
                    + (configuration.outboundProxy.map { ", and that the proxy at \($0.endpoint) works" } ?? ""))
        case nil:
            return Finding(
                .network, url.authority, .failed,
                "no connection within \(dialTimeout.components.seconds) s: check that the firewall allows outgoing"
                    + " connections to port \(url.port)"
                    + (configuration.outboundProxy.map { ", and that the proxy at \($0.endpoint) works" } ?? ""))
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

    /// The timeout for an answer, including the connection.
    private var answerTimeout: Duration { dialTimeout + Self.timeout }

    // MARK: Apple

    private func apple(
        _ app: Configuration.App, _ reachable: Set<Service>, _ skews: inout [(host: String, ahead: Int64)]
    ) async -> [Finding] {
        // The offline checks report an unusable credential.
        guard let (profile, named) = app.apns, let credential = try? Credential(named) else { return [] }
        var token: APNsProviderToken?
        var identity: TLSContext.Identity?
        switch credential {
        case .appleKey(let key, let keyID, let teamID):
            token = self.token(key, keyID, teamID)
        case .appleCertificate(let certificate, _): identity = certificate
        case .google: return []
        }
        var findings: [Finding] = []
        for environment in AppleAdvice.Environment.allCases {
            let isProduction = environment == .production
            let url = isProduction ? configuration.services.production : configuration.services.development
            guard isReachable(url, in: reachable) else { continue }
            show("sending a probe to Apple for \(app.name), \(environment.rawValue) …")
            do {
                let envelope = try ProbeEnvelope.make(isProduction ? .iOS : .iOSDev, format: profile.format)
                let context = try context(trustFile: configuration.services.apnsTrustFile, identity: identity)
                let probe = APNsProbe(
                    APNsRequestBuilder(profile, authority: url.authority), token: token,
                    upstream: upstream(url, context))
                let answer = await probe.send(envelope, timeout: answerTimeout)
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

    /// The provider token of a key, shared by all apps of that key. Starts from the token that the node has saved, because
    /// Apple allows only one new token in 20 minutes.
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
        show("sending a probe to Google for \(app.name) …")
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

/// The provider token in the state directory. A new token is saved only if the node can read the file.
private struct SharedProviderToken: ProviderTokenStore {
    let file: ProviderTokenFile
    let isKept: Bool

    func load() -> [UInt8]? { file.load() }

    func save(_ token: [UInt8]) { if isKept { file.save(token) } }
}
