// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import NodeConfiguration
import Providers
import Settings
import Synchronization
import Time

/// The node's side of its key holder. It asks for what the keys sign, and starts another key holder when one has ended.
///
/// The loop does not wait for the answers. Only the thread of a TLS handshake with a client certificate does: OpenSSL wants the
/// signature at once.
package final class KeyHolder: @unchecked Sendable {
    // Unchecked: used on the loop's thread only, and before the loop runs; `running` is synchronised for `askBlocking`.

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

    private let source: any HolderSource
    /// The node's loop; `nil` before it runs.
    package var loop: EventLoop?
    private var results: [Int: ([UInt8]?) -> Void] = [:]
    private var starts: [Int: (Result<HeldCredentials, Failure>) -> Void] = [:]
    private var lastNumber = 0
    private var isStarting = false
    private let running = Mutex<(any RunningHolder)?>(nil)
    /// The key holder in use; `nil` while there is none.
    private var inUse: (any RunningHolder)? {
        get { running.withLock { $0 } }
        set { running.withLock { $0 = newValue } }
    }
    /// The credentials that the node uses, each with a hash of its files.
    private var expected: [CredentialReference: [UInt8]] = [:]
    private var recovery = HolderRecovery()
    private var events: [Event] = []

    package init(_ source: any HolderSource) { self.source = source }

    /// Starts a key holder, and waits until it has read the configuration and the keys. Call this before the loop runs.
    /// The present key holder stays in use until ``use(_:)``.
    package func startBlocking() throws(Failure) -> HeldCredentials {
        do {
            return HeldCredentials(of: try source.startBlocking(), for: self)
        } catch {
            throw Failure(error)
        }
    }

    /// As ``startBlocking()``, without holding up the loop.
    /// - Parameter result: receives the credentials on the loop, at once or later.
    package func start(_ result: @escaping (Result<HeldCredentials, Failure>) -> Void) {
        guard let loop else { preconditionFailure("the loop does not run yet") }
        lastNumber += 1
        let number = lastNumber
        starts[number] = result
        source.start(on: loop) { [self] in started(number, $0) }
    }

    private func started(_ number: Int, _ holder: Result<any RunningHolder, HolderProblem>) {
        starts.removeValue(forKey: number)?(
            holder.map { HeldCredentials(of: $0, for: self) }.mapError { Failure($0) })
    }

    /// The credentials in use; `nil` while there is no key holder.
    package var credentials: HeldCredentials? { inUse.map { HeldCredentials(of: $0, for: self) } }

    /// Uses these credentials from now on, and ends the previous key holder.
    package func use(_ credentials: HeldCredentials) {
        inUse = credentials.holder
        expected = credentials.fingerprints
        recovery.started(at: .now)
    }

    /// Notices that the key holder has ended, and starts another one after a pause. Call this once a second.
    package func secondPassed(at now: MonotonicTime) -> [Event] {
        if let inUse, inUse.hasEnded { lost(.hasEnded, at: now) }
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
        guard inUse == nil else { return }
        do throws(Failure) {
            let credentials = try result.get()
            guard credentials.hasAll(of: expected) else {
                throw Failure(
                    description: "the configuration or a key has changed, or cannot be read: reload the node")
            }
            use(credentials)
            events.append(.restarted)
        } catch {
            events.append(.startFailed(error.description, pause: recovery.failed(at: .now)))
        }
    }

    private func lost(_ problem: HolderProblem, at now: MonotonicTime) {
        inUse = nil
        events.append(
            .ended(problem == .doesNotAnswer ? "it does not answer" : "it has ended", pause: recovery.failed(at: now)))
    }

    /// Asks the key holder.
    /// - Parameter result: receives the answer on the loop, at once or later; `nil` if it refuses or does not answer.
    fileprivate func ask(
        about reference: CredentialReference, _ question: [UInt8], _ result: @escaping ([UInt8]?) -> Void
    ) {
        guard let loop, let holder = inUse, let index = holder.report.index(of: reference) else { return result(nil) }
        lastNumber += 1
        let number = lastNumber
        results[number] = result
        holder.ask(HolderRequest(credential: index, question: Base64Bytes(question)), on: loop) { [self] answer in
            let bytes = note(answer, of: holder)
            results.removeValue(forKey: number)?(bytes)
        }
    }

    /// Asks the key holder, and waits for the answer. `nil` on the loop, which must not wait.
    fileprivate func askBlocking(about reference: CredentialReference, _ question: [UInt8]) -> [UInt8]? {
        guard let loop, !loop.isOnLoop, let holder = inUse, let index = holder.report.index(of: reference) else {
            return nil
        }
        let answer = holder.askBlocking(HolderRequest(credential: index, question: Base64Bytes(question)))
        Task(executorPreference: loop) { _ = self.note(answer, of: holder) }
        guard case .success(let bytes) = answer, !bytes.isEmpty else { return nil }
        return bytes
    }

    /// The bytes of an answer; `nil` if there is none. Forgets a key holder that does not answer.
    private func note(_ answer: Result<[UInt8], HolderProblem>, of asked: any RunningHolder) -> [UInt8]? {
        switch answer {
        case .success(let bytes): return bytes.isEmpty ? nil : bytes
        case .failure(let problem):
            if asked === inUse { lost(problem, at: .now) }
            return nil
        }
    }
}

extension KeyHolder.Failure {
    init(_ problem: HolderProblem) {
        self.init(
            description:
                "the key holder \(problem == .doesNotAnswer ? "does not answer" : "ended while it read the keys")")
    }
}

/// Decides when a key holder is started after one has ended: after a second, and after pauses twice as long each time,
/// up to a minute. A key holder that has run for a minute resets the pause.
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

/// The credentials that a key holder has read.
package struct HeldCredentials: CredentialSource {
    /// The key holder that has read them.
    fileprivate let holder: any RunningHolder
    private let asking: KeyHolder

    fileprivate init(of holder: any RunningHolder, for asking: KeyHolder) {
        self.holder = holder
        self.asking = asking
    }

    /// The configuration file and the files that it names, except those of credentials.
    package var copies: FileCopies { holder.report.copies }

    /// A hash of each credential's files; empty for a credential that cannot be used.
    fileprivate var fingerprints: [CredentialReference: [UInt8]] {
        Dictionary(
            holder.report.credentials.map { ($0.reference, $0.fingerprint.bytes) },
            uniquingKeysWith: { first, _ in first })
    }

    /// Whether the key holder has read all of these credentials, from files with the same contents.
    fileprivate func hasAll(of expected: [CredentialReference: [UInt8]]) -> Bool {
        let own = fingerprints
        return expected.allSatisfy { own[$0] == $1 }
    }

    package func load(_ reference: CredentialReference) throws(CredentialProblem) -> LoadedCredential {
        guard let index = holder.report.index(of: reference) else {
            throw CredentialProblem(file: reference.files[0], text: "the key holder has not read it; reload the node")
        }
        let entry = holder.report.credentials[index]
        switch entry.result {
        case .unusable(let problem): throw problem
        case .facts(let facts):
            let credential = try DeliveryKinds.credential(reference).init(
                reference, facts: facts.bytes, key: KeyElsewhere(reference, in: asking))
            return LoadedCredential(credential, fingerprint: BLAKE2b.hash256(entry.fingerprint.bytes))
        }
    }
}

/// Sends a credential's questions to the node's key holder.
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
