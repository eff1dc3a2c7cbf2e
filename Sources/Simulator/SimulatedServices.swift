import Cryptography
import EventLoop
import Glibc
import HTTP2
import TNP

/// Apple's two environments and Google on loopback, with TLS from an authority of their own, and the credentials by
/// which a node comes to them.
public actor SimulatedServices {
    /// What the stand-ins know of the app.
    public struct Options: Sendable {
        /// Where the files for the node are written: `ca.pem`, `apns.p8`, `apns.p12` with `apns.p12.password`,
        /// `service-account.json`. Made with mode 0700.
        public var directory: String
        /// The app's bundle id.
        public var topic: String
        /// The app's project at Google.
        public var projectID: String
        /// Ports to listen on: production, development, Google; 0: any that is free.
        public var ports: (production: UInt16, development: UInt16, fcm: UInt16)

        /// - Parameters: as the properties of the same names.
        public init(
            directory: String, topic: String = "bisqremote.joachimneumann.com", projectID: String = "bisqnotifications",
            ports: (production: UInt16, development: UInt16, fcm: UInt16) = (0, 0, 0)
        ) {
            self.directory = directory
            self.topic = topic
            self.projectID = projectID
            self.ports = ports
        }
    }

    /// Where the stand-ins listen.
    public struct Endpoints: Sendable {
        public let production: Endpoint
        public let development: Endpoint
        public let fcm: Endpoint
    }

    /// Why the stand-ins could not start.
    public struct SetUpError: Error, CustomStringConvertible {
        public let description: String
    }

    /// Apple's identifiers of the key in `apns.p8`.
    public static let keyID = "SIMKEY0001"
    public static let teamID = "SIMTEAM001"
    /// Opens `apns.p12`.
    public static let certificatePassword = "simulated"
    private static let certificateName = "Apple Push Services: simulated"

    private nonisolated let loop: EventLoop
    public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let options: Options
    private let registry = DeviceRegistry()
    private var servers: [Server] = []
    private var google: SimulatedFCM?
    private var clockOffset: Int64 = 0

    /// Stand-ins that do not run yet.
    public init(_ options: Options, on loop: EventLoop) {
        self.options = options
        self.loop = loop
    }

    /// Makes the credentials, writes them and starts to listen.
    /// - Parameter identityValidFor: seconds from now that the servers' certificates are good for; one of the past
    ///   gives certificates that have expired.
    /// - Throws: ``SetUpError`` or `ListenError`.
    public func start(identityValidFor: Int = 86_400 * 7, serverNames: [String] = ["127.0.0.1", "localhost"]) throws
        -> Endpoints
    {
        let authority = CertificateAuthority(name: "Tocsin simulator")
        let identity = authority.issue(
            subject: "simulated push services", purpose: .server(names: serverNames), validFor: identityValidFor)
        let privateKey = identity.privateKey.withBytes { span in span.withUnsafeBytes { Array($0) } }
        func context(asking clientAuthorities: [UInt8]?) throws -> TLSContext {
            try TLSContext.server(
                identity: TLSContext.Identity(certificates: identity.certificates, privateKey: privateKey),
                clientAuthorities: clientAuthorities, applicationProtocol: "h2")
        }
        let apnsKey = SigningKey.generate(.es256)
        let googleKey = SigningKey.generate(.rs256)
        let clock = { [unowned self] in assumeIsolated { $0.now } }

        func apple(_ platform: Device.Platform, port: UInt16) throws -> Server {
            let judge = APNsJudge(
                platform: platform, topics: [options.topic],
                key: APNsJudge.Key(keyID: Self.keyID, teamID: Self.teamID, key: apnsKey.verifyingKey),
                certificateName: Self.certificateName)
            return try Server(
                on: .tcp(host: "127.0.0.1", port: port), loop: loop, tls: try context(asking: authority.pem),
                handler: SimulatedAPNs(judge, registry: registry, now: clock))
        }
        let clientEmail = "node@\(options.projectID).iam.gserviceaccount.com"
        let google = SimulatedFCM(
            FCMJudge(projectID: options.projectID),
            account: SimulatedFCM.Account(clientEmail: clientEmail, key: googleKey.verifyingKey), registry: registry,
            now: clock)
        let production = try apple(.apnsProduction, port: options.ports.production)
        let development = try apple(.apnsDevelopment, port: options.ports.development)
        let fcm = try Server(
            on: .tcp(host: "127.0.0.1", port: options.ports.fcm), loop: loop, tls: try context(asking: nil),
            handler: google)
        guard let productionAt = production.endpoint, let developmentAt = development.endpoint,
            let fcmAt = fcm.endpoint
        else { throw SetUpError(description: "the simulator does not listen") }
        servers = [production, development, fcm]
        self.google = google
        google.tokenURI = "https://\(fcmAt)\(SimulatedFCM.tokenPath)"

        try write(authority.pem, to: "ca.pem")
        try write(apnsKey.pem, to: "apns.p8")
        let certificate = authority.issue(subject: Self.certificateName, purpose: .client)
        try write(PKCS12.pack(certificate, password: Self.certificatePassword), to: "apns.p12")
        try write(Array(Self.certificatePassword.utf8), to: "apns.p12.password")
        let pem = String(decoding: googleKey.pem, as: UTF8.self).split(separator: "\n").joined(separator: "\\n") + "\\n"
        try write(
            Array(
                """
                {
                  "type": "service_account",
                  "project_id": "\(options.projectID)",
                  "private_key": "\(pem)",
                  "client_email": "\(clientEmail)",
                  "token_uri": "\(google.tokenURI)"
                }

                """.utf8), to: "service-account.json")
        return Endpoints(production: productionAt, development: developmentAt, fcm: fcmAt)
    }

    /// Ends the stand-ins; their files stay.
    public func stop() {
        for server in servers { server.close() }
        servers = []
    }

    // MARK: Phones

    /// Makes a phone known to Apple or Google.
    public func register(_ phone: Phone) {
        let platform: Device.Platform =
            switch phone.pairing.magic {
            case .iOS: .apnsProduction
            case .iOSDev: .apnsDevelopment
            case .android: .fcm
            }
        registry[phone.pairing.deviceToken] = Device(
            platform: platform, app: platform == .fcm ? options.projectID : options.topic)
    }

    /// Makes a device known, or changes it.
    public func set(_ device: Device?, for deviceToken: String) { registry[deviceToken] = device }

    /// What has come for the phones, in order.
    public var received: [ReceivedNotification] { registry.received }

    /// Forgets what has come.
    public func forgetReceived() { registry.forgetReceived() }

    /// Has each notification told as it comes.
    public func observe(_ observer: @escaping @Sendable (ReceivedNotification) -> Void) {
        registry.observer = observer
    }

    /// How many access tokens Google's stand-in has given out.
    public var accessTokensIssued: Int { google?.tokensIssued ?? 0 }

    /// Sets the stand-ins' clock ahead by so many seconds, or back.
    public func moveClock(by seconds: Int64) { clockOffset += seconds }

    private var now: Int64 { Int64(time(nil)) + clockOffset }

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
