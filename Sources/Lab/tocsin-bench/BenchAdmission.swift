// SPDX-License-Identifier: Apache-2.0

import Admission
import ArgumentParser
import Console
import Cryptography
import EventLoop
import FoundationEssentials
import Glibc
import TNP
import Time

struct BenchAdmission: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "admission", abstract: "Measure the time of an admission decision and the memory of full tables.",
        discussion: """
            Fills the table of device tokens with one admitted and delivered submission each, then measures decisions \
            for random tokens: the check of the circuit, then of the submission, without proof of work.

            EXAMPLES
              tocsin-bench admission
              tocsin-bench admission --tokens 1000000
            """)

    @Option(help: "Number of device tokens in the large table.")
    var tokens = 10_000_000

    @Option(help: "Number of connected circuits, for both tables.")
    var circuits = 100_000

    @Option(help: "Number of decisions to measure for each table.")
    var decisions = 1_000_000

    func validate() throws {
        guard min(tokens, circuits) > 0 else { throw ValidationError("--tokens and --circuits must be at least 1") }
    }

    func run() async throws {
        let small = AdmissionLoad(tokens: 1000, circuits: circuits)
        small.fill()
        let large = AdmissionLoad(tokens: tokens, circuits: circuits)
        let before = Self.residentBytes
        large.fill { Terminal.progress("\($0 / 1_000_000) million device tokens …") }
        Terminal.endProgress()
        let after = Self.residentBytes
        // The two tables alternate, so that noise affects both alike.
        var times: (small: [Double], large: [Double]) = ([], [])
        for _ in 0..<max(1, decisions / AdmissionLoad.batch) {
            times.small.append(small.timeBatch())
            times.large.append(large.timeBatch())
        }
        let smallTime = Self.median(times.small)
        let largeTime = Self.median(times.large)
        let bytes = Admission.maximumBytes(deviceTokens: tokens)
        Terminal.print(
            """
            decision, 1000 device tokens known        \(Terminal.number(smallTime, digits: 0)) ns
            decision, \(tokens) device tokens known    \(Terminal.number(largeTime, digits: 0)) ns
            ratio of the two                          \(Terminal.number(largeTime / smallTime, digits: 2))
            device tokens and circuits, measured      \(Self.megabytes(after - before)) MB
            device tokens, bound                      \(Self.megabytes(bytes)) MB
            circuits, bound                           \(Self.megabytes(Admission.maximumBytes(circuits: circuits))) MB
            """)
    }

    private static func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }

    private static func megabytes(_ bytes: Int) -> String { Terminal.number(Double(bytes) / 1_000_000, digits: 1) }

    private static var residentBytes: Int { ProcessUsage.residentKilobytes(of: getpid()) * 1024 }
}

/// An `Admission` with a given number of known device tokens and circuits, and submissions to it.
private final class AdmissionLoad {
    static let batch = 10_000

    private var admission: Admission
    private let tokens: Int
    private let circuits: Int
    private var clock = MonotonicTime.now
    private var random = SystemRandomNumberGenerator()

    init(tokens: Int, circuits: Int) {
        var settings = AdmissionSettings()
        settings.deviceTokens = tokens
        settings.circuits = circuits
        let open = Rate(burst: Rate.burstRange.upperBound, perMinute: Rate.perMinuteRange.upperBound)
        (settings.device, settings.circuit, settings.app, settings.node) = (open, open, open, open)
        (settings.unproven, settings.abuse) = (open, open)
        self.tokens = tokens
        self.circuits = circuits
        admission = Admission(
            settings, hash: KeyedHash(key: SecretBytes(SecureRandom.bytes(32))),
            seed: SecureRandom.bytes(Puzzle.seedLength), now: clock)
        for circuit in 0..<circuits { _ = admission.connected(.tor(UInt32(circuit)), at: clock) }
    }

    /// Admits and delivers one submission for each device token.
    func fill(progress: (Int) -> Void = { _ in }) {
        let circuit = CircuitID.tor(0)
        for number in 0..<tokens {
            guard let submission = Self.submission(to: number) else { continue }
            let now = advanceClock()
            guard let ticket = try? admit(submission, on: circuit, at: now) else { continue }
            _ = admission.finish(ticket, with: .delivered(), contact: .contacted, at: now)
            // Drains the changes that a store would save.
            if number.isMultiple(of: 100_000) {
                while admission.takeChanges(atMost: 100_000) != nil {}
                progress(number)
            }
        }
        while admission.takeChanges(atMost: 100_000) != nil {}
    }

    private func admit(
        _ submission: Submission, on circuit: CircuitID, at now: ClockReading
    ) throws(Refusal) -> Admission.Ticket {
        let paid = try admission.verify(submission, on: circuit, through: .tnp, at: now.monotonic)
        return try admission.admit(
            admission.terms(of: submission, paid: paid, app: "bisq", on: circuit, through: .tnp), at: now)
    }

    /// The average time of a decision over a batch, in nanoseconds.
    func timeBatch() -> Double {
        let submissions = (0..<Self.batch).compactMap { _ in
            Self.submission(to: Int.random(in: 0..<tokens, using: &random))
        }
        let places = submissions.map { _ in CircuitID.tor(UInt32.random(in: 0..<UInt32(circuits), using: &random)) }
        let now = advanceClock()
        var admitted = 0
        let start = MonotonicTime.now
        for (submission, circuit) in zip(submissions, places) {
            guard
                (try? admission.checkCircuit(circuit, at: now.monotonic)) != nil,
                (try? admit(submission, on: circuit, at: now)) != nil
            else { continue }
            admitted += 1
        }
        let time = MonotonicTime.now - start
        precondition(admitted == submissions.count, "a refusal takes another code path and must not be measured")
        return time.milliseconds * 1_000_000 / Double(submissions.count)
    }

    private func advanceClock() -> ClockReading {
        // Advances the clock, so that rate limits are not used up.
        clock = clock + .milliseconds(1)
        return ClockReading(monotonic: clock, unix: 1_800_000_000)
    }

    private static let iv = Array("0123456789abcdef".utf8)[...]
    private static let ciphertext = [UInt8](repeating: 7, count: 32)[...]

    private static func submission(to number: Int) -> Submission? {
        let token = Array("\(number + 1_000_000_000)0000000000000000000000000000000000000000000000000000".utf8)
        let envelope = try? Envelope(
            magic: .android, deviceToken: token[...], iv: iv, ciphertext: ciphertext, format: .pipe)
        return envelope.map { Submission(request: 0, envelope: $0) }
    }
}
