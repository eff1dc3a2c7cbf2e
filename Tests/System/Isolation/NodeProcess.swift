// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Foundation
import Testing

@testable import tocsin_bench

/// A node in processes of its own, started as operators start it, beside the stand-ins of a stage.
final class NodeProcess {
    private let process: MeasuredProcess
    private let stage: Stage
    private let logFile: String

    /// Writes the configuration, starts the node and waits until it listens.
    /// - Parameter prefix: a command that starts the node.
    init(_ configuration: String, startedBy prefix: [String] = [], on stage: Stage) async throws {
        self.stage = stage
        logFile = "\(stage.directory)/node.log"
        let file = "\(stage.directory)/tocsin.toml"
        try Data(configuration.utf8).write(to: URL(filePath: file))
        process = try MeasuredProcess(
            prefix + [try Executables.tocsin(), "run", "--config", file], directory: stage.directory, errors: logFile)
        try await waitForLog("listening")
    }

    /// Starts a node that is expected not to start.
    /// - Returns: its exit status, and what it has logged.
    static func failure(_ configuration: String, startedBy prefix: [String] = [], on stage: Stage) async throws -> (
        status: Int32, log: String
    ) {
        let file = "\(stage.directory)/tocsin.toml"
        let log = "\(stage.directory)/failure.log"
        try? FileManager.default.removeItem(atPath: log)
        try Data(configuration.utf8).write(to: URL(filePath: file))
        let process = try MeasuredProcess(
            prefix + [try Executables.tocsin(), "run", "--config", file], directory: stage.directory, errors: log)
        return (
            await Self.status(of: process) >> 8,
            String(decoding: try Data(contentsOf: URL(filePath: log)), as: UTF8.self)
        )
    }

    /// Waits until a process has ended, as wait4(2) tells it.
    private static func status(of process: MeasuredProcess) async -> Int32 {
        var status: Int32 = 0
        while waitpid(process.pid, &status, WNOHANG) == 0 { try? await Task.sleep(for: .milliseconds(10)) }
        return status
    }

    var pid: Int32 { process.pid }

    /// What the node's processes have logged.
    var log: String {
        FileManager.default.contents(atPath: logFile).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }

    /// The number of lines in the log that contain this text.
    func lines(with text: String) -> Int { log.split(separator: "\n").count { $0.contains(text) } }

    /// Waits until the log has this many lines with this text.
    func waitForLog(_ text: String, count: Int = 1) async throws {
        try await wait("the log has \(count) of: \(text)") { self.lines(with: text) >= count }
    }

    /// Waits until a condition holds.
    func wait(_ what: String, until condition: () throws -> Bool) async throws {
        for _ in 0..<1000 {
            if try condition() { return }
            try await Task.sleep(for: .milliseconds(20))
        }
        Issue.record("not after 20 s: \(what)\n\(log.suffix(3000))")
        throw CancellationError()
    }

    /// The node's processes with this second word in their command lines.
    func processes(_ word: String) throws -> [Int32] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc").compactMap { Int32($0) }.filter { pid in
            guard let line = FileManager.default.contents(atPath: "/proc/\(pid)/cmdline") else { return false }
            let words = line.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
            return words.count == 3 && words[1] == word && words[2].hasPrefix(stage.directory)
        }
    }

    /// The node's resolvers, which no file tells from another node's.
    func resolvers() throws -> [Int32] {
        try processes("supervisor").flatMap { try Self.children(of: $0) }.map(\.pid).filter { pid in
            FileManager.default.contents(atPath: "/proc/\(pid)/cmdline")?.split(separator: 0).dropFirst().first
                .map { String(decoding: $0, as: UTF8.self) } == "resolver"
        }
    }

    /// The processes whose parent is this one, with their states as in proc(5).
    static func children(of parent: Int32) throws -> [(pid: Int32, state: String)] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc").compactMap { Int32($0) }.compactMap { pid in
            // The name in parentheses may hold anything.
            guard let text = FileManager.default.contents(atPath: "/proc/\(pid)/stat"),
                let fields = String(decoding: text, as: UTF8.self).split(separator: ")").last?.split(separator: " "),
                fields.count > 1, Int32(fields[1]) == parent
            else { return nil }
            return (pid, String(fields[0]))
        }
    }

    /// Waits until the node, started by another command, has ended.
    /// - Returns: the exit status of that command.
    func end() async -> Int32 { await Self.status(of: process) }

    /// Sends a signal to the node.
    func signal(_ signal: Int32) { kill(process.pid, signal) }

    /// Stops the node.
    /// - Returns: its exit status.
    func stop() async -> Int32 {
        kill(process.pid, SIGTERM)
        return await Self.status(of: process)
    }
}
