// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Glibc
import HTTP2
import TNP
import Time

/// Simulated push services on loopback: APNs production, APNs development, FCM and a push server of Web Push, with TLS
/// certificates of their own authority, and the credentials with which a node uses them.
package actor SimulatedServices {
    /// The configuration of the simulated services.
    package struct Options: Sendable {
        /// The directory for the node's files: `ca.pem`, `apns.p8` for all apps, `apns.p12` with `apns.p12.password`
        /// for Bisq's app only, and a ``PhoneApp/serviceAccountFile`` for each app. Created with mode 0700.
        package var directory: String
        /// The bundle id of Bisq's app: at most 43 bytes, so that it fits into a certificate's common name.
        package var topic: String
        /// The FCM project id of Bisq's app.
        package var projectID: String
        /// The address to listen on.
        package var host = "127.0.0.1"
        /// The ports to listen on: APNs production, APNs development, FCM, Web Push; 0 reserves a free one.
        package var ports: (production: UInt16, development: UInt16, fcm: UInt16, webPush: UInt16)
        /// The seed of the random choice of the requests that fail: the same seed and the same requests give the same
        /// faults.
        package var seed: UInt64
        /// The protocols of the push server at its start.
        package var webPushProtocols = ServedProtocols.both

        package init(
            directory: String, host: String = "127.0.0.1", topic: String = PhoneApp.bisq.topic,
            projectID: String = PhoneApp.bisq.projectID,
            ports: (production: UInt16, development: UInt16, fcm: UInt16, webPush: UInt16) = (0, 0, 0, 0),
            seed: UInt64 = UInt64.random(in: .min ... .max)
        ) {
            self.directory = directory
            self.host = host
            self.topic = topic
            self.projectID = projectID
            self.ports = ports
            self.seed = seed
        }

        func topic(of app: PhoneApp) -> String { app == .bisq ? topic : app.topic }

        func projectID(of app: PhoneApp) -> String { app == .bisq ? projectID : app.projectID }
    }

    /// Where the simulated services listen.
    package struct Endpoints: Sendable {
        /// APNs production.
        package let production: Endpoint
        /// APNs development.
        package let development: Endpoint
        /// FCM, including its token endpoint.
        package let fcm: Endpoint
        /// A push server of Web Push.
        package let webPush: Endpoint
    }

    /// Why the simulated services cannot be started or changed.
    package struct SetupError: Error, CustomStringConvertible {
        package let description: String
    }

    /// The APNs key id of `apns.p8`.
    package static let keyID = "SIMKEY0001"
    /// The APNs team id of `apns.p8`.
    package static let teamID = "SIMTEAM001"
    /// The password of `apns.p12`.
    package static let certificatePassword = "simulated"

    private nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    /// A simulated service with its server.
    private struct Instance {
        let service: FaultyService
        let server: Server
        let asksClients: Bool
        var protocols: ServedProtocols
        var certificate = ServedCertificate.good
    }

    private let options: Options
    private let registry = DeviceRegistry()
    private var instances: [Device.Platform: Instance] = [:]
    private var certificates: ServerCertificates?
    private var google: SimulatedFCM?
    private var clockOffset: Int64 = 0
    private let reservations = PortReservations()

    /// Creates services that do not listen yet.
    package init(_ options: Options, on loop: EventLoop) {
        self.options = options
        self.loop = loop
    }

    /// Generates the credentials, writes them and starts to listen.
    /// - Parameters:
    ///   - identityValidFor: validity of the servers' certificates in seconds from now; a negative value gives expired
    ///     certificates.
    ///   - certificateKey: the kind of the key of `apns.p12`.
    /// - Throws: ``SetupError``, `ListenError`, or `TorError` if no port is free.
    package func start(
        identityValidFor: Int = 86_400 * 7, certificateKey: CertificateAuthority.KeyKind = .ecdsa
    ) throws -> Endpoints {
        let authority = CertificateAuthority(name: "Tocsin simulator")
        let certificates = ServerCertificates(
            authority: authority, names: Set(["127.0.0.1", "localhost", options.host]).sorted(),
            validFor: identityValidFor)
        self.certificates = certificates
        let apnsKey = SigningKey.generate(.es256)
        let googleKey = SigningKey.generate(.rs256)
        let certificateName = APNsRequestValidator.certificateName(topic: options.topic)
        let clock = { [unowned self] in assumeIsolated { $0.now } }
        var seeds = SplitMix64(seed: options.seed)

        func instance(
            _ service: any PushService, port: UInt16, asksClients: Bool, protocols: ServedProtocols = .http2
        ) throws -> Instance {
            let faulty = FaultyService(service, registry: registry, loop: loop, seed: seeds.next(), now: clock)
            let server = try Server(
                on: .tcp(host: options.host, port: port == 0 ? try reservations.reserve() : port), loop: loop,
                tls: try certificates.context(
                    .good, requestsClientCertificate: asksClients, protocols: protocols),
                speaksHTTP1: protocols != .http2,
                handler: faulty)
            return Instance(service: faulty, server: server, asksClients: asksClients, protocols: protocols)
        }
        func apns(_ platform: Device.Platform, port: UInt16) throws -> Instance {
            let validator = APNsRequestValidator(
                platform: platform, topics: Set(PhoneApp.allCases.map(options.topic(of:))),
                key: APNsRequestValidator.Key(keyID: Self.keyID, teamID: Self.teamID, key: apnsKey.verifyingKey),
                certificateName: certificateName)
            return try instance(SimulatedAPNs(validator, registry: registry, now: clock), port: port, asksClients: true)
        }
        let google = SimulatedFCM(
            projectIDs: Set(PhoneApp.allCases.map(options.projectID(of:))), key: googleKey.verifyingKey,
            registry: registry, now: clock)
        let production = try apns(.apnsProduction, port: options.ports.production)
        let development = try apns(.apnsDevelopment, port: options.ports.development)
        let fcm = try instance(google, port: options.ports.fcm, asksClients: false)
        let webPush = try instance(
            SimulatedWebPush(registry: registry, now: clock), port: options.ports.webPush, asksClients: false,
            protocols: options.webPushProtocols)
        guard let productionAt = production.server.endpoint, let developmentAt = development.server.endpoint,
            let fcmAt = fcm.server.endpoint, let webPushAt = webPush.server.endpoint
        else { throw SetupError(description: "the simulator is not listening") }
        instances = [.apnsProduction: production, .apnsDevelopment: development, .fcm: fcm, .webPush: webPush]
        self.google = google
        google.tokenURI = "https://\(fcmAt)\(SimulatedFCM.tokenEndpointPath)"

        try write(authority.pem, to: "ca.pem")
        try write(apnsKey.pem, to: "apns.p8")
        let certificate = authority.issue(subject: certificateName, purpose: .client, key: certificateKey)
        try write(PKCS12.pack(certificate, password: Self.certificatePassword), to: "apns.p12")
        try write(Array(Self.certificatePassword.utf8), to: "apns.p12.password")
        for app in PhoneApp.allCases {
            let account = serviceAccount(options.projectID(of: app), key: googleKey, tokenURI: google.tokenURI)
            try write(account, to: app.serviceAccountFile)
        }
        return Endpoints(
            production: productionAt, development: developmentAt, fcm: fcmAt, webPush: webPushAt)
    }

    /// The content of a service account file.
    private func serviceAccount(_ projectID: String, key: SigningKey, tokenURI: String) -> [UInt8] {
        let pem = String(decoding: key.pem, as: UTF8.self).split(separator: "\n").joined(separator: "\\n") + "\\n"
        return Array(
            """
            {
              "type": "service_account",
              "project_id": "\(projectID)",
              "private_key": "\(pem)",
              "client_email": "\(SimulatedFCM.clientEmail(projectID: projectID))",
              "token_uri": "\(tokenURI)"
            }

            """.utf8)
    }

    /// Stops the services; their files remain.
    package func stop() {
        for instance in instances.values { instance.server.close() }
    }

    // MARK: Phones

    /// Registers a phone with its push service, for its app only.
    package func register(_ phone: Phone) {
        let (platform, app): (Device.Platform, String) =
            switch phone.magic {
            case .iOS: (.apnsProduction, options.topic(of: phone.app))
            case .iOSDev: (.apnsDevelopment, options.topic(of: phone.app))
            case .android: (.fcm, options.projectID(of: phone.app))
            case .web: (.webPush, "")
            }
        registry[phone.deviceToken] = Device(platform: platform, app: app)
    }

    /// Gives a registered phone another device token; the old one is unregistered from now on.
    /// - Returns: the phone with its new token.
    package func giveNewDeviceToken(to phone: Phone) -> Phone {
        registry[phone.deviceToken]?.state = .unregistered(since: UInt64(max(0, now)) * 1000)
        let renewed = phone.withNewDeviceToken()
        register(renewed)
        return renewed
    }

    /// Adds or changes a device; `nil` removes it.
    package func set(_ device: Device?, for deviceToken: String) { registry[deviceToken] = device }

    /// The notifications received for the phones, in order.
    package var received: [ReceivedNotification] { registry.received }

    /// The device tokens in the registry, whatever their state.
    package var deviceTokens: [String] { registry.tokens }

    /// Sets whether notifications are stored in ``received``, up to a million. The observer is called in any case.
    package func setStoresReceived(_ keepsReceived: Bool) { registry.keepsReceived = keepsReceived }

    /// Sets an observer that is called with each received notification.
    package func observe(_ observer: @escaping @Sendable (ReceivedNotification) -> Void) {
        registry.observer = observer
    }

    /// Sets an observer that is called, after the one of ``observe(_:)``, with each notification that a phone has
    /// received, as soon as the answer to the node has been sent whole. The answer may still be lost.
    package func observeAnswers(_ observer: @escaping @Sendable (ReceivedNotification) -> Void) {
        registry.answerObserver = observer
    }

    /// Sets an observer that is called, after the one of ``observe(_:)``, with each notification that a phone has
    /// received but whose answer a fault has withheld or may have lost: the node cannot know the result and may send it
    /// again. An answer sent less than a second before its connection was dropped counts as lost.
    package func observeLostAnswers(_ observer: @escaping @Sendable (ReceivedNotification) -> Void) {
        registry.lostObserver = observer
    }

    /// Sets an observer that is called with the HTTP status of each refusal, except by faults and quotas, and with the
    /// request's device token (Web Push: its path).
    package func observeRefusals(_ observer: @escaping @Sendable (_ status: Int, _ deviceToken: String) -> Void) {
        registry.refusalObserver = observer
    }

    /// Number of access tokens issued by the simulated FCM.
    package var accessTokensIssued: Int { google?.tokensIssued ?? 0 }

    /// Number of different provider tokens that any of these simulated services has seen; only APNs has such tokens.
    package func providerTokensSeen(_ platforms: Device.Platform...) -> Int {
        platforms.reduce(into: Set()) { $0.formUnion(instances[$1]?.service.providerTokensSeen ?? []) }.count
    }

    /// Number of complete requests received, including those for access tokens.
    package func requests(_ platform: Device.Platform) -> Int { instances[platform]?.service.requests ?? 0 }

    /// Number of open connections.
    package func connections(_ platform: Device.Platform) -> Int { instances[platform]?.server.openConnections ?? 0 }

    /// Number of TCP connections accepted since the start.
    package func connectionsAccepted(_ platform: Device.Platform) -> Int { instances[platform]?.server.accepted ?? 0 }

    /// Moves the services' clock forward by this many seconds; a negative number moves it back.
    package func moveClock(by seconds: Int64) { clockOffset += seconds }

    private var now: Int64 { UnixTime.now + clockOffset }

    // MARK: Faults

    /// Replaces the faults of a service.
    /// - Throws: ``SetupError`` before ``start(identityValidFor:certificateKey:)``.
    package func set(_ faults: Faults, on platform: Device.Platform) throws {
        let instance = try running(platform)
        instance.service.faults = faults
        instance.server.set(concurrentStreams: faults.concurrentStreams ?? Server.Limits().concurrentStreams)
        instance.server.set(isSwallowing: faults.isBlackHole)
    }

    /// Replaces the quota of a service. What has been used stays counted.
    /// - Throws: ``SetupError`` before ``start(identityValidFor:certificateKey:)``.
    package func set(_ quota: Quota, on platform: Device.Platform) throws {
        try running(platform).service.meter.quota = quota
    }

    /// The load of a service: the requests that it has received, those refused by its quota, and those whose answer it
    /// has not sent whole yet.
    package func load(of platform: Device.Platform) -> (requests: Int, overQuota: Int, outstanding: Int) {
        guard let service = instances[platform]?.service else { return (0, 0, 0) }
        return (service.requests, service.overQuota, service.outstanding)
    }

    /// Sets whether the network between the services and their clients fails. While it does, the answers of the last 15
    /// seconds on each connection that ends count as lost.
    package func setNetworkFailing(_ isFailing: Bool) {
        for instance in instances.values { instance.service.isNetworkFailing = isFailing }
    }

    /// Closes a service's listener and all its connections, without GOAWAY.
    package func kill(_ platform: Device.Platform) {
        guard let instance = instances[platform] else { return }
        instance.server.forEachConnection { instance.service.abort($0) }
        instance.server.close()
    }

    /// Makes a service listen again on the same endpoint after ``kill(_:)``.
    /// - Throws: ``SetupError`` or `ListenError`.
    package func restart(_ platform: Device.Platform) throws { try running(platform).server.listen() }

    /// Changes a service's certificate for new connections.
    /// - Throws: ``SetupError``.
    package func setCertificate(of platform: Device.Platform, to certificate: ServedCertificate) throws {
        try change(platform) { $0.certificate = certificate }
    }

    /// Changes the protocols that a service speaks on new connections.
    /// - Throws: ``SetupError``.
    package func setProtocols(of platform: Device.Platform, to protocols: ServedProtocols) throws {
        try change(platform) { $0.protocols = protocols }
    }

    private func change(_ platform: Device.Platform, _ change: (inout Instance) -> Void) throws {
        var instance = try running(platform)
        guard let certificates else { return }
        change(&instance)
        instances[platform] = instance
        instance.server.use(
            try certificates.context(
                instance.certificate, requestsClientCertificate: instance.asksClients, protocols: instance.protocols),
            speaksHTTP1: instance.protocols != .http2)
    }

    /// Applies a directive.
    /// - Throws: ``SetupError`` or `ListenError`.
    package func apply(_ line: FaultDirective) throws {
        switch line {
        case .faults(let platform, let faults): try set(faults, on: platform)
        case .kill(let platform): kill(platform)
        case .restart(let platform): try restart(platform)
        case .certificate(let platform, let certificate): try setCertificate(of: platform, to: certificate)
        }
    }

    private func running(_ platform: Device.Platform) throws -> Instance {
        guard let instance = instances[platform] else { throw SetupError(description: "the simulator is not running") }
        return instance
    }

    // MARK: Files

    private func write(_ bytes: [UInt8], to name: String) throws {
        mkdir(options.directory, 0o700)
        try PrivateFile.replace("\(options.directory)/\(name)", holding: bytes, isDurable: false)
    }
}
