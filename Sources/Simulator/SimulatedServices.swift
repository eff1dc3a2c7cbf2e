// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Glibc
import HTTP2
import TNP

/// Apple's two environments and Google on loopback, with TLS from an authority of their own, and the credentials by
/// which a node comes to them.
package actor SimulatedServices {
    /// What the stand-ins know of the apps.
    package struct Options: Sendable {
        /// Where the files for the node are written: `ca.pem`, `apns.p8` for the apps of all phones, `apns.p12` with
        /// `apns.p12.password` for Bisq's alone, and a ``PhoneApp/serviceAccountFile`` for each. Made with mode 0700.
        package var directory: String
        /// The bundle id of Bisq's app: at most 43 bytes, so that it has room in a certificate's name.
        package var topic: String
        /// The project of Bisq's app at Google.
        package var projectID: String
        /// Ports to listen on: production, development, Google; 0: any that is free.
        package var ports: (production: UInt16, development: UInt16, fcm: UInt16)
        /// The same seed decides the same on the same requests: which of them meet a fault.
        package var seed: UInt64

        /// - Parameters: as the properties of the same names.
        package init(
            directory: String, topic: String = PhoneApp.bisq.topic, projectID: String = PhoneApp.bisq.projectID,
            ports: (production: UInt16, development: UInt16, fcm: UInt16) = (0, 0, 0),
            seed: UInt64 = UInt64.random(in: .min ... .max)
        ) {
            self.directory = directory
            self.topic = topic
            self.projectID = projectID
            self.ports = ports
            self.seed = seed
        }

        func topic(of app: PhoneApp) -> String { app == .bisq ? topic : app.topic }

        func projectID(of app: PhoneApp) -> String { app == .bisq ? projectID : app.projectID }
    }

    /// Where the stand-ins listen.
    package struct Endpoints: Sendable {
        package let production: Endpoint
        package let development: Endpoint
        package let fcm: Endpoint
    }

    /// Why the stand-ins could not start.
    package struct SetUpError: Error, CustomStringConvertible {
        package let description: String
    }

    /// Apple's identifiers of the key in `apns.p8`.
    package static let keyID = "SIMKEY0001"
    package static let teamID = "SIMTEAM001"
    /// Opens `apns.p12`.
    package static let certificatePassword = "simulated"

    private nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    /// One of Apple's environments, or Google.
    private struct StandIn {
        let service: FaultyService
        let server: Server
        let asksClients: Bool
    }

    private let options: Options
    private let registry = DeviceRegistry()
    private var standIns: [Device.Platform: StandIn] = [:]
    private var certificates: ServerCertificates?
    private var google: SimulatedFCM?
    private var clockOffset: Int64 = 0

    /// Stand-ins that do not run yet.
    package init(_ options: Options, on loop: EventLoop) {
        self.options = options
        self.loop = loop
    }

    /// Makes the credentials, writes them and starts to listen.
    /// - Parameter identityValidFor: seconds from now that the servers' certificates are good for; one of the past
    ///   gives certificates that have expired.
    /// - Throws: ``SetUpError`` or `ListenError`.
    package func start(identityValidFor: Int = 86_400 * 7, serverNames: [String] = ["127.0.0.1", "localhost"]) throws
        -> Endpoints
    {
        let authority = CertificateAuthority(name: "Tocsin simulator")
        let certificates = ServerCertificates(authority: authority, names: serverNames, validFor: identityValidFor)
        self.certificates = certificates
        let apnsKey = SigningKey.generate(.es256)
        let googleKey = SigningKey.generate(.rs256)
        let certificateName = APNsRequestValidator.certificateName(topic: options.topic)
        let clock = { [unowned self] in assumeIsolated { $0.now } }
        var seeds = SplitMix64(seed: options.seed)

        func standIn(_ service: any PushService, port: UInt16, asksClients: Bool) throws -> StandIn {
            let faulty = FaultyService(service, registry: registry, loop: loop, seed: seeds.next(), now: clock)
            let server = try Server(
                on: .tcp(host: "127.0.0.1", port: port), loop: loop,
                tls: try certificates.context(.good, asksClients: asksClients), handler: faulty)
            return StandIn(service: faulty, server: server, asksClients: asksClients)
        }
        func apple(_ platform: Device.Platform, port: UInt16) throws -> StandIn {
            let validator = APNsRequestValidator(
                platform: platform, topics: Set(PhoneApp.allCases.map(options.topic(of:))),
                key: APNsRequestValidator.Key(keyID: Self.keyID, teamID: Self.teamID, key: apnsKey.verifyingKey),
                certificateName: certificateName)
            return try standIn(SimulatedAPNs(validator, registry: registry, now: clock), port: port, asksClients: true)
        }
        let google = SimulatedFCM(
            projectIDs: Set(PhoneApp.allCases.map(options.projectID(of:))), key: googleKey.verifyingKey,
            registry: registry, now: clock)
        let production = try apple(.apnsProduction, port: options.ports.production)
        let development = try apple(.apnsDevelopment, port: options.ports.development)
        let fcm = try standIn(google, port: options.ports.fcm, asksClients: false)
        guard let productionAt = production.server.endpoint, let developmentAt = development.server.endpoint,
            let fcmAt = fcm.server.endpoint
        else { throw SetUpError(description: "the simulator does not listen") }
        standIns = [.apnsProduction: production, .apnsDevelopment: development, .fcm: fcm]
        self.google = google
        google.tokenURI = "https://\(fcmAt)\(SimulatedFCM.tokenEndpointPath)"

        try write(authority.pem, to: "ca.pem")
        try write(apnsKey.pem, to: "apns.p8")
        let certificate = authority.issue(subject: certificateName, purpose: .client)
        try write(PKCS12.pack(certificate, password: Self.certificatePassword), to: "apns.p12")
        try write(Array(Self.certificatePassword.utf8), to: "apns.p12.password")
        for app in PhoneApp.allCases {
            let account = serviceAccount(options.projectID(of: app), key: googleKey, tokenURI: google.tokenURI)
            try write(account, to: app.serviceAccountFile)
        }
        return Endpoints(production: productionAt, development: developmentAt, fcm: fcmAt)
    }

    /// The file by which Google lets a node in.
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

    /// Ends the stand-ins; their files stay.
    package func stop() {
        for standIn in standIns.values { standIn.server.close() }
    }

    // MARK: Phones

    /// Makes a phone known to Apple or Google, for its app alone.
    package func register(_ phone: Phone) {
        let (platform, app): (Device.Platform, String) =
            switch phone.magic {
            case .iOS: (.apnsProduction, options.topic(of: phone.app))
            case .iOSDev: (.apnsDevelopment, options.topic(of: phone.app))
            case .android: (.fcm, options.projectID(of: phone.app))
            }
        registry[phone.deviceToken] = Device(platform: platform, app: app)
    }

    /// Makes a device known, or changes it.
    package func set(_ device: Device?, for deviceToken: String) { registry[deviceToken] = device }

    /// What has come for the phones, in order.
    package var received: [ReceivedNotification] { registry.received }

    /// The tokens of all phones that are known or were.
    package var deviceTokens: [String] { registry.tokens }

    /// Whether what comes is kept for ``received``, up to a million; it is told to the observer in any case.
    package func setKeepsReceived(_ keepsReceived: Bool) { registry.keepsReceived = keepsReceived }

    /// Forgets what has come.
    package func forgetReceived() { registry.forgetReceived() }

    /// Has each notification told as it comes.
    package func observe(_ observer: @escaping @Sendable (ReceivedNotification) -> Void) {
        registry.observer = observer
    }

    /// Has each notification told that a phone has got, after ``observe(_:)``'s observer, and whose answer a fault has
    /// kept back or may have lost: whoever sent it cannot know its fate, and may send it again. An answer that went out
    /// less than a second before its connection was dropped counts as lost.
    package func observeLost(_ observer: @escaping @Sendable (ReceivedNotification) -> Void) {
        registry.lostObserver = observer
    }

    /// How many access tokens Google's stand-in has given out.
    package var accessTokensIssued: Int { google?.tokensIssued ?? 0 }

    /// How many different provider tokens one of Apple's environments has been shown; 0 for Google.
    package func providerTokensSeen(_ platform: Device.Platform) -> Int {
        standIns[platform]?.service.providerTokensSeen ?? 0
    }

    /// How many requests have come whole, those for access tokens included.
    package func requests(_ platform: Device.Platform) -> Int { standIns[platform]?.service.requests ?? 0 }

    /// How many connections there are.
    package func connections(_ platform: Device.Platform) -> Int { standIns[platform]?.server.openConnections ?? 0 }

    /// How many TCP connections have been accepted since the start.
    package func connectionsAccepted(_ platform: Device.Platform) -> Int { standIns[platform]?.server.accepted ?? 0 }

    /// Sets the stand-ins' clock ahead by so many seconds, or back.
    package func moveClock(by seconds: Int64) { clockOffset += seconds }

    private var now: Int64 { Int64(time(nil)) + clockOffset }

    // MARK: Faults

    /// Has a stand-in do this wrong from now on, and nothing else.
    /// - Throws: ``SetUpError`` before ``start(identityValidFor:serverNames:)``; `ListenError` where swallowing begins
    ///   or ends, for which it listens anew.
    package func set(_ faults: Faults, on platform: Device.Platform) throws {
        let standIn = try running(platform)
        standIn.service.faults = faults
        standIn.server.set(concurrentStreams: faults.concurrentStreams ?? Server.Limits().concurrentStreams)
        try standIn.server.set(isSwallowing: faults.swallows)
    }

    /// Ends a stand-in's listener and all its connections, without a word to anyone.
    package func kill(_ platform: Device.Platform) {
        guard let standIn = standIns[platform] else { return }
        standIn.server.forEachConnection { standIn.service.abort($0) }
        standIn.server.close()
    }

    /// Has a stand-in listen again where it did before ``kill(_:)``.
    /// - Throws: ``SetUpError`` or `ListenError`.
    package func restart(_ platform: Device.Platform) throws { try running(platform).server.listen() }

    /// Has a stand-in show another certificate to those who connect from now on.
    /// - Throws: ``SetUpError`` or `ListenError`: for this, it listens anew.
    package func swapCertificate(of platform: Device.Platform, to certificate: ServedCertificate) throws {
        let standIn = try running(platform)
        guard let certificates else { return }
        try standIn.server.use(try certificates.context(certificate, asksClients: standIn.asksClients))
    }

    /// Does what a line says.
    /// - Throws: ``SetUpError`` or `ListenError`.
    package func obey(_ line: FaultDirective) throws {
        switch line {
        case .faults(let platform, let faults): try set(faults, on: platform)
        case .kill(let platform): kill(platform)
        case .restart(let platform): try restart(platform)
        case .certificate(let platform, let certificate): try swapCertificate(of: platform, to: certificate)
        }
    }

    private func running(_ platform: Device.Platform) throws -> StandIn {
        guard let standIn = standIns[platform] else { throw SetUpError(description: "the simulator does not run") }
        return standIn
    }

    // MARK: Files

    private func write(_ bytes: [UInt8], to name: String) throws {
        mkdir(options.directory, 0o700)
        let path = "\(options.directory)/\(name)"
        let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw SetUpError(description: "cannot write \(path): \(String(cString: strerror(errno)))")
        }
        defer { close(descriptor) }
        guard bytes.withUnsafeBytes({ Glibc.write(descriptor, $0.baseAddress, $0.count) }) == bytes.count else {
            throw SetUpError(description: "cannot write \(path): \(String(cString: strerror(errno)))")
        }
    }
}
