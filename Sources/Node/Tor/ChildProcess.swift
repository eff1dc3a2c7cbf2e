// SPDX-License-Identifier: Apache-2.0

import Subprocess
import Synchronization
import SystemPackage

/// A child process, started once. Signals go to its pid, never to a process group.
///
/// PR_SET_PDEATHSIG is not used: the kernel sends that signal as soon as the thread that started the child exits, and
/// Swift's threads come and go. A child that must not outlive this process has to watch this process itself.
package final class ChildProcess: Sendable {
    /// An event of the process, in this order: `started` at most once, any number of `line`, `terminated` once.
    package enum Event: Sendable {
        /// The process runs under this pid.
        case started(pid: Int32)
        /// The process wrote a line to its standard output or standard error.
        case line(String)
        /// The process has exited or could not be started.
        case terminated(status: String)
    }

    private let task: Task<String, any Error>
    private let status = Mutex<String?>(nil)

    /// Starts a program and reports its events. The program runs in its own session, so that Ctrl-C at the terminal
    /// signals only this process, which then terminates the child.
    /// - Parameter observe: called on the system's threads, one call at a time.
    package init(
        _ program: String, _ arguments: [String], observe: @escaping @Sendable (Event) -> Void = { _ in }
    ) {
        // Detached: the process outlives the caller's scope, until `terminate()`.
        task = Task.detached {
            let result = try await run(
                ChildProcess.executable(program), arguments: Arguments(arguments),
                platformOptions: ChildProcess.options, input: .none, output: .sequence,
                error: .combinedWithOutput
            ) { execution in
                observe(.started(pid: execution.processIdentifier.value))
                var splitter = LineSplitter()
                for try await buffer in execution.standardOutput {
                    let lines = buffer.withUnsafeBytes { splitter.lines(of: $0) }
                    for line in lines { observe(.line(line)) }
                }
                if let line = splitter.finish() { observe(.line(line)) }
            }
            return "\(result.terminationStatus)"
        }
        Task.detached { [task, self] in
            let text =
                switch await task.result {
                case .success(let status): status
                case .failure(let error): "could not run: \(error)"
                }
            status.withLock { $0 = text }
            observe(.terminated(status: text))
        }
    }

    private static var options: PlatformOptions {
        var options = PlatformOptions()
        options.createSession = true
        options.teardownSequence = [.gracefulShutDown(allowedDurationToNextStep: .seconds(3))]
        return options
    }

    private static func executable(_ program: String) -> Executable {
        program.contains("/") ? .path(.init(program)) : .name(program)
    }

    /// The termination status; `nil` while the process runs.
    package var terminationStatus: String? { status.withLock { $0 } }

    /// Sends SIGTERM, after three seconds SIGKILL, and waits until the process has exited.
    package func terminate() async {
        task.cancel()
        _ = await task.result
    }

    /// Runs a program until it exits.
    /// - Parameter timeout: the time after which the program is terminated; `nil` for none.
    /// - Returns: whether the exit status was 0, and the standard output followed by the standard error.
    package static func output(
        of program: String, _ arguments: [String], input: String = "", timeout: Duration? = nil
    ) async throws -> (isSuccess: Bool, text: String) {
        let running = Task {
            let result = try await run(
                executable(program), arguments: Arguments(arguments), input: .string(input),
                output: .string(limit: 1 << 20), error: .string(limit: 1 << 20))
            return (result.terminationStatus.isSuccess, result.standardOutput + result.standardError)
        }
        let alarm = timeout.map { timeout in
            Task {
                try await Task.sleep(for: timeout)
                running.cancel()
            }
        }
        defer { alarm?.cancel() }
        return try await withTaskCancellationHandler {
            try await running.value
        } onCancel: {
            running.cancel()
        }
    }
}
