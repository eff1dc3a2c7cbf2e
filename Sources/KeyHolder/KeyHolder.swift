// SPDX-License-Identifier: Apache-2.0

import Cryptography
import NodeConfiguration
import Providers
import Time

/// The node's side of its key holder. It asks for what the keys sign, and starts another key holder when one has ended.
///
/// Requests block until the answer, some hundred microseconds: a node makes one in an hour for each credential, and
/// one for each TLS connection with a client certificate.
package final class KeyHolder: @unchecked Sendable {
    // Unchecked: used on the loop's thread only.

    /// Why there is no key holder.
    package struct Failure: Error, Equatable, CustomStringConvertible {
        package let description: String
    }

    /// What has happened to the key holder.
    package enum Event: Equatable {
        /// It has ended or does not answer; the text says how. Another one starts after this pause.
        case ended(String, pause: Duration)
        /// Another one has started.
        case restarted
        /// No other one could be started.
        case startFailed(String, pause: Duration)
    }

    /// How long a key holder may take to start, and to answer.
    private static let startTimeout = Duration.seconds(10)
    private static let answerTimeout = Duration.seconds(1)

    private let supervisor: Supervisor
    private var connection: HolderConnection?
    /// The credentials that the node uses, each with a hash of its files.
    private var expected: [Credential.Reference: [UInt8]] = [:]
    private var recovery = HolderRecovery()
    private var events: [Event] = []

    package init(_ supervisor: Supervisor) { self.supervisor = supervisor }

    /// Starts a key holder, which reads the configuration and the keys. The present one stays in use until
    /// ``use(_:)``.
    package func start() throws(Failure) -> HeldCredentials {
        do {
            let socket = try supervisor.startHolder()
            let frame = try socket.receiveFrame(atMost: HolderRequest.largestReport, within: Self.startTimeout)
            return HeldCredentials(
                connection: HolderConnection(socket, try HolderReport(json: frame)), holder: self)
        } catch {
            throw Failure(
                description: "the key holder \(error == .timedOut ? "does not answer" : "ended while it read the keys")"
            )
        }
    }

    /// The credentials in use; `nil` while there is no key holder.
    package var credentials: HeldCredentials? { connection.map { HeldCredentials(connection: $0, holder: self) } }

    /// Uses these credentials from now on, and ends the key holder before.
    package func use(_ credentials: HeldCredentials) {
        connection = credentials.connection
        expected = credentials.connection.fingerprints
        recovery.started(at: .now)
    }

    /// Notices that the key holder has ended, and starts another one after a pause. Call this once a second.
    package func secondPassed(at now: MonotonicTime) -> [Event] {
        if let connection, connection.socket.isClosed { lost("it has ended", at: now) }
        if recovery.isDue(at: now) {
            do throws(Failure) {
                let credentials = try start()
                guard credentials.connection.hasAll(of: expected) else {
                    throw Failure(
                        description: "the configuration or a key has changed, or cannot be read: reload the node")
                }
                use(credentials)
                events.append(.restarted)
            } catch {
                events.append(.startFailed(error.description, pause: recovery.failed(at: now)))
            }
        }
        defer { events = [] }
        return events
    }

    private func lost(_ how: String, at now: MonotonicTime) {
        connection = nil
        events.append(.ended(how, pause: recovery.failed(at: now)))
    }

    /// Asks the key holder; `nil` if it refuses or does not answer.
    fileprivate func ask(
        about reference: Credential.Reference, _ request: (_ credential: Int) -> HolderRequest
    ) -> [UInt8]? {
        guard let connection, let index = connection.indices[reference] else { return nil }
        do {
            try connection.socket.sendFrame(request(index).json, within: Self.answerTimeout)
            let answer = try connection.socket.receiveFrame(
                atMost: HolderRequest.largest, within: Self.answerTimeout)
            return answer.isEmpty ? nil : answer
        } catch {
            lost(error == .timedOut ? "it does not answer" : "it has ended", at: .now)
            return nil
        }
    }
}

/// Decides when a key holder is started after one has ended: after a second, and after pauses twice as long each time,
/// up to a minute. One that has run for a minute was not at fault.
struct HolderRecovery: Equatable {
    private var backoff = Backoff(base: .seconds(1), cap: .seconds(60))
    private var due: MonotonicTime?
    private var start: MonotonicTime?
    private static let longRun = Duration.seconds(60)

    /// A key holder has ended, or none could be started.
    /// - Returns: the pause until the next start.
    mutating func failed(at now: MonotonicTime) -> Duration {
        if let start, now - start >= Self.longRun { backoff.reset() }
        start = nil
        let pause = backoff.next(random: 1)
        due = now + pause
        return pause
    }

