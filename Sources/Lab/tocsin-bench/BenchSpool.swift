// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import Delivery
import EventLoop
import FoundationEssentials
import Glibc
import TNP
import Time

struct BenchSpool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "spool", abstract: "Measure how many envelopes per second the spool writes to this disk.",
        discussion: """
            An envelope counts when its transaction is on disk: only then may the node answer QUEUED.

            EXAMPLES
              tocsin-bench spool --directory /var/lib/tocsin
            """)

    @Option(help: "The directory for the spool, which is removed afterwards. Determines the disk to measure.")
    var directory = "."

    @Option(help: "Total number of envelopes.")
    var envelopes = 100_000

    @Option(help: "Number of concurrent store operations.")
    var inFlight = 500

    func run() async throws {
        let place = "\(directory)/tocsin-bench-spool-\(getpid())"
        try FileManager.default.createDirectory(
            atPath: place, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        defer { try? FileManager.default.removeItem(atPath: place) }
        let spool = try Spool(at: "\(place)/spool.sqlite", keyFile: "\(place)/spool.key", maximumBytes: 1 << 32)
        let bench = SpoolLoad(spool)
        let (stored, finished) = await bench.run(envelopes: envelopes, inFlight: inFlight)
        await spool.close()
        Terminal.print("stored, counted when on disk            \(Terminal.number(stored, digits: 0)) per second")
        Terminal.print("removed, outcome kept                   \(Terminal.number(finished, digits: 0)) per second")
    }
}

/// Stores envelopes in a spool and finishes them.
private actor SpoolLoad {
    private nonisolated let loop = EventLoop(name: "spool")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let spool: Spool
    private var source = EnvelopeGenerator([.iOS: [Array(Hex.encode(SecureRandom.bytes(32)).utf8)]])
    private var left = 0
    private var rows: [(id: Int64, digest: Digest256)] = []

    init(_ spool: Spool) { self.spool = spool }

    func run(envelopes: Int, inFlight: Int) async -> (stored: Double, finished: Double) {
        left = envelopes
        let start = MonotonicTime.now
        await withTaskGroup { group in
            for _ in 0..<inFlight { group.addTask(executorPreference: loop) { await self.work() } }
        }
        let middle = MonotonicTime.now
        for row in rows {
            spool.finish(id: row.id, digest: row.digest, outcome: .delivered(), keepUntil: 4_000_000_000)
        }
        while spool.count > 0 { await loop.sleep(for: .milliseconds(5)) }
        let end = MonotonicTime.now
        func rate(_ time: Duration) -> Double { Double(envelopes) / (time.milliseconds / 1000) }
        return (rate(middle - start), rate(end - middle))
    }

    private func work() async {
        while left > 0 {
            left -= 1
            let envelope = source.next(.iOS)
            let spooled = SpooledEnvelope(app: "bisq", format: .pipe, envelope: envelope, expires: 4_000_000_000)
            guard case .stored(let id) = await spool.store(spooled) else { continue }
            rows.append((id, envelope.digest))
        }
    }
}
