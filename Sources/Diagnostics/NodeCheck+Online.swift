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
    /// The timeout for a connection and for an answer.
    private static let timeout = Duration.seconds(10)
    /// The timeout for a connection. Through a proxy, tor may have to build circuits.
    private var dialTimeout: Duration { configuration.outboundProxy == nil ? Self.timeout : .seconds(30) }

    /// A server to which the node connects.
    private struct Service {
        let url: ServiceURL
        let trustFile: String?
    }

    /// Checks the push services: name resolution, TLS and the credentials. Rings no phone.
    package func online() async -> [Finding] {
        var findings: [Finding] = []
        // The authorities of the servers.
        var reachable: Set<String> = []
        for service in services() {
            show("connecting to \(service.url.authority) …")
            let found = await look(at: service)
            findings.append(found)
            if found.grade == .ok { reachable.insert(service.url.authority) }
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
                if case .google(_, let tokenURL)? = credential(.google(file: fcm.serviceAccountFile)) {
                    services.append(Service(url: tokenURL, trustFile: settings.fcmTrustFile))
                }
            }
        }
        // Compares authorities only, because the path of the token endpoint does not matter here.
        var seen: Set<String> = []
        return services.filter { seen.insert("\($0.url.authority) \($0.trustFile ?? "")").inserted }
    }

    // MARK: The network

    /// Checks a connection to a server: name resolution, TLS and HTTP/2.
    private func look(at service: Service) async -> Finding {
        let url = service.url
        func finding(_ grade: Finding.Grade, _ text: String) -> Finding {
            Finding(.network, url.authority, grade, text)
        }
        do {
            let stream = try await loop.dial(
                url.endpoint, through: configuration.outboundProxy, tls: try context(trustFile: service.trustFile),
                timeout: dialTimeout)
            defer { stream.close() }
            let expiry = stream.peerCertificateExpiry.map { Format.expiry($0, at: UnixTime.now) }
            let end = expiry.map { ", its certificate \($0)" } ?? ""
            return finding(.ok, "TLS and HTTP/2 work\(end)")
        } catch StreamError.unknownHost(let reason) {
            return finding(.failed, "\(reason): check the network connection and /etc/resolv.conf")
        } catch StreamError.tls(let reason) {
            return finding(
                .failed,
                "TLS: \(reason). Check that CA certificates are installed (apt install ca-certificates), that the clock is"
                    + " right, and that nothing in between intercepts TLS")
        } catch let error as StreamError {
            let proxy = configuration.outboundProxy.map { ", and that the proxy at \($0.endpoint) works" } ?? ""
            return finding(
                .failed,
                "\(error): check that the firewall allows outgoing connections to port \(url.port)\(proxy)")
        } catch {
            return finding(.failed, "\(error)")
        }
    }

    private func context(trustFile: String?, identity: CertifiedKey? = nil) throws -> TLSContext {
        let authorities = try trustFile.map { try ConfiguredFile.read($0, for: "trust_file", of: configuration) }
        return try TLSContext.client(extraAuthorities: authorities, identity: identity, applicationProtocol: "h2")
    }

    private func upstream(_ url: ServiceURL, _ context: TLSContext) -> Upstream {
        Upstream(
            Upstream.Target(
                endpoint: url.endpoint, tls: context, proxy: configuration.outboundProxy, dialTimeout: dialTimeout),
            on: loop)
    }

    /// The timeout for an answer, including the connection.
    private var answerTimeout: Duration { dialTimeout + Self.timeout }

    private func credential(_ reference: Credential.Reference) -> Credential? {
        try? CredentialFiles().load(reference).credential
    }

    // MARK: Apple

    private func apple(
        _ app: Configuration.App, _ reachable: Set<String>, _ skews: inout [(host: String, ahead: Int64)]
    ) async -> [Finding] {
        // The offline checks report an unusable credential.
        guard let (profile, named) = app.apns, let credential = credential(.apple(named)) else { return [] }
        var token: APNsProviderToken?
        var identity: CertifiedKey?
        switch credential {
        case .appleKey(let issuer): token = self.token(issuer)
        case .appleCertificate(let certificate, _): identity = certificate
        case .google: return []
        }
        var findings: [Finding] = []
        for environment in AppleAdvice.Environment.allCases {
            let isProduction = environment == .production
            let url = isProduction ? configuration.services.production : configuration.services.development
            guard reachable.contains(url.authority) else { continue }
            show("sending a probe to Apple for \(app.name), \(environment.rawValue) …")
            do {
                let envelope = try ProbeEnvelope.make(isProduction ? .iOS : .iOSDev, format: profile.format)
                let context = try context(trustFile: configuration.services.apnsTrustFile, identity: identity)
                let provider = APNsProvider(
                    APNsRequestBuilder(profile, authority: url.authority), token: token,
                    upstream: upstream(url, context))
                let answer = await provider.probe(envelope, timeout: answerTimeout)
                provider.close()
                if let ahead = answer.clockAhead { skews.append((url.host, ahead)) }
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

    /// The provider token of a key, shared by all apps of that key. Starts from the token that the node has saved, because
    /// Apple allows only one new token in 20 minutes.
    private func token(_ issuer: any ProviderTokenIssuer) -> APNsProviderToken {
        let key = issuer.publicKey
        let file = "\(configuration.state)/apns-\(key.teamID)-\(key.keyID).token"
        if let token = tokens[file] { return token }
        let isNodeUser = state.kind == .directory && state.owner == geteuid()
        let token = APNsProviderToken(
            issuer, keeping: SharedProviderToken(file: ProviderTokenFile(path: file), isKept: isNodeUser))
        tokens[file] = token
        return token
    }

    // MARK: Google

    private func google(
        _ app: Configuration.App, _ reachable: Set<String>, _ skews: inout [(host: String, ahead: Int64)]
    ) async -> [Finding] {
        guard let (profile, file) = app.fcm,
            case .google(let account, let tokenURL)? = credential(.google(file: file)),
            reachable.isSuperset(of: [configuration.services.fcm.authority, tokenURL.authority])
        else { return [] }
        show("sending a probe to Google for \(app.name) …")
        do {
            let envelope = try ProbeEnvelope.make(.android, format: profile.format)
            let context = try context(trustFile: configuration.services.fcmTrustFile)
            let url = configuration.services.fcm
            let provider = FCMProvider(
                FCMRequestBuilder(profile, authority: url.authority, projectID: account.publicAccount.projectID),
                token: FCMAccessToken(
                    account, authority: tokenURL.authority, path: tokenURL.path, upstream: upstream(tokenURL, context)),
                upstream: upstream(url, context))
            let answer = await provider.probe(envelope, timeout: answerTimeout)
            provider.close()
            if let ahead = answer.clockAhead { skews.append((url.host, ahead)) }
            return [GoogleAdvice.finding(on: answer, app: app.name, projectID: account.publicAccount.projectID)]
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
