// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Cryptography
import EventLoop
import Foundation
import Settings
import StandIns
import TNP
import TestSupport
import Testing
import Tor

@testable import Console
@testable import Diagnostics
@testable import NodeConfiguration
@testable import Providers
@testable import TocsinNode
@testable import tocsin

@Suite(.tags(.sockets)) struct InitTests {
    private static let examples = Repository.file("Docs/examples")

    private func withDirectory(_ body: (String) async throws -> Void) async throws {
        let directory = "/tmp/tocsin-init-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try await body(directory)
    }

    private func mode(_ path: String) -> mode_t? {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_mode & 0o777 : nil
    }

    /// Writes credentials into a directory.
    private func writeCredentials(to directory: String) throws {
        func write(_ bytes: [UInt8], _ name: String) throws {
            try Data(bytes).write(to: URL(filePath: "\(directory)/\(name)"))
            try #require(chmod("\(directory)/\(name)", 0o600) == 0)
        }
        try write(SigningKey.generate(.es256).pem, "AuthKey_ABCDE12345.p8")
        let issued = CertificateAuthority(name: "test").issue(
            subject: "Apple Push Services: com.example.mine", purpose: .client, validFor: 86_400 * 100)
        try write(PKCS12.pack(issued, password: "password"), "push.p12")
        try write(Array("password\n".utf8), "push.password")
        let key = String(decoding: SigningKey.generate(.rs256).pem, as: UTF8.self).replacing("\n", with: "\\n")
        let account = """
            {"type":"service_account","project_id":"p","private_key":"\(key)","client_email":"a@b",
             "token_uri":"https://oauth2.googleapis.com/token"}
            """
        try write(Array(account.utf8), "firebase.json")
    }

    private func initialise(_ arguments: [String]) async throws { try await InitCommand.parse(arguments).run() }

    // MARK: Configuration text

    @Test(arguments: AppTemplate.allCases)
    func `the templates of init are the examples in Docs`(_ template: AppTemplate) throws {
        guard let example = NewConfiguration.example(template) else {
            #expect(template == .own)
            return
        }
        let file = Self.examples.appending(path: "\(template.rawValue).toml")
        #expect(try String(contentsOf: file, encoding: .utf8) == example.text)
    }

    private static let appleCredentials: [NewConfiguration.AppleCredential?] = [
        nil, .key(file: "/k.p8", keyID: "ABCDE12345", teamID: "FGHIJ67890"),
        .certificate(file: "/c.p12", passwordFile: nil), .certificate(file: "/c.p12", passwordFile: "/c.password"),
    ]

    @Test(arguments: AppTemplate.allCases)
    func `every combination of choices gives a valid configuration`(_ template: AppTemplate) throws {
        for apple in Self.appleCredentials {
            for account in [nil, "/a.json"] where apple != nil || account != nil {
                for (http, admin) in [(true, true), (true, false), (false, true), (false, false)] {
                    let new = NewConfiguration(
                        template: template, name: "mine", apple: apple, topic: "com.example.mine",
                        serviceAccountFile: account, state: "/s", hasHTTPEndpoint: http, hasAdminPort: admin,
                        hasTorService: admin, headerComment: ["x"])
                    let read = try Configuration(text: new.text, file: "/d/tocsin.toml")
                    #expect((read.listen.http != nil, read.listen.admin != nil) == (http, admin))
                    #expect(read.tor.runner == (admin ? .service : .node))
                    let app = try #require(read.apps.first)
                    #expect(app.name == "mine" && read.state == "/s" && read.apps.count == 1)
                    #expect(
                        (app.delivery(APNsDelivery.self) != nil, app.delivery(FCMDelivery.self)?.serviceAccountFile)
                            == (apple != nil, account))
                    if apple != nil { #expect(app.delivery(APNsDelivery.self)?.profile.topic == "com.example.mine") }
                    let expected =
                        switch apple {
                        case nil: nil as CredentialReference?
                        case .key?:
                            AppleKeyCredential.reference(file: "/k.p8", keyID: "ABCDE12345", teamID: "FGHIJ67890")
                        case .certificate(_, let password)?:
                            AppleCertificateCredential.reference(file: "/c.p12", passwordFile: password)
                        }
                    #expect(app.delivery(APNsDelivery.self)?.credentials[0].reference == expected)
                    #expect(new.text.split(separator: "\n").allSatisfy { $0.utf8.count <= 160 })
                }
            }
        }
    }

    @Test func `special characters in paths are escaped for TOML`() throws {
        for path in ["/a \"b\"", "/a\\b", "/a\nb", "/ä€😀", "/a\u{7F}b", "/a#b = [c]", "/\u{1}"] {
            let new = NewConfiguration(
                template: .own, name: "x", apple: nil, topic: "", serviceAccountFile: path, state: path,
                headerComment: [])
            let read = try Configuration(text: new.text, file: "/d/tocsin.toml")
            #expect(read.state == path && read.apps[0].delivery(FCMDelivery.self)?.serviceAccountFile == path)
        }
    }

    // MARK: Answers

    @Test func `init asks only for missing values and offers defaults`() throws {
        var answers = try InitAnswers.parse([])
        var asked: [InitAnswers.Question] = []
        let typed: [InitAnswers.Question: String] = [
            .app: "own", .name: "mine", .apple: "/x/AuthKey_ABCDE12345.p8", .teamID: "FGHIJ67890", .topic: "a.b",
        ]
        while let question = answers.nextQuestion {
            try #require(asked.count < 20)
            asked.append(question)
            try answers.record(
                try #require(typed[question] ?? answers.defaultAnswer(to: question, state: "state")), to: question)
        }
        #expect(
            asked == [
                .app, .name, .apple, .keyID, .teamID, .topic, .google, .format, .web, .handles, .http, .spool, .admin,
                .state,
            ])
        let new = try answers.configuration()
        #expect(new.apple == .key(file: "/x/AuthKey_ABCDE12345.p8", keyID: "ABCDE12345", teamID: "FGHIJ67890"))
        #expect(
            new.hasHTTPEndpoint && new.hasSpool && new.hasAdminPort && new.state == "state"
                && new.serviceAccountFile == nil
        )

        var known = try InitAnswers.parse([
            "--app", "bisq-1", "--certificate-file", "c.p12", "--service-account", "a.json", "--state", "s",
            "--no-http", "--no-admin",
        ])
        #expect(known.nextQuestion == .password)
        try known.record("", to: .password)
        #expect(known.nextQuestion == nil)
        #expect(try known.configuration().topic == "bisqremote.joachimneumann.com")
    }

    @Test func `no set-up that we ship makes the node warn`() throws {
        var texts = try FileManager.default.contentsOfDirectory(atPath: Self.examples.path()).filter {
            $0.hasSuffix(".toml")
        }.map { try String(contentsOf: Self.examples.appending(path: $0), encoding: .utf8) }
        #expect(texts.count >= 3)
        for template in AppTemplate.allCases {
            for options in [["--service-account", "f"], ["--upstream", "127.0.0.1:7077"]] {
                var answers = try InitAnswers.parse(["--app", template.rawValue, "--name", "x"] + options)
                #expect(answers.useDefaults(state: "s").isEmpty)
                texts.append(try answers.configuration().text)
            }
        }
        for text in texts {
            let advice = HTTPEndpointAdvice.texts(for: try Configuration(text: text, file: "/d/tocsin.toml"))
            #expect(advice.isEmpty, "\(advice)")
        }
    }

    @Test func `an app is chosen by its number, too`() throws {
        var answers = try InitAnswers.parse([])
        for (typed, template) in [("1", AppTemplate.bisq1), ("4", .own), ("haveno", .haveno)] {
            try answers.record(typed, to: .app)
            #expect(answers.app == template)
        }
        for typed in ["0", "5", "-1", ""] {
            #expect(throws: InitAnswers.Problem.self) { try answers.record(typed, to: .app) }
        }
        #expect(answers.prompt(for: .app).contains("  2  haveno "))
    }

    @Test func `no option is dropped in silence`() throws {
        var answers = try InitAnswers.parse(["--app", "own", "--name", "x", "--topic", "a.b", "--service-account", "f"])
        #expect(answers.useDefaults(state: "s").isEmpty)
        #expect(throws: InitAnswers.Problem.self) { try answers.configuration() }
        var spool = try InitAnswers.parse(["--app", "bisq-1", "--service-account", "f", "--no-http", "--spool"])
        #expect(spool.useDefaults(state: "s").isEmpty)
        #expect(try Configuration(text: try spool.configuration().text, file: "/d/t.toml").spool != nil)
    }

    @Test func `a node may serve Web Push alone, with handles and either format`() throws {
        for format in ["sealed", "pipe"] {
            var answers = try InitAnswers.parse([
                "--app", "own", "--name", "mine", "--web-contact", "mailto:me@example.org", "--handles", "--format",
                format,
            ])
            #expect(answers.useDefaults(state: "s").isEmpty)
            let read = try Configuration(text: try answers.configuration().text, file: "/d/t.toml")
            #expect(read.handles != nil && read.apps[0].format.rawValue == format)
            #expect(read.apps[0].deliveries.count == 1 && read.apps[0].delivery(WebPushDelivery.self) != nil)
        }
        var own = try InitAnswers.parse(["--app", "own", "--name", "mine", "--service-account", "f"])
        #expect(own.useDefaults(state: "s").isEmpty)
        let text = try own.configuration().text
        #expect(text.contains("format = \"sealed\"") && !text.contains("message_magic"))
    }

    @Test func `a file is looked at when it is named`() async throws {
        try await withDirectory { directory in
            try writeCredentials(to: directory)
            let answers = try InitAnswers.parse([])
            func problem(_ file: String, _ question: InitAnswers.Question) -> String? {
                answers.fileUse(of: file, to: question)?.problem(ofFile: file)
            }
            #expect(problem("\(directory)/AuthKey_ABCDE12345.p8", .apple) == nil)
            #expect(problem("\(directory)/push.p12", .apple) == nil)
            #expect(problem("\(directory)/firebase.json", .google) == nil)
            #expect(problem("\(directory)/none.p8", .apple)?.contains("No such file") == true)
            #expect(problem("\(directory)/firebase.json", .apple)?.contains("service_account_file") == true)
            #expect(problem("\(directory)/AuthKey_ABCDE12345.p8", .google)?.contains("Firebase console") == true)
        }
    }

    @Test func `what to do next depends on the check`() {
        let failed = [Finding(.credentials, "f", .failed, "x")]
        let after = InitCommand.nextSteps("t.toml", hasService: false, after: failed, isUpstream: false).joined()
        #expect(after.contains("mend what failed") && !after.contains("tocsin run"))
        let well = InitCommand.nextSteps("t.toml", hasService: false, after: [], isUpstream: true).joined()
        #expect(well.contains("tocsin run") && well.contains("checks the upstream node"))
    }

    @Test func `an invalid answer is rejected`() throws {
        var answers = try InitAnswers.parse(["--app", "own"])
        let wrong: [(InitAnswers.Question, String)] = [
            (.app, "bisq"), (.keyID, "short"), (.teamID, "ABCDE1234-"), (.http, "maybe"), (.admin, ""),
        ]
        for (question, answer) in wrong {
            #expect(throws: InitAnswers.Problem.self) { try answers.record(answer, to: question) }
        }
        try? answers.record("push.PFX.p12", to: .apple)
        #expect(answers.certificateFile == "push.PFX.p12" && answers.keyFile == nil)
    }

    @Test func `missing values are reported by their flags with --yes`() throws {
        var nothing = try InitAnswers.parse([])
        #expect(
            nothing.useDefaults(state: "state") == [
                "--app", "--name",
                "--key-file or --certificate-file or --service-account or --web-contact or --upstream",
            ])
        var key = try InitAnswers.parse(["--app", "haveno", "--key-file", "key.p8"])
        #expect(key.useDefaults(state: "state") == ["--key-id", "--team-id", "--topic"])
        var whole = try InitAnswers.parse([
            "--app", "bisq-1", "--key-file", "AuthKey_ABCDE12345.p8", "--team-id", "FGHIJ67890",
        ])
        #expect(whole.useDefaults(state: "state").isEmpty)
        #expect(whole.keyID == "ABCDE12345" && whole.withoutGoogle)
    }

    @Test func `contradictory flags are an error`() throws {
        let wrong = [
            ["--key-file", "a", "--certificate-file", "b"], ["--key-id", "ABCDE12345"],
            ["--team-id", "ABCDE12345", "--certificate-file", "b"], ["--certificate-password-file", "a"],
            ["--upstream", "a", "--topic", "a.b"], ["--app", "bisq-1", "--format", "sealed"],
            ["--upstream", "a", "--key-file", "b"], ["--upstream", "a", "--service-account", "b"],
        ]
        for options in wrong {
            let answers = try InitAnswers.parse(options)
            #expect(throws: InitAnswers.Problem.self) { try answers.check() }
        }
    }

    // MARK: Command

    @Test func `init writes a valid configuration and a private state directory`() async throws {
        try await withDirectory { directory in
            try writeCredentials(to: directory)
            try await initialise([
                "--yes", "--app", "bisq-1", "--key-file", "\(directory)/AuthKey_ABCDE12345.p8", "--team-id",
                "FGHIJ67890", "--service-account", "\(directory)/firebase.json", "--directory", directory,
            ])
            let file = "\(directory)/tocsin.toml"
            #expect(mode(file) == 0o640 && mode("\(directory)/state") == 0o700)
            let read = try Configuration(file: file)
            #expect(read.apps.map(\.name) == ["bisq"])
            let keyFile = "\(directory)/AuthKey_ABCDE12345.p8"
            let reference = AppleKeyCredential.reference(file: keyFile, keyID: "ABCDE12345", teamID: "FGHIJ67890")
            #expect(read.apps[0].delivery(APNsDelivery.self)?.credentials[0].reference == reference)
            let text = try String(contentsOfFile: file, encoding: .utf8)
            let pem = try String(contentsOfFile: keyFile, encoding: .utf8)
            let isSecretIn = pem.split(separator: "\n").filter { !$0.hasPrefix("-") }.contains { text.contains($0) }
            #expect(!isSecretIn)
            #expect(try FileManager.default.contentsOfDirectory(atPath: directory).count == 6)
        }
    }

    @Test func `init writes a node without credentials for each app`() async throws {
        let onion = "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid.onion:7077"
        for template in AppTemplate.allCases {
            for (node, isDirect) in [(onion, false), ("127.0.0.1:7077", true)] {
                try await withDirectory { directory in
                    try await initialise([
                        "--yes", "--app", template.rawValue, "--name", "mine", "--upstream", node, "--directory",
                        directory,
                    ])
                    let read = try Configuration(file: "\(directory)/tocsin.toml")
                    let app = read.apps[0]
                    #expect(app.delivery(UpstreamDelivery.self)?.nodes == [try #require(Endpoint(node))])
                    #expect(
                        app.delivery(UpstreamDelivery.self)?.isDirect == isDirect
                            && app.delivery(APNsDelivery.self) == nil && app.delivery(FCMDelivery.self) == nil)
                    #expect(
                        app.delivery(UpstreamDelivery.self)?.messageMagic(on: .iOS)
                            == (template == .haveno ? "HavenoMessageiOS" : "BisqMessageiOS"))
                    #expect(read.spool != nil && read.listen.http != nil)
                }
            }
        }
        await #expect(throws: ExitCode.configuration) {
            try await withDirectory { directory in
                try await initialise([
                    "--yes", "--app", "bisq-1", "--upstream", "x.onion:7077", "--directory", directory,
                ])
            }
        }
    }

    @Test func `init overwrites only with --force and writes no invalid configuration`() async throws {
        try await withDirectory { directory in
            try writeCredentials(to: directory)
            let file = "\(directory)/tocsin.toml"
            let good = [
                "--yes", "--app", "own", "--name", "mine", "--topic", "com.example.mine", "--certificate-file",
                "\(directory)/push.p12", "--certificate-password-file", "\(directory)/push.password", "--no-http",
                "--no-admin", "--directory", directory,
            ]
            await #expect(throws: ExitCode.configuration) {
                try await initialise(good.map { $0 == "mine" ? "not a name" : $0 })
            }
            #expect(!FileManager.default.fileExists(atPath: file))
            #expect(!FileManager.default.fileExists(atPath: "\(directory)/state"))
            try Data("mine".utf8).write(to: URL(filePath: file))
            await #expect(throws: ExitCode.configuration) { try await initialise(good) }
            #expect(FileManager.default.contents(atPath: file) == Data("mine".utf8))
            try await initialise(good + ["--force"])
            let read = try Configuration(file: file)
            #expect(read.listen.http == nil && read.listen.admin == nil)
            try FileManager.default.removeItem(atPath: file)
            try #require(symlink("/etc/passwd", file) == 0)
            await #expect(throws: ExitCode.configuration) { try await initialise(good + ["--force"]) }
            await #expect(throws: ExitCode.configuration) {
                try await initialise(good.map { $0 == directory ? "\(directory)/none" : $0 })
            }
            let left = try FileManager.default.contentsOfDirectory(atPath: directory)
            #expect(!left.contains { $0.contains("draft") })
        }
    }

    @Test func `copied credentials are private and beside the configuration`() async throws {
        try await withDirectory { directory in
            let target = "\(directory)/node"
            try FileManager.default.createDirectory(atPath: target, withIntermediateDirectories: false)
            try writeCredentials(to: directory)
            let secret = "\(directory)/AuthKey_ABCDE12345.p8"
            try #require(chmod(secret, 0o644) == 0)
            let arguments = [
                "--yes", "--app", "haveno", "--topic", "com.example.mine", "--key-file", secret, "--team-id",
                "FGHIJ67890", "--directory", target, "--copy",
            ]
            try await initialise(arguments)
            #expect(mode("\(target)/AuthKey_ABCDE12345.p8") == 0o600)
            // The mode of the original is unchanged.
            #expect(mode(secret) == 0o644)
            let text = try String(contentsOfFile: "\(target)/tocsin.toml", encoding: .utf8)
            #expect(text.contains("key_file = \"AuthKey_ABCDE12345.p8\""))
            await #expect(throws: ExitCode.configuration) { try await initialise(arguments) }
            try await initialise(arguments + ["--force"])
        }
    }

    @Test func `init with --yes restricts the permissions of a readable secret`() async throws {
        try await withDirectory { directory in
            try writeCredentials(to: directory)
            let account = "\(directory)/firebase.json"
            try #require(chmod(account, 0o644) == 0)
            try await initialise([
                "--yes", "--app", "bisq-connect", "--service-account", account, "--directory", directory,
            ])
            #expect(mode(account) == 0o600)
        }
    }

    @Test func `the exit status of init is that of the check`() async throws {
        try await withDirectory { directory in
            await #expect(throws: ExitCode.failure) {
                try await initialise([
                    "--yes", "--app", "bisq-1", "--service-account", "\(directory)/none.json", "--directory",
                    directory,
                ])
            }
            #expect(FileManager.default.fileExists(atPath: "\(directory)/tocsin.toml"))
            await #expect(throws: ExitCode.usage) {
                try await initialise(["--yes", "--app", "bisq-1", "--directory", "/tmp"])
            }
        }
    }
}

