// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Diagnostics
import EventLoop
import FoundationEssentials
import Glibc
import NodeConfiguration
import TocsinNode

struct InitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init", abstract: "Write a node's configuration, make its state directory, and check both.",
        discussion: """
            Asks for what was not said, where a person is there; with --yes takes what is usual instead. Secrets stay
            where they are, and only their names are written, unless --copy is given. Nothing is overwritten without
            --force. tocsin.toml gets mode 0640: it holds no secret, and the node may be in its directory's group.

            EXIT CODES
              0 written · 1 written, and the check has found what does not work · 64 wrong usage, or something is missing ·
              78 nothing was written

            EXAMPLES
              tocsin init
              tocsin init --app bisq-1 --key-file AuthKey_ABCDE12345.p8 --team-id FGHIJ67890 --service-account firebase.json
              tocsin init --yes --app own --name mine --topic com.example.mine --certificate-file push.p12 --no-http
            """)

    @Option(help: "Whose phones: \(AppTemplate.allCases.map(\.rawValue).joined(separator: ", ")).")
    var app: AppTemplate?

    @Option(help: "The app's name in the node. Default: by --app.")
    var name: String?

    @Option(help: "The bundle id of the app for iPhones. Default: by --app.")
    var topic: String?

    @Option(help: "Apple's key, .p8.")
    var keyFile: String?

    @Option(help: "Its id. Default: from the file's name, if that is as Apple gave it.")
    var keyID: String?

    @Option(help: "The id of the team at Apple.")
    var teamID: String?

    @Option(help: "Instead of the three: Apple's certificate with its key, .p12.")
    var certificateFile: String?

    @Option(help: "The file with its password, where it has one.")
    var certificatePasswordFile: String?

    @Option(help: "The service account's JSON file from Firebase, for Android phones.")
    var serviceAccount: String?

    @Option(help: "Where tocsin.toml goes. Default: /etc/tocsin for root, where it is there; else here.")
    var directory: String?

    @Option(help: "What the node keeps, relative to that. Default: state; in /etc/tocsin, /var/lib/tocsin.")
    var state: String?

    @Flag(inversion: .prefixedNo, help: "The door for the desktops of today.")
    var http: Bool?

    @Flag(
        inversion: .prefixedNo,
        help:
            "Store what cannot be delivered at once, as those desktops never send it again. Default: yes, with --http.")
    var spool: Bool?

    @Flag(inversion: .prefixedNo, help: "Dashboard, metrics and health, for this machine alone.")
    var admin: Bool?

    @Flag(help: "Copy the files with secrets beside tocsin.toml, with mode 600.")
    var copy = false

    @Flag(help: "Ask nothing: take what is usual.")
    var yes = false

    @Flag(help: "Overwrite what is there.")
    var force = false

    private static let systemDirectory = "/etc/tocsin"

    func run() async throws {
        let isAsking = !yes && isatty(STDIN_FILENO) == 1
        let place = try resolvedDirectory()
        let writer = ConfigurationWriter(directory: place, replacing: force)
        var new: NewConfiguration
        do {
            try writer.check()
            new = try answers(isAsking: isAsking, inSystem: place == Self.systemDirectory).configuration()
            new = try new.renamingSecrets { try Self.absolute($0) }
            try writer.prepare(for: new)
            if copy { new = try writer.copySecrets(of: new) }
            try writer.write(new)
        } catch let problem as InitAnswers.Problem {
            throw fail("\(problem)", ExitStatus.usage)
        } catch let code as ExitCode {
            throw code
        } catch {
            throw fail("nothing was written: \(error)", ExitStatus.configuration)
        }
        Terminal.print("written: \(writer.file)")
        for file in new.secretFiles { Self.protect(writer.absolute(file), isAsking: isAsking, isAgreed: yes) }
        let findings = try await check(writer.file)
        CheckCommand.show(findings, asJSON: false)
        Terminal.print(Self.next(writer.file, hasService: Self.hasService(for: writer.file)).joined(separator: "\n"))
        if findings.hasFailure { throw ExitStatus.failure }
    }

    // MARK: Answers

    private var said: InitAnswers {
        InitAnswers(
            app: app, name: name, topic: topic, keyFile: keyFile, keyID: keyID, teamID: teamID,
            certificateFile: certificateFile, certificatePasswordFile: certificatePasswordFile,
            serviceAccount: serviceAccount, state: state, http: http, admin: admin, spool: spool)
    }

    private func answers(isAsking: Bool, inSystem: Bool) throws -> InitAnswers {
        var answers = said
        try answers.check()
        let state = inSystem ? "/var/lib/tocsin" : "state"
        guard isAsking else {
            let missing = answers.takeUsual(state: state)
            guard missing.isEmpty else {
                throw fail(
                    "missing: \(missing.joined(separator: ", "))"
                        + (yes ? "" : ". Standard input is no terminal, so that nobody can be asked"),
                    ExitStatus.usage)
            }
            return answers
        }
        while let question = answers.open {
            let usual = answers.usual(question, state: state)
            let hint = usual.map { $0.isEmpty ? "" : " [\($0)]" } ?? ""
            Terminal.error("\(answers.words(for: question))\(hint):")
            guard let line = readLine() else { throw fail("nothing was written", ExitStatus.usage) }
            let typed = line.trimmed
            do throws(InitAnswers.Problem) {
                if typed.isEmpty, usual == nil { throw InitAnswers.Problem(description: "this has to be said") }
                try answers.take(typed.isEmpty ? usual ?? "" : typed, to: question)
            } catch {
                Terminal.error("  \(error)")
            }
        }
        return answers
    }

    // MARK: Places

    private func resolvedDirectory() throws -> String {
        if let directory { return try Self.absolute(directory) }
        let hasSystem = geteuid() == 0 && access(Self.systemDirectory, F_OK) == 0
        return hasSystem ? Self.systemDirectory : try Self.absolute(".")
    }

    /// Without links and dots, where it is there.
    private static func absolute(_ path: String) throws -> String {
        guard !path.isEmpty else { throw fail("a path is empty", ExitStatus.usage) }
        guard let resolved = realpath(path, nil) else {
            // What is not there is said by the check.
            return path.hasPrefix("/") ? path : "\(FileManager.default.currentDirectoryPath)/\(path)"
        }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    /// Sees to it that only its owner can read a secret, or says how.
    private static func protect(_ file: String, isAsking: Bool, isAgreed: Bool) {
        var status = stat()
        guard stat(file, &status) == 0, status.st_mode & 0o077 != 0 else { return }
        var isAgreed = isAgreed
        if isAsking {
            Terminal.error("Others than its owner can read \(file). Run chmod 600 on it? (yes or no) [yes]:")
            isAgreed = ["", "yes", "y"].contains(readLine()?.trimmed.lowercased() ?? "no")
        }
        if isAgreed, chmod(file, 0o600) == 0 { return Terminal.print("mode 600: \(file)") }
        Terminal.error(
            "tocsin: others than its owner can read \(file), and the node refuses that. Run: chmod 600 \(file)")
    }

    // MARK: What comes then

    private func check(_ file: String) async throws -> [Finding] {
        var configuration: Configuration
        do {
            configuration = try Configuration(file: file)
        } catch {
            throw fail("\(error)", ExitStatus.configuration)
        }
        let path = ProcessInfo.processInfo.environment["PATH"]
        configuration.decideTor(path: path)
        return await NodeCheck(configuration, searchPath: path, on: EventLoop(name: "init")).offline()
    }

    /// Whether systemd runs here and has the package's unit, which reads this file.
    private static func hasService(for file: String) -> Bool {
        file == "\(systemDirectory)/tocsin.toml" && access("/run/systemd/system", F_OK) == 0
            && ["/lib/systemd/system", "/usr/lib/systemd/system", "/etc/systemd/system"].contains {
                access("\($0)/tocsin.service", F_OK) == 0
            }
    }

    /// - Parameter hasService: whether systemd runs the node, under a user of its own: run by hand as root it would fill the
    ///   state directory with files that the service cannot read.
    static func next(_ file: String, hasService: Bool) -> [String] {
        [
            "", "What is next:",
            "  tocsin check --online --config \(file)     asks Apple and Google; rings nobody",
            hasService
                ? "  systemctl enable --now tocsin              the node, and its onion where tor is installed"
                : "  tocsin run --config \(file)                the node, and its onion where tor is installed",
            "  tocsin onion show --config \(file)         the address for senders",
            "  tocsin check --config \(file) --phone -    a first notification to a phone: paste its pairing token",
        ]
    }
}

extension String {
    /// Without the spaces that people paste along.
    fileprivate var trimmed: String {
        var rest = self[...]
        while rest.first?.isWhitespace == true { rest.removeFirst() }
        while rest.last?.isWhitespace == true { rest.removeLast() }
        return String(rest)
    }
}
