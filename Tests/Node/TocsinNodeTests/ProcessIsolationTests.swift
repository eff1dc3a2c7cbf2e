// SPDX-License-Identifier: Apache-2.0

import Confinement
import Foundation
import NodeConfiguration
import TestSupport
import Testing

@testable import TocsinNode

@Suite(.tags(.sockets)) struct ProcessIsolationTests {
    private let directory = URL.temporaryDirectory.appending(path: "tocsin-isolation-\(UUID().uuidString)").path()

    private func configuration(
        _ more: String = "", node: String = "", state: String = "/var/lib/node", trust: String = "/etc/node/ca.pem"
    ) throws -> Configuration {
        let text = """
            [node]
            state = "\(state)"
            \(node)
            [listen]
            tnp = "unix:/run/node/tnp.sock"
            http = "127.0.0.1:7080"
            [[app]]
            name = "bisq"
            [app.apns]
            topic = "com.example.app"
            key_file = "/etc/node/keys/apns.p8"
            key_id = "KEY0000001"
            team_id = "TEAM000001"
            [apns]
            trust_file = "\(trust)"
            \(more)
            """
        return try Configuration(text: text, file: "/etc/node/tocsin.toml")
    }

    private func rules(_ more: String = "", node: String = "", managed: Bool = false) throws -> FileRules {
        var configuration = try configuration(more, node: node)
        configuration.decideTor(managed)
        return FileRules(of: configuration) { ["PATH": directory, "SSL_CERT_DIR": "/srv/authorities"][$0] }
    }

    /// Whether a file is beneath one of these paths.
    private func covers(_ paths: [String], _ file: String) -> Bool {
        paths.contains { file == $0 || file.hasPrefix($0 == "/" ? "/" : "\($0)/") }
    }

    @Test func `a node reads neither its configuration nor its keys`() throws {
        let rules = try rules()
        for file in ["/etc/node/tocsin.toml", "/etc/node/keys/apns.p8", "/etc/node/ca.pem", "/etc/shadow", "/root/x"] {
            #expect(!covers(rules.readable + rules.writable + rules.executable, file), "\(file)")
        }
        #expect(rules.writable == ["/var/lib/node", "/dev/null"])
        #expect(rules.socketDirectories == ["/run/node"] && rules.listeningPorts == [7080])
        #expect(rules.executable.isEmpty)
        #expect(covers(rules.readable, "/srv/authorities/a.pem"))
    }

    @Test func `files that the node can replace are neither copied for it nor named in a rule`() throws {
        for name in ["state/inner", "elsewhere"] {
            try FileManager.default.createDirectory(
                atPath: "\(directory)/\(name)", withIntermediateDirectories: true)
        }
        defer { try? FileManager.default.removeItem(atPath: directory) }
        for (link, target) in [("link", "state"), ("elsewhere/into", "../state/inner"), ("state/out", "../elsewhere")] {
            try FileManager.default.createSymbolicLink(
                atPath: "\(directory)/\(link)", withDestinationPath: target)
        }
        for state in [
            "\(directory)/state", "\(directory)/state/", "\(directory)/link", "\(directory)/elsewhere/../state//",
        ] {
            for (file, isInState) in [
                ("state/ca.pem", true), ("state/inner/ca.pem", true), ("elsewhere/into/ca.pem", true),
                ("link/ca.pem", true), ("state/out/ca.pem", true), ("elsewhere/../state/ca.pem", true),
                ("state//ca.pem", true), ("elsewhere/ca.pem", false), ("state2/ca.pem", false),
            ] {
                let path = "\(directory)/\(file)"
                let configuration = try configuration(
                    "[spool]\nenabled = true\nkey_file = \"\(path)\"", state: state, trust: path)
                #expect(configuration.isInState(path) == isInState, "\(state) \(file)")
                #expect(configuration.otherFiles.contains(path) == !isInState, "\(state) \(file)")
                #expect(FileRules(of: configuration).readable.contains(path) == !isInState, "\(state) \(file)")
            }
        }
    }

    @Test func `without a key holder it reads the directories of both`() throws {
        let rules = try rules(node: "key_holder = false")
        for file in ["/etc/node/tocsin.toml", "/etc/node/keys/apns.p8", "/etc/node/ca.pem"] {
            #expect(covers(rules.readable, file), "\(file)")
        }
        #expect(!covers(rules.readable, "/etc/shadow"))
    }

    @Test func `it executes its own tor only`() throws {
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let tor = "\(directory)/tor"
        func write(_ text: String) throws {
            try Data(text.utf8).write(to: URL(filePath: tor))
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: tor)
        }
        try write("\u{7F}ELF")
        let rules = try rules(managed: true)
        #expect(rules.executable.first == tor && !covers(rules.executable, "/usr/bin/true"))
        try write("#!/bin/sh")
        #expect(covers(try self.rules(managed: true).executable, "/usr/bin/true"))
    }

    @Test func `it reads an external onion's address, not its secret key`() throws {
        let rules = try rules("[tor]\nonion_directory = \"/var/lib/tor/onion\"")
        #expect(covers(rules.readable, "/var/lib/tor/onion/hostname"))
        #expect(!covers(rules.readable, "/var/lib/tor/onion/hs_ed25519_secret_key"))
    }

    @Test func `it executes no tor that systemd runs, and reads its directory`() throws {
        let rules = try rules("[tor]\nmanaged = true\nrun_by = \"service\"", managed: true)
        #expect(rules.executable.isEmpty)
        #expect(covers(rules.readable, "/var/lib/tocsin-tor/onion/hostname"))
        #expect(!covers(rules.writable, "/var/lib/tocsin-tor/onion/hostname"))
    }

    @Test func `it reads keys of its own elsewhere, but not their directories`() throws {
        let rules = try rules("[spool]\nenabled = true\nkey_file = \"/media/keys/spool.key\"")
        #expect(rules.readable.contains("/media/keys/spool.key"))
        #expect(!covers(rules.readable + rules.writable, "/media/keys/apns.p8"))
    }
}
