// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Foundation
import Store
import TestSupport
import Testing
import Time
import World

@testable import StandIns
@testable import Tor
@testable import tocsin_bench

/// What a simulation stands on. Code that uses the simulated clock, random bytes and disk runs in a process of its own,
/// because these replace the process's.
@Suite(.tags(.extended)) struct SimulationTests {
    /// Runs a simulation and returns the last line: the hash of all events.
    private func hash(_ arguments: String...) async throws -> String {
        let (isSuccess, text) = try await ChildProcess.output(
            of: Program.bench, ["simulate", "--days", "0.02"] + arguments)
        #expect(isSuccess, "\(text)")
        return String(try #require(text.split(separator: "\n").last))
    }

    @Test func `the same seed gives the same run, and another seed another one`() async throws {
        let first = try await hash("--seed", "1")
        #expect(first.contains("trace "))
        #expect(try await hash("--seed", "1") == first)
        #expect(try await hash("--seed", "2") != first)
    }

    @Test func `a plan depends on its seed only, and has hours with attacks only`() async {
        await #expect(processExitsWith: .success) {
            let simulation = Simulation(seed: 3)
            func plan() -> [WeatherEvent] {
                var random = simulation.random("weather")
                return WeatherEvent.plan(
                    over: .seconds(172_800), of: WeatherEvent.Kind.ofNode, calm: .seconds(300), using: &random)
            }
            let events = plan()
            precondition(events.map(\.description) == plan().map(\.description))
            precondition(events.map(\.number) == Array(1...events.count) && events.count > 300)
            for event in events where WeatherEvent.boundsWaits(at: event.start + event.length) {
                precondition(WeatherEvent.Kind.attacks.contains(event.kind), "\(event)")
            }
        }
    }

    @Test func `the frames of HTTP/2 are found in pieces of any size`() {
        func frame(_ kind: UInt8, _ flags: UInt8, _ stream: UInt8, _ length: Int) -> [UInt8] {
            [0, UInt8(length >> 8), UInt8(length & 255), kind, flags, 0, 0, 0, stream]
                + [UInt8](repeating: 9, count: length)
        }
        let bytes = [UInt8](repeating: 1, count: 24) + frame(4, 0, 0, 0) + frame(1, 5, 3, 300) + frame(3, 0, 5, 4)
        for size in [1, 2, 9, 100, bytes.count] {
            var scanner = FrameScanner(skipping: 24)
            var found: [FrameScanner.Frame] = []
            for start in stride(from: 0, to: bytes.count, by: size) {
                found += scanner.scan(Array(bytes[start..<min(start + size, bytes.count)]))
            }
            #expect(found.map(\.type) == [4, 1, 3])
            #expect(found.map(\.flags) == [0, 5, 0])
            #expect(found.map(\.stream) == [0, 3, 5])
        }
    }

    @Test func `a power failure keeps what was flushed, and a database that opens`() async {
        await #expect(processExitsWith: .success) {
            for seed in 1...20 as ClosedRange<UInt64> {
                let simulation = Simulation(seed: seed)
                let disk = SimulatedDisk(in: simulation)
                var last: Int64 = 0
                func open() throws -> Connection {
                    let connection = try Connection("test.sqlite")
                    try connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
                    try connection.execute("CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, x BLOB)")
                    return connection
                }
                do {
                    for _ in 0..<5 {
                        let process = simulation.process("writer")
                        try simulation.run(as: process) {
                            let connection = try open()
                            let found = try connection.first("SELECT COALESCE(MAX(n), 0) FROM t") { $0.integer(0) }
                            precondition(found == last, "seed \(seed): \(last) was committed, \(found ?? -1) is there")
                            for _ in 0..<40 {
                                last += 1
                                try connection.run("INSERT INTO t VALUES (?, randomblob(700))", [last])
                            }
                            try? connection.transaction {
                                try connection.run("INSERT INTO t VALUES (?, randomblob(70000))", [last + 1])
                                throw POSIXError(.EINTR)
                            }
                            simulation.cutPower(of: process)
                            disk.powerFailed()
                        }
                    }
                } catch { preconditionFailure("seed \(seed): \(error)") }
            }
        }
    }

    @Test func `a full disk and a broken disk refuse writes, and lose nothing`() async {
        await #expect(processExitsWith: .success) {
            let simulation = Simulation(seed: 1)
            let disk = SimulatedDisk(in: simulation)
            do {
                let connection = try Connection("test.sqlite")
                try connection.execute("PRAGMA synchronous = FULL; CREATE TABLE t (n INTEGER PRIMARY KEY, x BLOB)")
                try connection.run("INSERT INTO t VALUES (1, randomblob(700))", [])
                disk.size = disk.used
                precondition(disk.free == 0 && !disk.isInOrder)
                let full: Void? = try? connection.run("INSERT INTO t VALUES (2, randomblob(70000))", [])
                precondition(full == nil, "a full disk has taken a row")
                disk.size = 1 << 30
                disk.isBroken = true
                let broken: Void? = try? connection.run("INSERT INTO t VALUES (3, randomblob(700))", [])
                precondition(broken == nil, "a broken disk has taken a row")
                disk.isBroken = false
                try connection.run("INSERT INTO t VALUES (4, randomblob(700))", [])
                let rows = try connection.all("SELECT n FROM t ORDER BY n") { $0.integer(0) }
                precondition(rows == [1, 4], "\(rows)")
            } catch { preconditionFailure("\(error)") }
        }
    }

    @Test func `a simulated connection keeps the order of bytes, and ends as a real one does`() async {
        await #expect(processExitsWith: .success) {
            let simulation = Simulation(seed: 5)
            let endpoint = Endpoint.tcp(host: "a.test", port: 1)
            simulation.network.conditions[endpoint] = SimulatedNetwork.Conditions(
                latency: .milliseconds(1)...(.seconds(2)), splitPerMille: 500)
            let (server, client) = (simulation.process("server"), simulation.process("client"))
            let (serverLoop, clientLoop) = (
                simulation.loop(in: server, name: "s"), simulation.loop(in: client, name: "c")
            )
            let (heard, answered) = (Recorder(), Recorder())
            do {
                let listener = try simulation.run(as: server) {
                    try Listener(endpoint, on: serverLoop) { stream in heard.record(stream) }
                }
                simulation.run(as: client) {
                    _ = Task(executorPreference: clientLoop) {
                        guard let stream = try? await clientLoop.dial(endpoint, timeout: .seconds(20)) else { return }
                        answered.record(stream)
                        for number in 0..<200 as Range<UInt8> { stream.write([number, number]) }
                    }
                }
                simulation.run(for: .seconds(600))
                precondition(
                    heard.bytes == (0..<200 as Range<UInt8>).flatMap { [$0, $0] }, "\(heard.bytes.count) bytes")
                precondition(heard.end == nil && answered.end == nil)
                // A power failure is silent, until the other side sends and its system gives up.
                simulation.cutPower(of: server)
                simulation.run(for: .seconds(3600))
                precondition(answered.end == nil)
                simulation.run(as: client) { answered.stream?.write([1]) }
                simulation.run(for: .seconds(3600))
                precondition(answered.end == .system("Connection timed out"), "\(String(describing: answered.end))")
                _ = listener
            } catch { preconditionFailure("\(error)") }
        }
    }

    @Test func `a kill ends the connections of a process, and nothing of it runs again`() async {
        await #expect(processExitsWith: .success) {
            let simulation = Simulation(seed: 6)
            let endpoint = Endpoint.tcp(host: "a.test", port: 1)
            let (server, client) = (simulation.process("server"), simulation.process("client"))
            let (serverLoop, clientLoop) = (
                simulation.loop(in: server, name: "s"), simulation.loop(in: client, name: "c")
            )
            let (heard, answered) = (Recorder(), Recorder())
            var ticks = 0
            do {
                let listener = try simulation.run(as: server) {
                    try Listener(endpoint, on: serverLoop) { stream in heard.record(stream) }
                }
                simulation.schedule(after: .seconds(100), in: server) { ticks += 1 }
                simulation.run(as: client) {
                    _ = Task(executorPreference: clientLoop) {
                        if let stream = try? await clientLoop.dial(endpoint, timeout: .seconds(20)) {
                            answered.record(stream)
                        }
                    }
                }
                simulation.run(for: .seconds(10))
                precondition(answered.stream != nil && answered.end == nil)
                // The second write is the last that has an effect.
                server.atOperation = { simulation.kill(server) }
                server.operationsLeft = 1
                simulation.run(as: server) {
                    heard.stream?.write([1])
                    heard.stream?.write([2])
                    heard.stream?.write([3])
                }
                simulation.run(for: .seconds(200))
                precondition(answered.bytes == [1] && answered.end != nil && ticks == 0)
                _ = listener
            } catch { preconditionFailure("\(error)") }
        }
    }
}

/// Records what a stream receives.
private final class Recorder: ByteStreamHandler, @unchecked Sendable {
    // Unchecked: a simulation has one thread.
    private(set) var stream: ByteStream?
    private(set) var bytes: [UInt8] = []
    private(set) var end: StreamError?

    func record(_ stream: ByteStream) {
        self.stream = stream
        stream.handler = self
        stream.resumeReading()
    }

    func stream(_ stream: ByteStream, received bytes: RawSpan) {
        self.bytes += bytes.withUnsafeBytes { Array($0) }
    }
    func stream(_ stream: ByteStream, ended reason: StreamError) { end = reason }
}
