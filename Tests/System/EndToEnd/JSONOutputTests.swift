// SPDX-License-Identifier: Apache-2.0

import Foundation
import NodeConfiguration
import StandIns
import TestSupport
import Testing
import Tor

/// What scripts get from the program itself.
@Suite(.tags(.sockets)) struct JSONOutputTests {
    private func run(_ arguments: [String]) async throws -> (isSuccess: Bool, text: String) {
        try await ChildProcess.output(of: Program.path, arguments)
    }

    private func object(_ text: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any], "\(text)")
    }

    private func withConfiguration(_ text: String, _ body: (String, String) async throws -> Void) async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString).path()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let file = "\(directory)/tocsin.toml"
        try Data(text.utf8).write(to: URL(filePath: file))
        try await body(directory, file)
    }

    private static let minimal = "[[app]]\nname = \"bisq\"\n[app.fcm]\nservice_account_file = \"f.json\"\n"

    @Test func `site list, and what site add says`() async throws {
        try await withConfiguration(Self.minimal) { _, file in
            let key = Data(repeating: 7, count: 32).base64EncodedString()
            let added = try await run(["site", "add", "desk", key, "--http", "--right", "send", "--config", file])
            #expect(
                added.isSuccess && added.text.contains("added: the site desk, which may use TNP and HTTP, to \(file)"))
            #expect(added.text.contains("sites.mode is off"))
            let listed = try object(try await run(["site", "list", "--json", "--config", file]).text)
            let site = try #require((listed["sites"] as? [[String: Any]])?.first)
            #expect(listed["mode"] as? String == "off" && site["name"] as? String == "desk")
            #expect(site["tnp"] as? Bool == true && site["http"] as? Bool == true && site["per_minute"] as? Int == 600)
            #expect(site["rights"] as? [String] == ["send"])
        }
    }

    @Test func `a closed onion is never open: a sender is authorised before the onion exists`() async throws {
        try await withConfiguration(Self.minimal + "[tor]\nmanaged = true\n[node]\nstate = \"state\"\n") {
            directory, file in
            try FileManager.default.createDirectory(
                atPath: "\(directory)/state", withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700]
            )
            let authorized = try await run([
                "onion", "authorize", "alice", "--output", "\(directory)/alice.auth_private", "--config", file,
            ])
            #expect(authorized.isSuccess && authorized.text.contains("The onion is "), "\(authorized.text)")
            let shown = try object(try await run(["onion", "show", "--json", "--config", file]).text)
            let address = try #require(shown["address"] as? String)
            #expect(authorized.text.contains(address) && shown["open"] as? Bool == false)
            #expect(shown["authorized_senders"] as? Int == 1 && shown["managed"] as? Bool == true)
            let key = try String(contentsOfFile: "\(directory)/alice.auth_private", encoding: .utf8)
            #expect(key.hasPrefix(address.dropLast(".onion".count)))
            // The second sender gets a key to the same onion.
            let second = try await run(["onion", "authorize", "bob", "--config", file])
            #expect(second.isSuccess && second.text.contains(address.dropLast(".onion".count)))
        }
    }

    @Test func `pair read and keys`() async throws {
        let key = String(repeating: "k", count: 32)
        let token = "iOS|iPhone 15|\(key)|\(String(repeating: "0a", count: 32))"
        let read = try await run(["pair", "read", token, "--json"])
        let review = try object(read.text)
        #expect(read.isSuccess && review["accepted"] as? Bool == true && !read.text.contains(key))
        #expect((review["parts"] as? [Any])?.count == 4 && (review["apps"] as? [Any])?.isEmpty == false)
        let tables = try JSONSerialization.jsonObject(
            with: Data(try await run(["keys", "--format", "json", "spool"]).text.utf8))
        let table = try #require((tables as? [[String: Any]])?.first)
        #expect(table["name"] as? String == "spool")
        let keys = try #require(table["keys"] as? [[String: Any]])
        #expect(keys.contains { $0["name"] as? String == "max_bytes" && $0["minimum"] as? Int == 65_536 })
        #expect(try await run(["keys", "app"]).text.contains("## `[app.apns]`"))
        let unknown = try await run(["keys", "spoool"])
        #expect(!unknown.isSuccess && unknown.text.contains("there is no table spoool"))
    }

    @Test func `the schema is in Docs, and says of the examples what the decoder says`() async throws {
        let file = Self.schemaFile
        #expect(try String(contentsOfFile: file, encoding: .utf8) == ConfigurationReference.schema + "\n")
        // An independent validator.
        let script = """
            import json, sys, tomllib
            import jsonschema
            schema = json.load(open(sys.argv[1]))
            jsonschema.Draft7Validator.check_schema(schema)
            for name in sys.argv[2:]:
                jsonschema.validate(tomllib.load(open(name, "rb")), schema)
            for text in ["[node]\\nlogg = 1", "[limits]\\ncircuits = 3", "[[app]]", "[listen]\\nhttp = 3", "apps = 1",
                         "[node]\\nlog = 'loud'", "[tor]\\nmanaged = 'yes'", "[[site]]\\nname = 'x'\\nrights = 3"]:
                try:
                    jsonschema.validate(tomllib.loads(text), schema)
                except jsonschema.ValidationError:
                    continue
                sys.exit("the schema allows " + text)
            """
        guard try await ChildProcess.output(of: "python3", ["-c", "import jsonschema"]).isSuccess else {
            return print("SKIPPED: python3-jsonschema is not installed; no validator read the schema")
        }
        let examples = ["bisq-1", "bisq-connect", "haveno"].map { "Docs/examples/\($0).toml" }
        let result = try await ChildProcess.output(of: "python3", ["-c", script, file] + examples)
        #expect(result.isSuccess, "\(result.text)")
    }

    private static let schemaFile = "Docs/tocsin.schema.json"
}
