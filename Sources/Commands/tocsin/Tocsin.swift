// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
// Linked for the settings of jemalloc that it defines.
import CAllocator
import Console
import Glibc
import TocsinNode

/// Starts the command that the command line names.
@main
enum Main {
    @MainActor
    static func main() async {
        ProcessStart.prepare()
        ContainerInit.runIfFirst()
        // Swift would replace invalid UTF-8 by �. The message does not repeat the argument: it may be secret.
        for number in 1..<max(1, Int(CommandLine.argc)) {
            guard let argument = CommandLine.unsafeArgv[number], String(validatingCString: argument) == nil else {
                continue
            }
            Terminal.error("tocsin: argument \(number) is not UTF-8 text: give @FILE with the text in UTF-8")
            exit(ExitCode.usage.rawValue)
        }
        do {
            var command = try Tocsin.parseAsRoot()
            if let command = command as? RunCommand {
                // Runs before other threads exist: it confines this thread and those that it starts.
                let prepared = try command.prepare()
                try await command.run(prepared)
            } else if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch {
            end(with: error)
        }
    }
}

extension Main {
    /// Ends the process as `exit(withError:)` does, but no message repeats an argument that may be a secret.
    private static func end(with error: any Error) -> Never {
        let code = Tocsin.exitCode(for: error)
        // Help and the version are no errors.
        guard !code.isSuccess else { Tocsin.exit(withError: error) }
        let message = Tocsin.fullMessage(for: error)
        if !message.isEmpty { Terminal.error(message) }
        exit(code.rawValue)
    }
}

/// What each `tocsin` process does before anything else.
private enum ProcessStart {
    static func prepare() {
        // If a standard descriptor is closed, the next file or socket would get its number, and its output.
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) < 0 {
            guard open("/dev/null", O_RDWR) == descriptor else { exit(ExitCode.failure.rawValue) }
        }
        // A write to a closed pipe or socket must return an error, not terminate the process.
        signal(SIGPIPE, SIG_IGN)
    }
}

/// `tocsin`: the commands of operators and senders.
struct Tocsin: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tocsin",
        abstract: "Push notification node for desktop apps that send through Tor; it cannot read what it forwards.",
        discussion: """
            EXAMPLES
              tocsin init                          write a configuration; prompts for missing values
              tocsin check --online                check configuration, credentials and connectivity
              tocsin demo                          try it on this machine, without account or internet access
              tocsin run --config tocsin.toml      run the node
              tocsin status                        what the running node does
              tocsin send - --node ADDRESS.onion:7077 --type TRADE --title Paid --message "Trade 123 is paid" < pairing
            """,
        version: Version.described,
        subcommands: [
            InitCommand.self, CheckCommand.self, RunCommand.self, StatusCommand.self, OnionCommand.self,
            KeysCommand.self, SendCommand.self,
            PairCommand.self, RegisterCommand.self, RotateCommand.self, ForgetCommand.self, UnbindCommand.self,
            SiteCommand.self, StateCommand.self, SimulateCommand.self, DemoCommand.self, SupervisorCommand.self,
            ResolverCommand.self, KeyHolderCommand.self,
        ])
}
