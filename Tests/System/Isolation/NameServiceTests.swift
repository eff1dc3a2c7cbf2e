// SPDX-License-Identifier: Apache-2.0

import Foundation
import StandIns
import TNP
import TestSupport
import Testing
import TocsinClient
import Tor

@testable import tocsin_bench

/// The node's resolver: with name servers that fail in a namespace of their own, and with the system's files replaced.
@Suite(.tags(.node)) struct NameServiceTests {
    @Test func `the resolver finds what the system finds`() async throws {
        let directory = URL.temporaryDirectory.appending(path: "tocsin-names-\(UUID().uuidString.prefix(8))").path()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let script = Repository.file("Tests/System/Isolation/name-service.py").path()
        let (isSuccess, text) = try await ChildProcess.output(
            of: "unshare", ["--net", "--mount", "/usr/bin/python3", script, try Executables.tocsin(), directory],
            timeout: .seconds(170))
        #expect(isSuccess, "\(text)")
        var answers: [String: String] = [:]
        for line in text.split(separator: "\n") {
            let fields = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
            guard fields.count == 3 else { continue }
            answers[fields[0]] = fields[1]
            let found = fields[1].contains(" ") ? "" : fields[1]
            #expect(found == fields[2], "\(fields[0]): the system finds something else")
        }
        if !FileManager.default.fileExists(atPath: "/proc/sys/net/ipv6") {
            // A kernel without IPv6.
            answers["scoped name server"] = "192.0.2.2"
        }
        #expect(
            answers == [
                "hosts file": "192.0.2.1", "name server": "192.0.2.2", "silent first name server": "192.0.2.2",
                "closed first name server": "192.0.2.2", "scoped name server": "192.0.2.2",
                "failing search domain": "192.0.2.2", "second search domain": "192.0.2.2",
                "answer over TCP": "192.0.2.3", "unknown name": "unknown Name or service not known",
                "name without an address": "unknown No address associated with hostname",
                "failing name": "failure Temporary failure in name resolution",
            ], "\(text)")
    }

    /// Copies /etc into the stage's directory: a mount namespace shows the copy in place of /etc.
    private func copySettings(to stage: Stage) async throws {
        let (isSuccess, text) = try await ChildProcess.output(of: "cp", ["-a", "/etc", "\(stage.directory)/etc"])
        try #require(isSuccess, "\(text)")
    }

    private func replace(_ name: String, with text: String, on stage: Stage) throws {
        let file = "\(stage.directory)/etc/\(name)"
        try Data(text.utf8).write(to: URL(filePath: "\(file).new"))
        try #require(rename("\(file).new", file) == 0)
    }

    @Test func `a confined node follows the system's files, and replaces its resolver`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        // At `localhost`, which the node looks up.
        let phone = Phone.withWebPush(at: endpoints.webPush, model: "Fairphone 5")
        await stage.services.register(phone)
        try await copySettings(to: stage)
        try replace("nsswitch.conf", with: "hosts: files\n", on: stage)
        try replace("hosts", with: "192.0.2.1 elsewhere.example\n", on: stage)
        let text = stage.configuration(endpoints, more: "[tor]\nmanaged = false")
            .replacing("[node]", with: "[node]\nsandbox = \"kill\"").replacing(
                "log = \"trace\"", with: "log = \"info\"")
        let node = try await NodeProcess(
            text,
            startedBy: [
                "unshare", "--mount", "sh", "-c", "mount --bind \(stage.directory)/etc /etc && exec \"$@\"", "sh",
            ], on: stage)
        let client = stage.client()
        func ring(_ title: String) async throws -> Outcome.Kind {
            let envelope = try stage.envelope(for: phone, title: title)
            var outcome = try await client.submit(envelope, timeout: .seconds(60))
            // The host was unknown before, so the node may pause before it tries it again.
            while outcome.kind == .retry {
                try await Task.sleep(for: .milliseconds(200))
                outcome = try await client.submit(envelope, timeout: .seconds(60))
            }
            return outcome.kind
        }
        #expect(try node.resolvers().isEmpty)
        /// Rings the phone while its host is unknown.
        /// - Returns: the resolver that looked it up.
        func ringInVain(_ title: String) async throws -> Int32 {
            let outcome = try? await client.submit(try stage.envelope(for: phone, title: title), timeout: .seconds(1))
            #expect(outcome?.kind != .delivered)
            return try #require(try node.resolvers().first)
        }
        let lost = try await ringInVain("first")
        kill(lost, SIGKILL)
        try await node.waitForLog("the node's resolver has ended")
        let first = try await ringInVain("second")
        #expect(first != lost)
        // One that hangs does not keep a name that is being looked up from the new files.
        try #require(kill(first, SIGSTOP) == 0)
        async let outcome = ring("known")
        try await Task.sleep(for: .milliseconds(100))
        try replace("hosts", with: "127.0.0.1 localhost\n", on: stage)
        #expect(try await outcome == .delivered)
        try await node.wait("another resolver has taken its place") {
            let present = try node.resolvers()
            return present.count == 1 && present[0] != first
        }
        let last = try node.resolvers()[0]
        await client.close()
        #expect(await node.stop() == 0)
        try await node.wait("no process is left") { kill(last, 0) != 0 }
        await stage.end()
    }
}
