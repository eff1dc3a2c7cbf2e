// SPDX-License-Identifier: Apache-2.0

import Subprocess
import Synchronization

/// A process of ours: started once, ended by its own pid and nothing else's.
///
/// The kernel cannot be asked to end it when we die (PR_SET_PDEATHSIG): it would do so already when the thread that
/// started it ends, and Swift's threads come and go. Whoever starts something that must not outlive us has it watch us.
package final class ChildProcess: Sendable {
    /// What happens to it, in this order: once started, any number of lines, once ended.
    package enum Event: Sendable {
        /// It runs under this pid.
        case started(pid: Int32)
        /// It wrote a line to its output or its error output.
        case line(String)
        /// It has ended, or could not be started.
        case ended(status: String)
    }

    private let task: Task<String, any Error>
    private let status = Mutex<String?>(nil)

    /// Starts a program; its output goes nowhere. It runs in a session of its own, so that a Ctrl-C at the terminal is
    /// for us alone, who then end it.
    package convenience init(_ program: String, _ arguments: [String]) {
        self.init {
            let result = try await run(
                Self.executable(program), arguments: Arguments(arguments), platformOptions: Self.options,
                output: .discarded, error: .discarded)
            return "\(result.terminationStatus)"
        }
    }

    /// Starts a program and tells of what happens to it.
    /// - Parameter observe: is called on threads of the system's, one call after the other.
    package convenience init(
        _ program: String, _ arguments: [String], observe: @escaping @Sendable (Event) -> Void
    ) {
        self.init {
            let result = try await run(
                Self.executable(program), arguments: Arguments(arguments), platformOptions: Self.options,
                input: .none, output: .sequence, error: .combinedWithOutput
            ) { execution in
                observe(.started(pid: execution.processIdentifier.value))
                var splitter = LineSplitter()
                for try await buffer in execution.standardOutput {
                    let lines = buffer.withUnsafeBytes { splitter.lines(of: $0) }
                    for line in lines { observe(.line(line)) }
                }
                if let line = splitter.end() { observe(.line(line)) }
            }
            return "\(result.terminationStatus)"
        } ended: {
            observe(.ended(status: $0))
        }
    }

    private init(
        run: @escaping @Sendable () async throws -> String, ended: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        // Detached: it outlives the caller's scope, and ends when it is told to.
        task = Task.detached { try await run() }
        Task.detached { [task, self] in
            let text =
                switch await task.result {
                case .success(let status): status
                case .failure(let error): "could not run: \(error)"
                }
            status.withLock { $0 = text }
            ended(text)
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

    /// How it ended; nil while it runs.
    package var endStatus: String? { status.withLock { $0 } }

    /// Asks it to end, insists after three seconds, and waits until it has.
    package func end() async {
        task.cancel()
        _ = await task.result
    }

    /// Runs a program to its end.
    /// - Parameter timeout: is ended after this time, where given.
    /// - Returns: whether it ended with status 0, and what it wrote to its output and its error output.
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