extension NewConfiguration {
    /// The configuration in Docs/examples for this template; `nil` for ``AppTemplate/own``.
    fileprivate static func example(_ template: AppTemplate) -> NewConfiguration? {
        let head: [String]
        switch template {
        case .bisq1:
            head = [
                "A node for the phones of Bisq 1, in place of today's relay. Insert your own file names, key_id and team_id; files with",
                "secrets need mode 600. Docs/bisq.md describes the migration. For more apps, add [[app]] tables: see the other examples.",
            ]
        case .haveno:
            head = [
                "A node for the phones of Haveno, which uses Bisq 1's protocol with its own magics. We know of no Haveno app in the",
                "stores: insert the bundle id of your app, your own file names, key_id and team_id; files with secrets need mode 600.",
            ]
        case .bisqConnect:
            head = [
                "A node for the phones of Bisq Connect, whose notifications Bisq 2 sends. Insert your own file names, key_id and",
                "team_id; files with secrets need mode 600. Docs/bisq.md describes the migration.",
            ]
        case .own: return nil
        }
        return NewConfiguration(
            template: template, name: template.name ?? "",
            apple: .key(
                file: "/etc/tocsin/AuthKey.p8", keyID: "ABCDE12345", teamID: "FGHIJ67890"),
            topic: template.topic ?? "org.example.haveno",
            serviceAccountFile: template == .bisqConnect
                ? "/etc/tocsin/firebase-connect.json" : "/etc/tocsin/firebase.json",
            state: "/var/lib/tocsin", hasSpool: true, hasAdminPort: true, hasTorService: true, headerComment: head)
    }
}
