// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Dispatch
import EventLoop
import NodeConfiguration
import Providers
import Settings
import Synchronization
import Time

/// The node's side of its key holder. It asks for what the keys sign, and starts another key holder when one has ended.
///
/// Other threads wait for the answers, and not the loop: threads of its own, and for a signature in a TLS handshake with a
/// client certificate, which OpenSSL wants at once, the thread of that handshake.
package final class KeyHolder: @unchecked Sendable {
    // Unchecked: used on the loop's thread only, and before the loop runs; `connection` is synchronised for `signature`.

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

    private typealias AskResult = ([UInt8]?) -> Void

    /// How long a key holder may take to start, and to answer.
    private static let startTimeout = Duration.seconds(30)
    private static let answerTimeout = Duration.seconds(1)

    private let supervisor: Supervisor
    /// The node's loop; `nil` before it runs.
    package var loop: EventLoop?
    /// Waits for the key holder in use, for one answer after another.
    private let asking = DispatchQueue(label: "key holder")
    /// Waits for another key holder to start.
    private let starting = DispatchQueue(label: "key holder's start")
    private var results: [Int: AskResult] = [:]
    private var starts: [Int: (Result<HeldCredentials, Failure>) -> Void] = [:]
    private var lastNumber = 0
    private var isStarting = false
    private let inUse = Mutex<HolderConnection?>(nil)
    private var connection: HolderConnection? {
        get { inUse.withLock { $0 } }
        set { inUse.withLock { $0 = newValue } }
    }
    /// The credentials that the node uses, each with a hash of its files.
    private var expected: [CredentialReference: [UInt8]] = [:]
    private var recovery = HolderRecovery()
    private var events: [Event] = []

    package init(_ supervisor: Supervisor) { self.supervisor = supervisor }

    /// Starts a key holder, which reads the configuration and the keys, and waits for it: before the loop runs. The present
    /// one stays in use until ``use(_:)``.
    package func startBlocking() throws(Failure) -> HeldCredentials {
        do {
            return HeldCredentials(
                connection: try Self.connection(through: try supervisor.startHolder()), holder: self)
        } catch {
            throw Failure(error)
        }
    }

    /// As ``startBlocking()``, without holding up the loop.
    /// - Parameter result: receives the credentials on the loop.
    package func start(_ result: @escaping (Result<HeldCredentials, Failure>) -> Void) {
        let socket: LocalSocket
        do throws(LocalSocket.Failure) {
            socket = try supervisor.startHolder()
        } catch {
            return result(.failure(Failure(error)))
        }
        guard let loop else { preconditionFailure("the loop does not run yet") }
        lastNumber += 1
        let number = lastNumber
        starts[number] = result
        starting.async {
            let connection = Result { () throws(LocalSocket.Failure) in try Self.connection(through: socket) }
            Task(executorPreference: loop) { self.started(number, connection) }
        }
    }

    private func started(_ number: Int, _ connection: Result<HolderConnection, LocalSocket.Failure>) {
        starts.removeValue(forKey: number)?(
            connection.map { HeldCredentials(connection: $0, holder: self) }.mapError { Failure($0) })
    }

    private static func connection(through socket: LocalSocket) throws(LocalSocket.Failure) -> HolderConnection {
        let frame = try socket.receiveFrame(atMost: HolderRequest.maximumReport, within: startTimeout)
        return HolderConnection(socket, try HolderReport(json: frame))
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
        if recovery.isDue(at: now), !isStarting {
            isStarting = true
            start { [self] in restarted($0) }
        }
        defer { events = [] }
        return events
    }

    private func restarted(_ result: Result<HeldCredentials, Failure>) {
        isStarting = false
        // A reload may have started one meanwhile.
        guard connection == nil else { return }
        do throws(Failure) {
            let credentials = try result.get()
            guard credentials.connection.hasAll(of: expected) else {
                throw Failure(
                    description: "the configuration or a key has changed, or cannot be read: reload the node")
            }
            use(credentials)
            events.append(.restarted)
        } catch {
            events.append(.startFailed(error.description, pause: recovery.failed(at: .now)))
        }
    }

    private func lost(_ how: String, at now: MonotonicTime) {
        connection = nil
        events.append(.ended(how, pause: recovery.failed(at: now)))
    }

    /// Asks the key holder.
    /// - Parameter result: receives the answer on the loop, at once or later; `nil` if it refuses or does not answer.
    fileprivate func ask(
        about reference: CredentialReference, _ question: [UInt8], _ result: @escaping ([UInt8]?) -> Void
    ) {
        guard let loop, let connection, let index = connection.indices[reference] else { return result(nil) }
        lastNumber += 1
        let number = lastNumber
        results[number] = result
        let frame = HolderRequest(credential: index, question: Base64Bytes(question)).json
        asking.async {
            let answer = connection.answer(to: frame, within: Self.answerTimeout)
            Task(executorPreference: loop) { self.answered(number, answer, by: connection) }
        }
    }

    private func answered(
        _ number: Int, _ answer: Result<[UInt8], LocalSocket.Failure>, by connection: HolderConnection
    ) {
        let bytes = note(answer, of: connection)
        results.removeValue(forKey: number)?(bytes)
    }

    /// Asks the key holder, and waits for the answer: on a thread that is not the loop's.
    fileprivate func askBlocking(about reference: CredentialReference, _ question: [UInt8]) -> [UInt8]? {
        guard let loop, !loop.isOnLoop, let connection, let index = connection.indices[reference] else { return nil }
        let frame = HolderRequest(credential: index, question: Base64Bytes(question)).json
        let answer = asking.sync { connection.answer(to: frame, within: Self.answerTimeout) }
        Task(executorPreference: loop) { _ = self.note(answer, of: connection) }
        guard case .success(let bytes) = answer, !bytes.isEmpty else { return nil }
        return bytes
    }

    /// The bytes of an answer; `nil` if there is none. Forgets a key holder that does not answer.
    private func note(
        _ answer: Result<[UInt8], LocalSocket.Failure>, of asked: HolderConnection
    ) -> [UInt8]? {
        switch answer {
        case .success(let bytes): return bytes.isEmpty ? nil : bytes
        case .failure(let error):
            if asked === connection { lost(error == .timedOut ? "it does not answer" : "it has ended", at: .now) }
            return nil
        }
    }
}

