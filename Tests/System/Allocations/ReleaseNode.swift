// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import StandIns
import TNP
import TestSupport
import Testing
import Tor

@testable import tocsin_bench

/// The release build of the node in a process of its own, with stand-ins for Apple and Google in this process. Tests of
/// what a node needs use it, because a debug build needs more.
actor ReleaseNode {
    private nonisolated let loop = EventLoop(name: "services")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    /// The stand-ins.
    nonisolated let services: SimulatedServices
    /// The directory of all files.
    nonisolated let directory: String
    /// Device tokens that Apple's production environment knows.
    nonisolated let deviceTokens: [[UInt8]]
    private var process: MeasuredProcess?

    /// The node's program has not been built.
    struct Missing: Error, CustomStringConvertible {
        let path: String
        var description: String {
            "\(path) does not exist: run swift build -c release --product tocsin, or make test, which does so"
        }
    }

    /// A process did not do what the test needs.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    private init(name: String, devices: Int) {
        directory = URL.temporaryDirectory.appending(path: "tocsin-\(name)-\(UUID().uuidString.prefix(8))").path()
        services = SimulatedServices(SimulatedServices.Options(directory: directory), on: loop)
        deviceTokens = (0..<devices).map { _ in Array(Hex.encode(SecureRandom.bytes(32)).utf8) }
    }

    /// The node's program.
    /// - Throws: ``Missing``.
    private static func program() throws -> String {
        let path = Repository.file(".build/release/tocsin").path()
        guard FileManager.default.isExecutableFile(atPath: path) else { throw Missing(path: path) }
        return path
    }

    /// Starts the stand-ins and the node, runs `body`, kills the node and deletes its files. If `body` throws, the
    /// result of the test contains the node's log.
    /// - Parameters:
    ///   - name: a part of the directory's name.
    ///   - more: further tables of the node's configuration, in TOML.
    ///   - circuitIDs: whether connections begin with a PROXY line that names the circuit, as tor sends it.
    ///   - devices: the number of device tokens.
    ///   - environment: further variables of the node's process, as `NAME=VALUE`.
    static func run(
        _ name: String, more: String = "", circuitIDs: Bool = false, devices: Int = 1,
        environment: (_ directory: String) async throws -> [String] = { _ in [] },
        _ body: (ReleaseNode) async throws -> Void
    ) async throws {
        let program = try program()
        let node = ReleaseNode(name: name, devices: devices)
        do {
            let configuration = try await node.startServices(more: more, circuitIDs: circuitIDs)
            try await node.start([program, "run", "--config", configuration], environment(node.directory))
            try await body(node)
        } catch {
            Issue.record("the node's log:\n\(node.log.suffix(2000))")
            await node.end()
            throw error
        }
        await node.end()
    }

    /// The node's TNP endpoint.
    nonisolated var endpoint: Endpoint { .unix(path: "\(directory)/tnp.sock") }

    /// Starts the stand-ins and writes the node's configuration.
    /// - Returns: the path of the configuration.
    private func startServices(more: String, circuitIDs: Bool) async throws -> String {
        let endpoints = try await services.start()
        await services.setStoresReceived(false)
        for token in deviceTokens {
            await services.set(TestBed.device(.iOS), for: String(decoding: token, as: UTF8.self))
        }
        let configuration = SimulatedConfiguration(
            endpoints: endpoints, tnp: "\(endpoint)", admin: "unix:admin.sock", circuitIDs: circuitIDs,
            logLevel: "notice", additionalTables: more)
        let path = "\(directory)/tocsin.toml"
        try Data(configuration.text.utf8).write(to: URL(filePath: path))
        return path
    }

    /// Starts the node and waits until it listens.
    private func start(_ command: [String], _ environment: [String]) async throws {
        // env replaces itself by the program, so that both have the same pid, and the variables are the program's only.
        process = try MeasuredProcess(
            ["env"] + environment + command, directory: directory, errors: "\(directory)/node.log")
        for _ in 0..<200 {
            if let stream = try? await loop.dial(endpoint, timeout: .seconds(1)) { return stream.close() }
            await loop.sleep(for: .milliseconds(50))
        }
        throw Failure(description: "the node does not listen after 10 s")
    }

    private nonisolated var log: String {
        FileManager.default.contents(atPath: "\(directory)/node.log").map { String(decoding: $0, as: UTF8.self) } ?? ""
    }

    private func end() async {
        process?.stop(by: SIGKILL)
        await services.stop()
        try? FileManager.default.removeItem(atPath: directory)
    }

    // MARK: Figures

    /// The node's resident memory that is not of a file, in bytes, one second after its latest work.
    func anonymousMemory() async throws -> Int {
        await loop.sleep(for: .seconds(1))
        let text = try String(contentsOfFile: "/proc/\(process?.pid ?? 0)/status", encoding: .utf8)
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("RssAnon:") })
        return try #require(line.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) }) * 1024
    }

    /// The number of envelopes in the node without an outcome. The node updates it every second.
    nonisolated func envelopesInFlight() async throws -> Int {
        let (isSuccess, text) = try await ChildProcess.output(
            of: "curl",
            ["-sS", "--max-time", "5", "--unix-socket", "\(directory)/admin.sock", "http://localhost/metrics"],
            timeout: .seconds(10))
        try #require(isSuccess, "\(text)")
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("tocsin_in_flight ") })
        return try #require(line.split(separator: " ").last.flatMap { Int($0) })
    }
}
