// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Foundation
import StandIns
import TNP
import TestSupport
import Testing
import Tor

/// `tocsin check` and `tocsin run` judge a node alike, whatever is damaged.
@Suite(.tags(.node)) struct StartRehearsalTests {
    /// A node that has run once, so that all its stores exist.
    private func withNode(_ body: (_ stage: Stage, _ text: String) async throws -> Void) async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let phone = await stage.phone(.iOS)
        try write("phone", phone.pairingToken, on: stage)
        try write("cluster.key", String(repeating: "k", count: 32), on: stage)
        try write("cluster.password", "secret", on: stage)
        let text = stage.configuration(
            endpoints,
            more: """
                [tor]
                managed = false
                [spool]
                enabled = true
                [handles]
                enabled = true
                [canary]
                phone_file = "phone"
                """)
        try await stage.startNode(text)
        _ = await stage.stopNode()
        try await body(stage, text)
        await stage.end()
    }

    private func write(_ name: String, _ text: String, on stage: Stage) throws {
        let file = "\(stage.directory)/\(name)"
        try Data(text.utf8).write(to: URL(filePath: file))
        try #require(chmod(file, 0o600) == 0)
    }

    /// The exit code of a command.
    private func run(_ command: String, _ file: String, limit: Int = 60) async throws -> (code: Int, text: String) {
        let (_, text) = try await ChildProcess.output(
            of: "bash",
            ["-c", "timeout --signal TERM \(limit) \(Program.path) \(command) --config \(file); echo \"code $?\""])
        let code = text.split(separator: "\n").first { $0.hasPrefix("code ") }.flatMap { Int($0.dropFirst(5)) }
        return (try #require(code), text)
    }

    /// Everything in a directory, with modes, but for SQLite's own files.
    private func listing(_ directory: String) throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: directory).filter {
            !$0.hasSuffix("-wal") && !$0.hasSuffix("-shm")
        }.map { name in
            let attributes = try FileManager.default.attributesOfItem(atPath: "\(directory)/\(name)")
            return "\(name) \(attributes[.posixPermissions] ?? "")"
        }
    }

    @Test func `what stops a start is found by the check, and what passes starts`() async throws {
        try await withNode { stage, text in
            let (directory, file) = (stage.directory, "\(stage.directory)/tocsin.toml")
            let cluster = """
                [cluster]
                nodes = 2
                redis = "127.0.0.1:1"
                key_file = "cluster.key"
                user = "node"
                password_file = "cluster.password"

                """
            /// What is damaged, how, and the configuration.
            let cases: [(name: String, damage: String, text: String)] = [
                ("nothing", "true", text), ("the spool's key is short", "echo x > state/spool.key", text),
                ("the spool's key is open", "chmod 644 state/spool.key", text),
                ("the standing's key is short", "echo x > state/standing.key", text),
                ("the standing's key is a directory", "rm state/standing.key; mkdir state/standing.key", text),
                ("the handles' key is short", "echo x > state/handles.key", text),
                ("the spool is no database", "echo x > state/spool.sqlite", text),
                ("the standing is no database", "echo x > state/standing.sqlite", text),
                ("the key of Web Push is empty", ": > state/vapid.pem", text),
                ("the trust file is empty", ": > ca.pem", text), ("the trust file is gone", "rm ca.pem", text),
                ("the canary's phone is open", "chmod 644 phone", text),
                ("the canary's phone is none", "echo x > phone", text),
                (
                    "the socket's directory is missing", "true",
                    text.replacing("unix:tnp.sock", with: "unix:none/tnp.sock")
                ),
                (
                    "the socket's path is long", "true",
                    text.replacing("unix:tnp.sock", with: "unix:\(String(repeating: "x", count: 110))")
                ),
                ("the socket's path is a file", "echo x > tnp.sock", text),
                ("a path begins with ~", "true", text.replacing("\"ca.pem\"", with: "\"~/ca.pem\"")),
                ("the cluster's key is short", "echo x > cluster.key", text + cluster),
                ("the cluster's key is open", "chmod 644 cluster.key", text + cluster),
                ("the cluster's password is gone", "rm cluster.password", text + cluster),
                ("a cluster whose engine is gone", "true", text + cluster),
            ]
            var stopped = 0
            for (name, damage, text) in cases {
                let save = try await ChildProcess.output(
                    of: "bash",
                    [
                        "-c",
                        "cd \(directory) && rm -rf ../\(stage.directory.split(separator: "/").last!).saved && cp -a . ../\(stage.directory.split(separator: "/").last!).saved && \(damage)",
                    ])
                #expect(save.isSuccess, "\(save.text)")
                try Data(text.utf8).write(to: URL(filePath: file))
                let before = try listing("\(directory)/state")
                let check = try await run("check", file)
                let changed = Set(try listing("\(directory)/state")).symmetricDifference(before)
                #expect(changed.isEmpty, "\(name): the check has changed the state directory")
                // A node that starts is ended by the signal.
                let start = try await run("run", file, limit: 2)
                let starts = start.code == 124 || start.code == 0
                stopped += starts ? 0 : 1
                #expect((check.code == 0) == starts, "\(name)\ncheck: \(check)\nrun: \(start)")
                let restore = try await ChildProcess.output(
                    of: "bash",
                    [
                        "-c",
                        "cd \(directory) && find . -mindepth 1 -delete; cp -a ../\(stage.directory.split(separator: "/").last!).saved/. .",
                    ])
                #expect(restore.isSuccess, "\(restore.text)")
            }
            #expect(stopped > 12)
            try? FileManager.default.removeItem(atPath: "\(directory).saved")
        }
    }

    @Test
    func `a check before the first start leaves nothing behind, and one beside a running node does not disturb it`()
        async throws
    {
        try await withNode { stage, text in
            let (directory, file) = (stage.directory, "\(stage.directory)/tocsin.toml")
            try FileManager.default.removeItem(atPath: "\(directory)/state")
            let first = try await run("check", file)
            #expect(first.code == 0 && first.text.contains("starts, up to its sockets"), "\(first)")
            #expect(!FileManager.default.fileExists(atPath: "\(directory)/state"))
            try await stage.startNode(text)
            let second = try await run("check", file)
            #expect(second.code == 0 && !second.text.contains("up to its sockets"), "\(second)")
            #expect(await stage.stopNode())
        }
    }

    @Test func `a check before the first start takes no address from a node that starts`() async throws {
        try await withNode { stage, text in
            let (directory, file) = (stage.directory, "\(stage.directory)/tocsin.toml")
            try FileManager.default.removeItem(atPath: "\(directory)/state")
            let endpoint = try PortReservations().endpoint()
            try Data(text.replacing("unix:tnp.sock", with: "\(endpoint)").utf8).write(to: URL(filePath: file))
            let domain = LoopDomain(EventLoop(name: "test"))
            let failures = Task {
                var failures = 0
                while !Task.isCancelled {
                    failures += await domain.listens(at: endpoint) ? 0 : 1
                    try? await Task.sleep(for: .milliseconds(1))
                }
                return failures
            }
            for _ in 0..<3 { _ = try await run("check", file) }
            failures.cancel()
            #expect(await failures.value == 0)
        }
    }
}

extension LoopDomain {
    /// Listens for a moment, as a node that starts; says whether it could.
    fileprivate func listens(at endpoint: Endpoint) -> Bool {
        guard let listener = try? Listener(endpoint, on: loop, accepted: { $0.close() }) else { return false }
        listener.close()
        return true
    }
}