extension KeyHolder.Failure {
    init(_ error: LocalSocket.Failure) {
        self.init(
            description: "the key holder \(error == .timedOut ? "does not answer" : "ended while it read the keys")")
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
    let indices: [CredentialReference: Int]
    /// A hash of each credential's files; empty for a credential that cannot be used.
    var fingerprints: [CredentialReference: [UInt8]] {
        indices.mapValues { report.credentials[$0].fingerprint.bytes }
    }

    /// Whether it has these credentials, with the same files.
    func hasAll(of expected: [CredentialReference: [UInt8]]) -> Bool {
        let own = fingerprints
        return expected.allSatisfy { own[$0] == $1 }
    }

    /// The answer to a request. Waits for it, and ends the connection if it fails: a late answer would be taken for that to
    /// the next request, and requests that wait for their turn would each wait as long.
    func answer(to frame: [UInt8], within limit: Duration) -> Result<[UInt8], LocalSocket.Failure> {
        let answer = Result { () throws(LocalSocket.Failure) in
            try socket.sendFrame(frame, within: limit)
            return try socket.receiveFrame(atMost: HolderRequest.largest, within: limit)
        }
        if case .failure = answer { socket.shutDown() }
        return answer
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

    package func load(_ reference: CredentialReference) throws(CredentialProblem) -> LoadedCredential {
        guard let index = connection.indices[reference] else {
            throw CredentialProblem(file: reference.files[0], text: "the key holder has not read it; reload the node")
        }
        let entry = connection.report.credentials[index]
        switch entry.result {
        case .unusable(let problem): throw problem
        case .facts(let facts):
            let credential = try DeliveryKinds.credential(reference).init(
                reference, facts: facts.bytes, key: KeyElsewhere(reference, in: holder))
            return LoadedCredential(credential, fingerprint: BLAKE2b.hash256(entry.fingerprint.bytes))
        }
    }
}

/// A key in a key holder.
private final class KeyElsewhere: RemoteKeyAccess {
    private let reference: CredentialReference
    private let holder: KeyHolder

    init(_ reference: CredentialReference, in holder: KeyHolder) {
        self.reference = reference
        self.holder = holder
    }

    func ask(_ question: [UInt8], _ result: @escaping ([UInt8]?) -> Void) {
        holder.ask(about: reference, question, result)
    }

    func askBlocking(_ question: [UInt8]) -> [UInt8]? { holder.askBlocking(about: reference, question) }
}
