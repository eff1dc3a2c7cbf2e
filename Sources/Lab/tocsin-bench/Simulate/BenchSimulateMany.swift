// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import FoundationEssentials
import Glibc
import World

struct BenchSimulateMany: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate-many", abstract: "Run tocsin-bench simulate with kept seeds, then with fresh ones.",
        discussion: """
            Each seed runs in a process of its own. At the first broken rule, the faults or the attacker's actions that \
            are not needed to break it are removed, as far as the time for that allows. Exits with 1 then.

            EXAMPLES
              tocsin-bench simulate-many --minutes 10
              tocsin-bench simulate-many --kept Tests/Simulation/seeds --minutes 0
              tocsin-bench simulate-many --attacks --minutes 20
              tocsin-bench simulate-many --nodes 3 --days 0.25 --minutes 20
              tocsin-bench simulate-many --chain --days 0.25 --minutes 20
            """)

    @Option(help: "The real minutes to run fresh seeds for.")
    var minutes = 5.0

    @Flag(help: "Run attackers' programs, tocsin-bench simulate-attack, in place of days of bad weather.")
    var attacks = false

    @OptionGroup
    var options: WorldOptions

    @Option(help: "The virtual days of each fresh seed; of no meaning with --attacks.")
    var days = 1.0

    @Option(help: "The number of processes at a time.")
    var jobs = 2

    @Option(help: "A file with seeds to run first: a seed, its days and a comment on each line.")
    var kept: String?

    @Option(help: "The first fresh seed; the next ones follow it. Random if it is not given.")
    var from: UInt64?

    @Option(help: "The real minutes to remove faults for, after a broken rule.")
    var shrinkMinutes = 5.0

    func run() async throws {
        let directory = URL.temporaryDirectory.appending(path: "tocsin-simulate-many-\(getpid())").path()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let program = SimulationProgram(path: try Executables.bench(), directory: directory)
        let keptRuns = try kept.map { try runs(in: $0) } ?? []
        let first = from ?? UInt64.random(in: 1...0xFFFF_FFFF)
        let end = ContinuousClock.now + .seconds(minutes * 60)
        var next = 0
        var summary = SimulationSummary()
        func nextRun() -> SimulationRun? {
            defer { next += 1 }
            if next < keptRuns.count { return keptRuns[next] }
            guard ContinuousClock.now < end, summary.failed == nil else { return nil }
            return SimulationRun(seed: first + UInt64(next - keptRuns.count), days: days, kind: kind)
        }
        try await withThrowingTaskGroup(of: (SimulationRun, SimulationProgram.Result).self) { group in
            func add() {
                guard let run = nextRun() else { return }
                group.addTask { (run, try program.run(run)) }
            }
            for _ in 0..<max(1, jobs) { add() }
            for try await (run, result) in group {
                summary.add(run, result)
                Terminal.print(result.line)
                if result.failure != nil, run.comment != nil { Terminal.print("this seed once found: \(run.comment!)") }
                add()
            }
        }
        Terminal.print(summary.text)
        guard let (run, failure) = summary.failed else { return }
        Terminal.error("seed \(run.seed): \(failure)")
        let shrunk = shrink(run, failure, with: program)
        Terminal.error("see it again: tocsin-bench \(shrunk.arguments.joined(separator: " "))")
        throw ExitCode(1)
    }

    /// - Throws: an error if the file cannot be read, or `ExitCode` after naming a malformed line.
    private func runs(in file: String) throws -> [SimulationRun] {
        let text = try String(contentsOfFile: file, encoding: .utf8)
        return try text.split(separator: "\n").filter { !$0.hasPrefix("#") }.map { line in
            let words = line.split(separator: " ", maxSplits: 2)
            guard words.count == 3, let seed = UInt64(words[0]), let days = Double(words[1]) else {
                throw fail("\(file): not a seed, its days and a comment: \(line)", .failure)
            }
            return SimulationRun(seed: seed, days: days, kind: kind, comment: String(words[2]))
        }
    }

    private var kind: SimulationRun.Kind { attacks ? .attack : .weather(options) }

    /// Removes the faults or actions that the failure does not need (delta debugging: Zeller and Hildebrandt,
    /// "Simplifying and Isolating Failure-Inducing Input").
    private func shrink(_ run: SimulationRun, _ failure: SimulationProgram.Failure, with program: SimulationProgram)
        -> SimulationRun
    {
        let end = ContinuousClock.now + .seconds(shrinkMinutes * 60)
        // Faults after the failure have no influence, and neither has the time after it.
        var needed = Array(1...max(1, failure.faults))
        var shrunk = run
        shrunk.days = min(run.days, failure.days)
        func fails(without removed: Set<Int>) -> Bool {
            guard ContinuousClock.now < end else { return false }
            var candidate = shrunk
            candidate.skipped = Set(1...max(1, failure.faults)).subtracting(needed).union(removed)
            guard let other = try? program.run(candidate).failure else { return false }
            return other.kind == failure.kind
        }
        var parts = 2
        while needed.count > 1, ContinuousClock.now < end {
            let size = max(1, (needed.count + parts - 1) / parts)
            let chunks = stride(from: 0, to: needed.count, by: size).map { needed[$0..<min($0 + size, needed.count)] }
            if let superfluous = chunks.first(where: { fails(without: Set($0)) }) {
                needed.removeAll { superfluous.contains($0) }
                parts = max(2, parts - 1)
                Terminal.print("\(needed.count) \(attacks ? "actions" : "faults") left")
            } else if size == 1 {
                break
            } else {
                parts = min(needed.count, parts * 2)
            }
        }
        shrunk.skipped = Set(1...max(1, failure.faults)).subtracting(needed)
        return shrunk
    }
}

