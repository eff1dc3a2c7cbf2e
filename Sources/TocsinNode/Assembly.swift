import Cryptography
import Delivery
import EventLoop
import HTTP2
import Providers
import TNP

/// Puts the providers together that a configuration names. Every credential is read and checked here, before the node
/// listens.
struct Assembly {
    let configuration: Configuration
    let loop: EventLoop

    /// The providers by the routes that they serve.
    /// - Throws: ``ConfigurationError``.
    func providers() throws -> [Route: any Provider] {
        var providers: [Route: any Provider] = [:]
        for app in configuration.apps {
            if let (profile, credential) = app.apns {
                let (token, identity) = try apnsCredential(credential, of: app)
                let environments: [(Magic, ServiceURL)] = [
                    (.iOS, configuration.services.production), (.iOSDev, configuration.services.development),
                ]
                for (magic, url) in environments {
                    let context = try tls(
                        trustFile: configuration.services.apnsTrustFile, key: "apns.trust_file", identity: identity,
                        identityKey: "\(app.path).apns.certificate_file")
                    providers[Route(app: app.name, magic: magic)] = APNsProvider(
                        APNsRequestBuilder(profile, authority: url.authority), token: token,
                        upstream: upstream(url, context))
                }
            }
            if let (profile, file) = app.fcm {
                providers[Route(app: app.name, magic: .android)] = try fcm(profile, file: file, of: app)
            }
        }
        return providers
    }

    private func fcm(_ profile: FCMProfile, file: String, of app: Configuration.App) throws -> FCMProvider {
        let key = "\(app.path).fcm.service_account_file"
        let account: ServiceAccount
        do {
            account = try ServiceAccount(
                json: try ConfiguredFile.readSecret(file, for: key, of: configuration.file))
        } catch let error as ServiceAccount.FormatError {
            throw problem(key, "\(file): \(error)")
        }
        guard let tokenURL = ServiceURL(account.tokenURI) else {
            throw problem(key, "\(file): token_uri is not an https address")
        }
        let context = try tls(trustFile: configuration.services.fcmTrustFile, key: "fcm.trust_file")
        let endpoint = configuration.services.fcm
        return FCMProvider(
            FCMRequestBuilder(profile, authority: endpoint.authority, projectID: account.projectID),
            token: FCMAccessToken(
                account, authority: tokenURL.authority, path: tokenURL.path, upstream: upstream(tokenURL, context)),
            upstream: upstream(endpoint, context))
    }

    private func apnsCredential(
        _ credential: Configuration.APNsCredential, of app: Configuration.App
    ) throws -> (APNsProviderToken?, TLSContext.Identity?) {
        switch credential {
        case .token(let file, let keyID, let teamID):
            let key = "\(app.path).apns.key_file"
            do {
                let pem = try ConfiguredFile.readSecret(file, for: key, of: configuration.file)
                let signingKey = try SigningKey(pem: pem, algorithm: .es256)
                return (APNsProviderToken(key: signingKey, keyID: keyID, teamID: teamID), nil)
            } catch let error as KeyError {
                throw problem(key, "\(file): \(error)")
            }
        case .certificate(let file, let passwordFile):
            let key = "\(app.path).apns.certificate_file"
            var password: [UInt8] = []
            if let passwordFile {
                password = try ConfiguredFile.readSecret(
                    passwordFile, for: "\(app.path).apns.certificate_password_file", of: configuration.file)
                while let last = password.last, last == 10 || last == 13 { password.removeLast() }
            }
            do {
                let certified = try PKCS12.open(
                    try ConfiguredFile.readSecret(file, for: key, of: configuration.file),
                    password: SecretBytes(moving: &password))
                guard certified.notAfter > UnixTime.now else {
                    throw problem(key, "\(file): the certificate has expired; make a new one at developer.apple.com")
                }
                let privateKey = certified.privateKey.withBytes { span in span.withUnsafeBytes { Array($0) } }
                return (nil, TLSContext.Identity(certificates: certified.certificates, privateKey: privateKey))
            } catch let error as PKCS12Error {
                throw problem(key, "\(file): \(error)")
            }
        }
    }

    private func tls(
        trustFile: String?, key: String, identity: TLSContext.Identity? = nil, identityKey: String = ""
    ) throws -> TLSContext {
        let authorities = try trustFile.map { try ConfiguredFile.read($0, for: key, of: configuration.file) }
        do {
            return try TLSContext.client(
                extraAuthorities: authorities, identity: identity, applicationProtocol: "h2")
        } catch let error as TLSContext.SetUpError {
            throw problem(identity == nil ? key : identityKey, error.description)
        }
    }

    private func upstream(_ url: ServiceURL, _ context: TLSContext) -> Upstream {
        Upstream(Upstream.Target(endpoint: url.endpoint, tls: context, proxy: configuration.outboundProxy), on: loop)
    }

    private func problem(_ key: String, _ text: String) -> ConfigurationError {
        ConfigurationError(file: configuration.file, key: key, problem: text)
    }
}
