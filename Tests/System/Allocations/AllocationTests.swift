// SPDX-License-Identifier: Apache-2.0

import Foundation
import StandIns
import TestSupport
import Testing
import Tor

/// The allocations of memory that a node makes, counted exactly: by `counter.c`, which is loaded into its process.
@Suite(.tags(.released)) struct AllocationTests {
    /// Whom envelopes are for, and the largest means for an envelope, from SUBMIT to its outcome.
    struct Bounds: CustomTestStringConvertible {
        let phones: String
        let devices: Int
        let allocations: Double
        let bytes: Double

        var testDescription: String { phones }

        /// Almost all envelopes are for phones that a push service has accepted before.
        static let known = Bounds(phones: "known phones", devices: uncounted, allocations: 8, bytes: 2560)
        /// Each envelope is the first for its phone, so that the node also stores what it learns about the phone.
        static let new = Bounds(phones: "new phones", devices: uncounted + counted, allocations: 8, bytes: 4608)
    }

    /// Envelopes before the count, which open the connections and fill caches.
    private static let uncounted = 2000
    /// Envelopes that count: enough that the rare growth of tables, averaged over them, is small.
    private static let counted = 20_000
    private static let connections = 10
    private static let inFlightPerConnection = 20

    @Test(arguments: [Bounds.known, .new])
    func `an envelope costs no more allocations than its bound`(_ bounds: Bounds) async throws {
        try await ReleaseNode.run(
            "allocations", more: SimulatedConfiguration.unlimitedRates, devices: bounds.devices,
            environment: { directory in
                ["LD_PRELOAD=\(try await AllocationCounter.library(in: directory))"]
                    + ["\(AllocationCounter.variable)=\(directory)/allocations"]
            }
        ) { node in
            let senders = Senders(Self.connections, to: node)
            try await senders.deliver(Self.uncounted, inFlight: Self.inFlightPerConnection)
            let before = try AllocationCounter(ofFile: "\(node.directory)/allocations")
            try await senders.deliver(Self.counted, inFlight: Self.inFlightPerConnection)
            let after = try AllocationCounter(ofFile: "\(node.directory)/allocations")
            await senders.close()
            // A node makes thousands before its first envelope, unless the counter does not see them.
            try #require(before.calls > 1000, "the node's allocations are not counted: is its allocator static?")
            let calls = Double(after.calls - before.calls) / Double(Self.counted)
            let bytes = Double(after.bytes - before.bytes) / Double(Self.counted)
            let figures = String(format: "%.2f allocations and %.0f bytes an envelope", calls, bytes)
            print("measured: \(figures) for \(bounds.phones)")
            #expect(
                calls <= bounds.allocations && bytes <= bounds.bytes,
                "\(figures) for \(bounds.phones); at most \(bounds.allocations) and \(bounds.bytes)")
        }
    }

    /// A program that makes as many rounds of allocations as its argument says.
    private static let program = """
        #include <malloc.h>
        #include <stdlib.h>
        int main(int count, char **arguments) {
            for (int round = count > 1 ? atoi(arguments[1]) : 0; round > 0; round--) {
                void *volatile kept = malloc(1);
                kept = realloc(kept, 20);
                kept = calloc(3, 100);
                kept = memalign(64, 4000);
                kept = aligned_alloc(64, 50048);
                if (posix_memalign((void **)&kept, 64, 600000)) return 1;
                free(kept);
            }
        }
        """

    @Test func `the counter counts each allocation once, with its size`() async throws {
        let directory = URL.temporaryDirectory.appending(path: "tocsin-counter-\(UUID().uuidString.prefix(8))").path()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let library = try await AllocationCounter.library(in: directory)
        try Data(Self.program.utf8).write(to: URL(filePath: "\(directory)/program.c"))
        try await AllocationCounter.compile(["-O0", "-o", "\(directory)/program", "\(directory)/program.c"])
        func count(rounds: Int) async throws -> AllocationCounter {
            let file = "\(directory)/\(rounds)"
            let (isSuccess, text) = try await ChildProcess.output(
                of: "env",
                [
                    "LD_PRELOAD=\(library)", "\(AllocationCounter.variable)=\(file)", "\(directory)/program",
                    "\(rounds)",
                ],
                timeout: .seconds(30))
            try #require(isSuccess, "\(text)")
            return try AllocationCounter(ofFile: file)
        }
        let (none, some) = (try await count(rounds: 0), try await count(rounds: 1000))
        #expect(some.calls - none.calls == 6 * 1000)
        #expect(some.bytes - none.bytes == (1 + 20 + 300 + 4000 + 50_048 + 600_000) * 1000)
    }
}

/// The counters that `counter.c` keeps in a file.
struct AllocationCounter {
    let calls: UInt64
    let bytes: UInt64

    /// The environment variable that names the file.
    static let variable = "ALLOCATION_COUNTER"

    /// Reads the counters, also while the program runs.
    init(ofFile path: String) throws {
        let data = try Data(contentsOf: URL(filePath: path))
        try #require(data.count == 16, "\(path) has no counters")
        (calls, bytes) = data.withUnsafeBytes {
            ($0.loadUnaligned(as: UInt64.self), $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
        }
    }

    /// Compiles the counter.
    /// - Returns: the path of the library, for LD_PRELOAD.
    static func library(in directory: String) async throws -> String {
        let source = Repository.file("Tests/System/Allocations/counter.c").path()
        try await compile(["-O2", "-shared", "-fPIC", "-o", "\(directory)/counter.so", source])
        return "\(directory)/counter.so"
    }

    /// Runs the C compiler of the Swift toolchain, or else that of the system.
    static func compile(_ arguments: [String]) async throws {
        var reasons: [String] = []
        for compiler in ["clang", "cc"] {
            do {
                let (isSuccess, text) = try await ChildProcess.output(
                    of: compiler, arguments, timeout: .seconds(120))
                if isSuccess { return }
                reasons.append("\(compiler): \(text)")
            } catch {
                reasons.append("\(compiler): \(error)")
            }
        }
        throw ReleaseNode.Failure(description: "no C compiler worked: \(reasons.joined(separator: "\n"))")
    }
}
