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
        commandName: "admission", abstract: "Time of an admission's decision and memory of its tables, when full.",
        discussion: """
            Fills the table of device tokens by submissions that are admitted and delivered, one for each, then times \
            decisions for tokens chosen at random: the first gate and the second, without proof of work.

            EXAMPLES
              tocsin bench admission
              tocsin bench admission --tokens 1000000
            """)

    @Option(help: "Device tokens in the large table.")
    var tokens = 10_000_000

    @Option(help: "Circuits.")
    var circuits = 100_000

    @Option(help: "Decisions that are timed for each table.")
    var decisions = 1_000_000

    func run() async throws {
        let small = AdmissionLoad(tokens: 1000, circuits: circuits)
        small.fill()
        let large = AdmissionLoad(tokens: tokens, circuits: circuits)
        let before = Self.residentBytes
        large.fill { Terminal.progress("\($0 / 1_000_000) million device tokens …") }
        Terminal.endProgress()
        let after = Self.residentBytes
        // In turns, so that a noisy moment hits both.
        var times: (small: [Double], large: [Double]) = ([], [])
        for _ in 0..<max(1, decisions / AdmissionLoad.batch) {
            times.small.append(small.timeBatch())
            times.large.append(large.timeBatch())
        }
        let few = Self.median(times.small)
        let many = Self.median(times.large)
        let bytes = Admission.mostBytes(deviceTokens: tokens)
        Terminal.print(
            """
            decision, 1000 device tokens known        \(Terminal.number(few, digits: 0)) ns
            decision, \(tokens) device tokens known    \(Terminal.number(many, digits: 0)) ns
            the one / the other                       \(Terminal.number(many / few, digits: 2))
            device tokens and circuits, measured      \(Self.megabytes(after - before)) MB
            device tokens, at most                    \(Self.megabytes(bytes)) MB
            circuits, at most                         \(Self.megabytes(Admission.mostBytes(circuits: circuits))) MB
            """)
    }

    private static func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }

    private static func megabytes(_ bytes: Int) -> String { Terminal.number(Double(bytes) / 1_000_000, digits: 1) }

    private static var residentBytes: Int {
        guard let data = FileManager.default.contents(atPath: "/proc/self/statm") else { return 0 }
        let pages = String(decoding: data, as: UTF8.self).split(separator: " ").dropFirst().first.flatMap { Int($0) }
        return (pages ?? 0) * Int(getpagesize())
    }
}

/// An admission with so many device tokens and circuits, and submissions to it.
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
        let open = Rate(burst: Rate.bursts.upperBound, perMinute: Rate.ratesPerMinute.upperBound)
        (settings.device, settings.circuit, settings.app, settings.node) = (open, open, open, open)
        (settings.unproven, settings.abuse) = (open, open)
        self.tokens = tokens
        self.circuits = circuits
        admission = Admission(
            settings, hash: KeyedHash(key: SecretBytes(SecureRandom.bytes(32))),
            seed: SecureRandom.bytes(Puzzle.seedLength), now: clock)
        for circuit in 0..<circuits { _ = admission.connected(.tor(UInt32(circuit)), at: clock) }
    }

    func fill(progress: (Int) -> Void = { _ in }) {
        let circuit = CircuitID.tor(0)
        for number in 0..<tokens {
            guard let submission = Self.submission(to: number) else { continue }
            let now = moment()
            guard let ticket = try? admit(submission, on: circuit, at: now) else { continue }
            _ = admission.concluded(ticket, .delivered(), .asked, at: now)
            // What a store would take.
            if number.isMultiple(of: 100_000) {
                while admission.takeChanges(atMost: 100_000) != nil {}
                progress(number)
            }
        }
        while admission.takeChanges(atMost: 100_000) != nil {}
    }

    private func admit(
        _ submission: Submission, on circuit: CircuitID, at moment: ClockReading
    ) throws(Refusal) -> Admission.Ticket {
        let paid = try admission.verify(submission, on: circuit, through: .tnp, at: moment.monotonic)
        return try admission.admit(submission, paid: paid, app: "bisq", on: circuit, through: .tnp, at: moment)
    }

    /// Nanoseconds of a decision, on average over a batch.
    func timeBatch() -> Double {
        let submissions = (0..<Self.batch).compactMap { _ in
            Self.submission(to: Int.random(in: 0..<tokens, using: &random))
        }
        let places = submissions.map { _ in CircuitID.tor(UInt32.random(in: 0..<UInt32(circuits), using: &random)) }
        let now = moment()
        var admitted = 0
        let start = MonotonicTime.now
        for (submission, circuit) in zip(submissions, places) {
            guard
                (try? admission.enters(on: circuit, at: now.monotonic)) != nil,
                (try? admit(submission, on: circuit, at: now)) != nil
            else { continue }
            admitted += 1
        }
        let time = MonotonicTime.now - start
        precondition(admitted == submissions.count, "a decision that says no is another measurement")
        return time.milliseconds * 1_000_000 / Double(submissions.count)
    }

    private func moment() -> ClockReading {
        // Time goes on, or allowances would be used up.
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
