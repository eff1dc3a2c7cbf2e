// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import Diagnostics
import EventLoop
import FoundationEssentials
import Glibc
import Providers
import Settings

struct InitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init", abstract: "Write a node's configuration, create its state directory, and check both.",
        discussion: """
            Prompts for missing values on a terminal; --yes takes the defaults instead. The configuration names the \
            files with secrets; with --copy they are copied beside it. Nothing is overwritten without --force. \
            tocsin.toml gets mode 0640: it contains no secret, and the node may read it as a member of the directory's \
            group.

            EXIT CODES
              0   written
              1   written, but a check failed
              64  wrong usage, or a required value is missing
              78  nothing was written

            EXAMPLES
              tocsin init
              tocsin init --app bisq-1 --key-file AuthKey_ABCDE12345.p8 --team-id FGHIJ67890 --service-account firebase.json
              tocsin init --app bisq-1 --upstream ADDRESS.onion:7077
              tocsin init --yes --app own --name mine --web-contact mailto:me@example.org --handles
              tocsin init --yes --app own --name mine --topic com.example.mine --certificate-file push.p12 --no-http
            """)

    @OptionGroup var given: InitAnswers

    @Option(help: "The directory for tocsin.toml. Default: /etc/tocsin for root, if it exists; else the current one.")
    var directory: String?

    @Flag(help: "Copy the files with secrets into the directory of tocsin.toml, with mode 600.")
    var copy = false

    @Flag(help: "Do not prompt: take the defaults.")
    var yes = false

    @Flag(help: "Overwrite existing files.")
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
            new.hasTorService = Self.hasService("tocsin-tor.service", for: writer.file)
            new = try new.renamingSecrets { try Self.absolute($0) }
            try writer.prepare(for: new)
        } catch let problem as InitAnswers.Problem {
            throw fail("\(problem)", .usage)
        } catch let code as ExitCode {
            throw code
        } catch {
            throw fail("nothing was written: \(error)", .configuration)
        }
        do {
            if copy { new = try writer.copySecrets(of: new) }
            try writer.write(new)
        } catch {
            throw fail("\(writer.file) was not written: \(error)", .configuration)
        }
        Terminal.print("written: \(writer.file)")
        for file in new.secretFiles { Self.protect(writer.absolute(file), isAsking: isAsking, isAgreed: yes) }
        let findings = try await check(writer.file)
        CheckCommand.show(findings, asJSON: false)
        Terminal.print(
            Self.nextSteps(
                writer.file, hasService: Self.hasService("tocsin.service", for: writer.file),
                after: findings, isUpstream: new.upstream != nil
            )
            .joined(separator: "\n"))
        if findings.hasFailure { throw ExitCode.failure }
    }

    // MARK: Answers

    private func answers(isAsking: Bool, inSystem: Bool) throws -> InitAnswers {
        var answers = given
        try answers.check()
        let state = inSystem ? "/var/lib/tocsin" : "state"
        guard isAsking else {
            let missing = answers.useDefaults(state: state)
            guard missing.isEmpty else {
                throw fail(
                    "missing: \(missing.joined(separator: ", "))"
                        + (yes ? "" : ". Cannot prompt for it: standard input is not a terminal"),
                    .usage)
            }
            return answers
        }
        while let question = answers.nextQuestion {
            let usual = answers.defaultAnswer(to: question, state: state)
            let hint = usual.map { $0.isEmpty ? "" : " [\($0)]" } ?? ""
            Terminal.error("\(answers.prompt(for: question))\(hint):")
            guard let line = readLine() else { throw fail("standard input ended: nothing was written", .usage) }
            let typed = line.trimmed
            do throws(InitAnswers.Problem) {
                if typed.isEmpty, usual == nil { throw InitAnswers.Problem(description: "required") }
                if let use = answers.fileUse(of: typed, to: question), let problem = use.problem(ofFile: typed) {
                    throw InitAnswers.Problem(description: "\(typed): \(problem)")
                }
                try answers.record(typed.isEmpty ? usual ?? "" : typed, to: question)
            } catch {
                Terminal.error("  \(error)")
            }
        }
        return answers
    }

    // MARK: Paths

    private func resolvedDirectory() throws -> String {
        if let directory { return try Self.absolute(directory) }
        let hasSystem = geteuid() == 0 && access(Self.systemDirectory, F_OK) == 0
        return hasSystem ? Self.systemDirectory : try Self.absolute(".")
    }

    /// The absolute path. If it exists, links and dots in it are resolved.
    private static func absolute(_ path: String) throws -> String {
        guard !path.isEmpty else { throw fail("a path must not be empty", .usage) }
        guard let resolved = realpath(path, nil) else {
            // The check at the end of the command reports missing files.
            return path.hasPrefix("/") ? path : "\(FileManager.default.currentDirectoryPath)/\(path)"
        }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    /// Sets mode 600 on a file with a secret if the operator agrees; otherwise prints the command for it.
    private static func protect(_ file: String, isAsking: Bool, isAgreed: Bool) {
        guard !RegularFile.isPrivate(file) else { return }
        var isAgreed = isAgreed
        if isAsking {
            Terminal.error("Other users can access \(file). Run chmod 600 on it? (yes or no) [yes]:")
            isAgreed = ["", "yes", "y"].contains(readLine()?.trimmed.lowercased() ?? "no")
        }
        if isAgreed, chmod(file, 0o600) == 0 { return Terminal.print("mode 600: \(file)") }
        Terminal.error("tocsin: other users can access \(file): the node will not start. Run: chmod 600 \(file)")
    }

    // MARK: Next steps

    private func check(_ file: String) async throws -> [Finding] {
        let configuration = try failing(with: .configuration) { try ConfigurationOption.load(file) }
        let path = ProcessInfo.processInfo.environment["PATH"]
        return await NodeCheck(configuration, searchPath: path, on: EventLoop(name: "init")).offline()
    }

    /// Whether systemd is running here and has this unit of the Debian package, and the unit reads this file.
    private static func hasService(_ unit: String, for file: String) -> Bool {
        file == "\(systemDirectory)/tocsin.toml" && access("/run/systemd/system", F_OK) == 0
            && ["/lib/systemd/system", "/usr/lib/systemd/system", "/etc/systemd/system"].contains {
                access("\($0)/\(unit)", F_OK) == 0
            }
    }

    /// The next steps to print.
    /// - Parameter hasService: whether systemd runs the node, as a user of its own. Run by hand as root, the node would
    ///   create files in the state directory that the service cannot read.
    static func nextSteps(_ file: String, hasService: Bool, after findings: [Finding], isUpstream: Bool) -> [String] {
        guard !findings.hasFailure else {
            return [
                "", "Next: mend what failed above; \(file) names the files. Then",
                "  tocsin check --config \(file)              checks again, and says what to do after it",
            ]
        }
        return [
            "", "Next:",
            "  tocsin check --online --config \(file)     checks \(isUpstream ? "the upstream node" : "Apple and Google"); rings no phone",
            hasService
                ? "  systemctl enable --now tocsin              starts the node, and its onion if tor is installed"
                : "  tocsin run --config \(file)                starts the node, and its onion if tor is installed",
            "  tocsin onion show --config \(file)         shows the address for senders",
            "  tocsin check --config \(file) --phone -    sends a first notification: paste a pairing token",
        ]
    }
}

extension String {
    /// Without white space at both ends.
    fileprivate var trimmed: String {
        var rest = self[...]
        while rest.first?.isWhitespace == true { rest.removeFirst() }
        while rest.last?.isWhitespace == true { rest.removeLast() }
        return String(rest)
    }
}