    /// Whether a key holder must be started now.
    func isDue(at now: MonotonicTime) -> Bool { due.map { $0 <= now } ?? false }

    mutating func started(at now: MonotonicTime) {
        due = nil
        start = now
    }
}

/// A key holder that runs, and what it has reported.
final class HolderConnection: Sendable {
    let socket: LocalSocket
    let report: HolderReport
    /// The number of each credential in requests.
    let indices: [Credential.Reference: Int]
    /// A hash of each credential's files; empty for a credential that cannot be used.
    var fingerprints: [Credential.Reference: [UInt8]] {
        indices.mapValues { report.credentials[$0].fingerprint.bytes }
    }

    /// Whether it has these credentials, with the same files.
    func hasAll(of expected: [Credential.Reference: [UInt8]]) -> Bool {
        let own = fingerprints
        return expected.allSatisfy { own[$0] == $1 }
    }

    init(_ socket: LocalSocket, _ report: HolderReport) {
        self.socket = socket
        self.report = report
        indices = Dictionary(
            report.credentials.enumerated().map { ($1.reference, $0) }, uniquingKeysWith: { first, _ in first })
    }
}

/// The credentials that a key holder has read.
package struct HeldCredentials: CredentialSource {
    fileprivate let connection: HolderConnection
    fileprivate let holder: KeyHolder

    /// The configuration file and the files that it names, except those of credentials.
    package var copies: FileCopies { connection.report.copies }

    package func load(_ reference: Credential.Reference) throws(Credential.Problem) -> Credential.Loaded {
        guard let index = connection.indices[reference] else {
            throw Credential.Problem(file: reference.files[0], text: "the key holder has not read it; reload the node")
        }
        let entry = connection.report.credentials[index]
        return Credential.Loaded(
            try credential(entry.facts, reference), fingerprint: BLAKE2b.hash256(entry.fingerprint.bytes))
    }

    private func credential(
        _ facts: HolderReport.Facts, _ reference: Credential.Reference
    ) throws(Credential.Problem) -> Credential {
        let file = reference.files[0]
        switch facts {
        case .unusable(let problem): throw problem
        case .appleKey(let facts):
            guard let key = VerifyingKey(pem: facts.verifyingKey.bytes, algorithm: .es256),
                let identity = Digest256(facts.identity.bytes)
            else { throw Credential.Problem(file: file, text: "the key holder has sent no public key for it") }
            return .appleKey(
                HeldKey(
                    AppleKey.Public(keyID: facts.keyID, teamID: facts.teamID, verifyingKey: key, identity: identity),
                    reference, in: holder))
        case .appleCertificate(let certificates):
            let facts = try CredentialFiles.facts(of: certificates.bytes, in: file)
            return .appleCertificate(
                CertifiedKey(
                    certificates: certificates.bytes, privateKey: .remote(HeldCertificateKey(reference, in: holder)),
                    notAfter: facts.notAfter), facts)
        case .google(let account):
            return .google(
                HeldAccount(account, reference, in: holder),
                tokenURL: try CredentialFiles.tokenURL(of: account, in: file))
        }
    }
}

/// One of Apple's keys, in a key holder.
private final class HeldKey: ProviderTokenIssuer {
    let publicKey: AppleKey.Public
    private let reference: Credential.Reference
    private let holder: KeyHolder

    init(_ publicKey: AppleKey.Public, _ reference: Credential.Reference, in holder: KeyHolder) {
        self.publicKey = publicKey
        self.reference = reference
        self.holder = holder
    }

    /// The key holder's clock says when.
    func issue(at now: Int64) -> [UInt8]? { holder.ask(about: reference) { .providerToken(credential: $0) } }
}

/// A service account whose key is in a key holder.
private final class HeldAccount: AssertionIssuer {
    let publicAccount: ServiceAccount.Public
    private let reference: Credential.Reference
    private let holder: KeyHolder

    init(_ publicAccount: ServiceAccount.Public, _ reference: Credential.Reference, in holder: KeyHolder) {
        self.publicAccount = publicAccount
        self.reference = reference
        self.holder = holder
    }

    /// The key holder's clock says when.
    func assertion(at now: Int64) -> [UInt8]? { holder.ask(about: reference) { .assertion(credential: $0) } }
}

/// The private key of a certificate, in a key holder.
private final class HeldCertificateKey: RemoteKey {
    private let reference: Credential.Reference
    private let holder: KeyHolder

    init(_ reference: Credential.Reference, in holder: KeyHolder) {
        self.reference = reference
        self.holder = holder
    }

    func sign(_ input: [UInt8], padding: Int32) -> [UInt8]? {
        holder.ask(about: reference) { .signature(credential: $0, input: input, padding: padding) }
    }
}
