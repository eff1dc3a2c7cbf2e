// SPDX-License-Identifier: Apache-2.0

import Confinement
import Cryptography
import EventLoop
import Foundation
import StandIns
import TNP
import TestSupport
import Testing
import TocsinClient
import Tor

@testable import NodeConfiguration
@testable import tocsin_bench

/// The node's processes: the node, its supervisor and its key holder. Every system call that the sandbox does not allow
/// ends the process in these tests, except in those of attackers.
@Suite(.tags(.node)) struct IsolationTests {
    private static let certificate = """
        certificate_file = "apns.p12"
        certificate_password_file = "apns.p12.password"
        """

    private func configuration(
        _ stage: Stage, _ endpoints: SimulatedServices.Endpoints, node: String = "sandbox = \"kill\"",
        credential: String? = nil, more: String = ""
    ) -> String {
        stage.configuration(endpoints, credential: credential, more: "[tor]\nmanaged = false\n\(more)")
            .replacing("[node]", with: "[node]\n\(node)").replacing("log = \"trace\"", with: "log = \"info\"")
    }

    private func rewrite(_ name: String, with bytes: [UInt8], on stage: Stage) throws {
        let file = "\(stage.directory)/\(name)"
        try Data(bytes).write(to: URL(filePath: "\(file).new"))
        try #require(chmod("\(file).new", 0o600) == 0 && rename("\(file).new", file) == 0)
    }

    private func phones(_ stage: Stage, _ endpoints: SimulatedServices.Endpoints) async throws -> [Phone] {
        let phones = [
            Phone.new(.iOS, model: "iPhone 15"), Phone.new(.iOSDev, model: "iPhone 12"),
            Phone.new(.android, model: "Pixel 8"),
            Phone.withWebPush(at: endpoints.webPush, model: "Fairphone 5"),
        ]
        for phone in phones { await stage.services.register(phone) }
        return phones
    }

    /// Rings each phone once, in a new connection.
    private func ring(_ phones: [Phone], on stage: Stage, _ title: String) async throws {
        let client = stage.client()
        for phone in phones {
            let outcome = try await client.submit(
                try stage.envelope(for: phone, title: title), timeout: .seconds(60))
            #expect(outcome.kind == .delivered, "\(phone.magic): \(outcome)")
        }
        await client.close()
    }

    @Test func `a confined node delivers to all push services, reloads, and stops`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let phones = try await phones(stage, endpoints)
        let text = configuration(
            stage, endpoints, more: "[spool]\nenabled = true\n[handles]\nenabled = true")
        let node = try await NodeProcess(text, on: stage)
        try await ring(phones, on: stage, "first")
        // Each file by rename, as editors and certbot replace files.
        try rewrite("tocsin.toml", with: Array(text.replacing("New notification", with: "Changed").utf8), on: stage)
        try rewrite("ca.pem", with: Array(try Data(contentsOf: URL(filePath: "\(stage.directory)/ca.pem"))), on: stage)
        node.signal(SIGHUP)
        try await node.waitForLog("configuration reloaded")
        try await ring(phones, on: stage, "second")
        try rewrite("tocsin.toml", with: Array("nonsense".utf8), on: stage)
        node.signal(SIGHUP)
        try await node.waitForLog("the new configuration is invalid; the node keeps the old one")
        try await ring(phones, on: stage, "third")
        #expect(node.lines(with: "provider token issued") == 1)
        #expect(node.lines(with: "assertion for Google issued") == 1)
        #expect(await node.stop() == 0)
        // The others end with it.
        try await node.wait("no process is left") {
            try node.processes("supervisor").isEmpty && node.processes("key-holder").isEmpty
        }
        await stage.end()
    }

    @Test(arguments: CertificateAuthority.KeyKind.allCases)
    func `a key holder signs TLS connections with a certificate`(_ kind: CertificateAuthority.KeyKind) async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start(certificateKey: kind)
        let phones = try await phones(stage, endpoints).filter { $0.magic == .iOS }
        let node = try await NodeProcess(configuration(stage, endpoints, credential: Self.certificate), on: stage)
        try await ring(phones, on: stage, "certified")
        #expect(node.lines(with: "TLS connection to Apple signed") >= 1)
        #expect(await node.stop() == 0)
        await stage.end()
    }

    @Test func `a lost key holder is replaced, and issues no second provider token`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let phones = try await phones(stage, endpoints)
        let text = configuration(stage, endpoints).replacing("[listen]", with: "[listen]\nadmin = \"unix:admin.sock\"")
        let node = try await NodeProcess(text, on: stage)
        try await ring(phones, on: stage, "first")
        let first = try #require(try node.processes("key-holder").first)
        kill(first, SIGKILL)
        try await node.waitForLog("the key holder is lost")
        try await node.waitForLog("another key holder has started")
        let second = try #require(try node.processes("key-holder").first)
        #expect(second != first)
        // A key that stays the same, and its provider token: without the file, the node has to ask the new key holder.
        try FileManager.default.removeItem(
            atPath: "\(stage.directory)/state/apns-\(SimulatedServices.teamID)-\(SimulatedServices.keyID).token")
        try rewrite(
            "apns.p8", with: Array(try Data(contentsOf: URL(filePath: "\(stage.directory)/apns.p8"))) + [10], on: stage)
        node.signal(SIGHUP)
        try await node.waitForLog("configuration reloaded")
        try await ring(phones, on: stage, "second")
        #expect(node.lines(with: "provider token issued") == 1)
        let metrics = try await adminText("/metrics", on: stage)
        #expect(metrics.contains("tocsin_key_holder_losses_total 1"))
        // While it is stopped, a request ends after a second, and the node asks another one.
        let third = try #require(try node.processes("key-holder").first)
        kill(third, SIGSTOP)
        try rewrite("apns.p8", with: SigningKey.generate(.es256).pem, on: stage)
        node.signal(SIGHUP)
        try await node.waitForLog("configuration reloaded", count: 2)
        kill(third, SIGKILL)
        // Until another one runs, the node is not ready.
        #expect(try await adminText("/readyz", on: stage).hasPrefix(#"{"ready":true}"#))
        let supervisor = try #require(try node.processes("supervisor").first)
        kill(supervisor, SIGSTOP)
        for pid in try node.processes("key-holder") { kill(pid, SIGKILL) }
        try await node.waitForLog("the key holder is lost", count: 2)
        #expect(try await adminText("/readyz", on: stage).contains("keys of Apple and Google"))
        kill(supervisor, SIGCONT)
        #expect(await node.stop() == 0)
        await stage.end()
    }

    @Test func `nobody who reads the log, or stops to, or never did, holds up the node`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let phones = try await phones(stage, endpoints)
        let log = "\(stage.directory)/node.log"
        try #require(mkfifo(log, 0o600) == 0)
        let reader = open(log, O_RDWR | O_NONBLOCK)
        try #require(reader >= 0)
        func read() -> String {
            var bytes = [UInt8](repeating: 0, count: 8192)
            let count = Glibc.read(reader, &bytes, bytes.count)
            return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
        }
        // At this level each reload and each delivery has a line at once.
        let text = configuration(stage, endpoints).replacing("[listen]", with: "[listen]\nadmin = \"unix:admin.sock\"")
            .replacing("log = \"info\"", with: "log = \"debug\"")
        try Data(text.utf8).write(to: URL(filePath: "\(stage.directory)/tocsin.toml"))
        let process = try MeasuredProcess(
            [try Executables.tocsin(), "run", "--config", "\(stage.directory)/tocsin.toml"], directory: stage.directory,
            errors: log)
        var lines = ""
        for _ in 0..<1000 where !lines.contains("listening") {
            lines += read()
            try await Task.sleep(for: .milliseconds(20))
        }
        try #require(lines.contains("listening"))
        let page = [UInt8](repeating: UInt8(ascii: "."), count: 4096)
        while write(reader, page, page.count) > 0 {}
        kill(process.pid, SIGHUP)
        try await ring(phones, on: stage, "nobody reads")
        lines = ""
        for _ in 0..<1000 where !lines.contains("lines of the log are missing here") {
            kill(process.pid, SIGHUP)
            try await Task.sleep(for: .milliseconds(20))
            lines += read()
        }
        #expect(lines.contains("lines of the log are missing here"))
        close(reader)
        kill(process.pid, SIGHUP)
        try await ring(phones, on: stage, "the reader is gone")
        let readiness = try await adminText("/readyz", on: stage)
        #expect(readiness.hasPrefix(#"{"ready":true}"#))
        process.stop()
        await stage.end()
    }

    @Test func `the node's processes ignore a closed pipe, and have no socket in place of a missing descriptor`()
        async throws
    {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let phones = try await phones(stage, endpoints)
        try Data(configuration(stage, endpoints).utf8).write(to: URL(filePath: "\(stage.directory)/tocsin.toml"))
        let process = try MeasuredProcess(
            [
                "/bin/sh", "-c",
                "exec \(try Executables.tocsin()) run --config \(stage.directory)/tocsin.toml 0<&- 1>&- 2>&-",
            ], directory: stage.directory)
        try await ring(phones, on: stage, "without descriptors")
        let children = try String(
            contentsOfFile: "/proc/\(process.pid)/task/\(process.pid)/children", encoding: .utf8)
        let supervisor = try #require(Int32(children.split(separator: " ").first ?? ""))
        let holder = try #require(
            Int32(
                try String(contentsOfFile: "/proc/\(supervisor)/task/\(supervisor)/children", encoding: .utf8)
                    .split(separator: " ").first ?? ""))
        for pid in [process.pid, supervisor, holder] {
            for descriptor in 0...2 {
                let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(pid)/fd/\(descriptor)")
                if let target { #expect(target == "/dev/null", "\(descriptor)") }
            }
            let status = try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
            let ignored = status.split(separator: "\n").first { $0.hasPrefix("SigIgn:") }
            let mask = try #require(UInt64(ignored?.split(separator: "\t").last ?? "", radix: 16))
            #expect(mask & 1 << (UInt64(SIGPIPE) - 1) != 0)
        }
        process.stop()
        await stage.end()
    }

    @Test func `the node delivers while it waits for a key holder`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let phones = try await phones(stage, endpoints)
        let node = try await NodeProcess(
            configuration(stage, endpoints).replacing("log = \"info\"", with: "log = \"debug\""), on: stage)
        try await ring(phones, on: stage, "first")
        let supervisor = try #require(try node.processes("supervisor").first)
        // The supervisor starts no key holder until it goes on, and the node waits for one.
        kill(supervisor, SIGSTOP)
        node.signal(SIGHUP)
        try await node.waitForLog("a new key holder reads the configuration")
        node.signal(SIGHUP)
        try await ring(phones, on: stage, "second")
        #expect(node.lines(with: "the key holder does not answer") == 0)
        kill(supervisor, SIGCONT)
        // The second signal came during the reload for the first.
        try await node.waitForLog("configuration reloaded", count: 2)
        try await ring(phones, on: stage, "third")
        #expect(await node.stop() == 0)
        await stage.end()
    }

    @Test func `the node works without a key holder and without a sandbox`() async throws {
        for settings in ["key_holder = false\nsandbox = \"kill\"", "key_holder = false\nsandbox = \"off\""] {
            let stage = Stage()
            let endpoints = try await stage.services.start()
            let phones = try await phones(stage, endpoints)
            let text = configuration(stage, endpoints, node: settings)
            let node = try await NodeProcess(text, on: stage)
            try await ring(phones, on: stage, "first")
            try rewrite("tocsin.toml", with: Array(text.replacing("New notification", with: "Changed").utf8), on: stage)
            node.signal(SIGHUP)
            try await node.waitForLog("configuration reloaded")
            try await ring(phones, on: stage, "second")
            #expect(try node.processes("key-holder").isEmpty)
            #expect(await node.stop() == 0)
            await stage.end()
        }
    }

    @Test func `an unusable key or configuration is reported as without a key holder`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        func problem(_ text: String) async throws -> (status: Int32, log: String) {
            try await NodeProcess.failure(text, on: stage)
        }
        let text = configuration(stage, endpoints)
        let wrong = try await problem(text.replacing("\"apns.p8\"", with: "\"ca.pem\""))
        #expect(wrong.status == 78 && wrong.log.contains("app[1].apns.key_file"), "\(wrong)")
        let missing = try await problem(text.replacing("\"apns.p8\"", with: "\"nothing.p8\""))
        #expect(missing.status == 78 && missing.log.contains("nothing.p8: cannot be read"), "\(missing)")
        let invalid = try await problem("[node]\ncolour = 1")
        #expect(invalid.status == 78 && invalid.log.contains("node.colour"), "\(invalid)")
        try #require(chmod("\(stage.directory)/apns.p8", 0o644) == 0)
        let open = try await problem(text)
        #expect(open.status == 78 && open.log.contains("chmod 600"), "\(open)")
        await stage.end()
    }

    @Test func `as the first process of a container, the node reaps orphans and obeys signals`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let phones = try await phones(stage, endpoints)
        let node = try await NodeProcess(
            configuration(stage, endpoints), startedBy: ["unshare", "--pid", "--fork", "--mount-proc"], on: stage)
        let first = try #require(try NodeProcess.children(of: node.pid).first).pid
        try await ring(phones, on: stage, "in a container")
        // As a health check that leaves a process behind.
        for _ in 0..<3 {
            let (isSuccess, text) = try await ChildProcess.output(
                of: "nsenter", ["--target", "\(first)", "--pid", "--mount", "sh", "-c", "sleep 0.1 & exit 0"])
            #expect(isSuccess, "\(text)")
        }
        try await node.wait("only the node is left") {
            let children = try NodeProcess.children(of: first)
            return children.count == 1 && children[0].state != "Z"
        }
        kill(first, SIGHUP)
        try await node.waitForLog("configuration reloaded")
        kill(first, SIGTERM)
        #expect(await node.end() == 0)
        #expect(node.lines(with: "stopped") == 1)
        await stage.end()
    }

    @Test func `too few open files are named, and a soft limit is raised`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let text = configuration(stage, endpoints)
        let few = try await NodeProcess.failure(text, startedBy: ["prlimit", "--nofile=64"], on: stage)
        #expect(few.status == 1 && few.log.contains("the limit of open files is 64, and the node needs 128"), "\(few)")
        let node = try await NodeProcess(text, startedBy: ["prlimit", "--nofile=64:4096"], on: stage)
        try await ring(phones(stage, endpoints), on: stage, "with a soft limit")
        #expect(await node.stop() == 0)
        await stage.end()
    }

    // MARK: Attackers

    /// What each attempt of an attacker in the node's place leads to.
    private func attempts(_ settings: String, secrets: Bool = true) async throws -> ([String: String], log: String) {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let attacker = "\(stage.directory)/attacker/tor"
        try FileManager.default.createDirectory(
            atPath: "\(stage.directory)/attacker", withIntermediateDirectories: false)
        try await AllocationCounter.compile(
            [
                "-O1", "-o", attacker,
                Repository.file("Tests/System/Isolation/attacker.c").path(),
            ])
        let state = "\(stage.directory)/state"
        try FileManager.default.createDirectory(
            atPath: state, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        let files = ["apns.p8", "service-account.json", "apns.p12", "tocsin.toml"]
        let targets =
            files.map { "\($0) \(stage.directory)/\($0)\n" }.joined()
            + "system /etc/nsswitch.conf\n/etc/shadow /etc/shadow\n"
        try Data(targets.utf8).write(to: URL(filePath: "\(state)/targets"))
        let text = configuration(stage, endpoints, node: settings).replacing(
            "managed = false", with: "managed = true\nbinary = \"\(attacker)\"")
        let node = try await NodeProcess(text, on: stage)
        let file = "\(state)/tor/attempts"
        try await node.wait("the attacker has tried all") {
            FileManager.default.contents(atPath: file).map { String(decoding: $0, as: UTF8.self) }?
                .hasSuffix("end OK\n") == true
        }
        let lines = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n")
        if !settings.contains("off") { try await node.waitForLog("the sandbox refused a system call", count: 5) }
        #expect(await node.stop() == 0)
        let log = node.log
        await stage.end()
        return (
            Dictionary(
                uniqueKeysWithValues: lines.map { line in
                    let words = line.split(separator: " ")
                    return (String(words[0]), String(words[1]))
                }), log
        )
    }

    @Test func `an attacker who owns the node gets neither the keys nor the key holder nor another program`()
        async throws
    {
        let (results, log) = try await attempts("sandbox = \"on\"")
        // What the node may do.
        for allowed in ["system", "write_state", "new_socket"] {
            #expect(results[allowed] == "OK", "\(allowed)")
        }
        // Landlock.
        for denied in [
            "apns.p8", "service-account.json", "apns.p12", "tocsin.toml", "/etc/shadow", "write_elsewhere", "shell",
        ] { #expect(results[denied] == "EACCES", "\(denied)") }
        // seccomp.
        for denied in [
            "ptrace", "process_vm_readv", "mount", "namespace", "user_namespace", "packet_socket",
            "limits_of_key_holder", "bpf", "keyctl", "io_uring", "perf",
        ] {
            #expect(results[denied] == "EPERM", "\(denied)")
        }
        for denied in ["key_holder_memory", "key_holder_environment", "key_holder_descriptor"] {
            let result = results[denied]
            #expect(["EACCES", "EPERM"].contains(result), "\(denied)")
        }
        if FileRules.version >= 4 { #expect(results["listen"] == "EACCES") }
        if FileRules.version >= 6 { #expect(results["kill_key_holder"] == "EPERM") }
        #expect(log.contains("call=ptrace"))
    }

    @Test func `without a sandbox and a key holder the same attacker has all`() async throws {
        let (results, _) = try await attempts("sandbox = \"off\"\nkey_holder = false")
        for allowed in ["apns.p8", "service-account.json", "apns.p12", "tocsin.toml", "write_elsewhere", "listen"] {
            #expect(results[allowed] == "OK", "\(allowed)")
        }
        #expect(results["shell"] == nil)
    }

    private func adminText(_ path: String, on stage: Stage) async throws -> String {
        let (isSuccess, text) = try await ChildProcess.output(
            of: "curl",
            ["-sS", "--max-time", "5", "--unix-socket", "\(stage.directory)/admin.sock", "http://localhost\(path)"],
            timeout: .seconds(60))
        try #require(isSuccess, "\(text)")
        return text
    }
}