/// One run of `tocsin-bench simulate` or `simulate-attack`.
struct SimulationRun: Sendable {
    enum Kind {
        case weather(WorldOptions)
        case attack
    }

    let seed: UInt64
    var days: Double
    let kind: Kind
    /// What a kept seed once found.
    var comment: String?
    /// The faults or actions to leave out.
    var skipped: Set<Int> = []

    init(seed: UInt64, days: Double, kind: Kind, comment: String? = nil) {
        self.seed = seed
        self.days = days
        self.kind = kind
        self.comment = comment
    }

    var arguments: [String] {
        var arguments: [String]
        switch kind {
        case .attack: arguments = ["simulate-attack"]
        case .weather(let options): arguments = ["simulate", "--days", "\(days)"] + options.arguments
        }
        arguments += ["--seed", "\(seed)"]
        if !skipped.isEmpty { arguments += ["--skip", skipped.sorted().map(String.init).joined(separator: ",")] }
        return arguments
    }
}

/// Runs this program, `tocsin-bench`, in a process of its own for each seed.
struct SimulationProgram: Sendable {
    let path: String
    let directory: String

    /// How a run failed.
    struct Failure: CustomStringConvertible, Equatable {
        let description: String
        /// The number of the last fault or action that had begun; 1,000 if the run reported none.
        let faults: Int
        /// The virtual days within which the failure shows again; 0 for an attacker's program.
        let days: Double

        /// The broken rule without its numbers.
        var kind: String { description.filter { !$0.isNumber } }
    }

    struct Result {
        let line: String
        let failure: Failure?
    }

    func run(_ run: SimulationRun) throws -> Result {
        let errors = "\(directory)/errors-\(UUID().uuidString)"
        defer { unlink(errors) }
        let process = try MeasuredProcess([path] + run.arguments + ["--report"], directory: directory, errors: errors)
        let result = process.wait()
        let lines = result.output.split(separator: "\n").map(String.init)
        let line = lines.first { $0.hasPrefix("seed ") } ?? "seed \(run.seed): no result"
        guard result.status != 0 else { return Result(line: line, failure: nil) }
        let report = lines.last.flatMap { $0.hasPrefix("FAILED ") ? $0.split(separator: " ", maxSplits: 3) : nil }
        guard let report, report.count == 4, let faults = Int(report[1]), let days = Double(report[2]) else {
            let reason =
                switch result.status & 0x7F {
                case 0: "it ended with exit code \(result.status >> 8): \(Self.lastLine(of: errors))"
                case SIGALRM: "a step blocks: no progress in \(BenchSimulate.maximumStep) s"
                case let signal: "it crashed (signal \(signal))"
                }
            return Result(line: line, failure: Failure(description: reason, faults: 1_000, days: run.days))
        }
        return Result(line: line, failure: Failure(description: String(report[3]), faults: faults, days: days))
    }

    private static func lastLine(of file: String) -> String {
        let text = FileManager.default.contents(atPath: file).map { String(decoding: $0, as: UTF8.self) } ?? ""
        return text.split(separator: "\n").last.map(String.init) ?? "no error is told"
    }
}

/// What all runs have found.
private struct SimulationSummary {
    private var runs = 0
    private var days = 0.0
    private(set) var failed: (run: SimulationRun, failure: SimulationProgram.Failure)?
    private let began = ContinuousClock.now

    mutating func add(_ run: SimulationRun, _ result: SimulationProgram.Result) {
        runs += 1
        if case .weather = run.kind { days += run.days }
        if failed == nil, let failure = result.failure { failed = (run, failure) }
    }

    var text: String {
        let seconds = Double((ContinuousClock.now - began).components.seconds)
        let length = days > 0 ? ", \(Terminal.number(days, digits: 1)) virtual days" : ""
        return
            "\(runs) runs\(length) in \(Terminal.number(seconds, digits: 0)) s: "
            + (failed == nil ? "no broken rule" : "a broken rule")
    }
}
