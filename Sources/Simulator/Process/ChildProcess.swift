import Subprocess
import Synchronization

/// A process of ours: started once, ended by its own pid and nothing else's.
public final class ChildProcess: Sendable {
    private let task: Task<String, any Error>
    private let status = Mutex<String?>(nil)

    /// Starts a program; its output goes nowhere. It runs in a session of its own, so that a Ctrl-C at the terminal is
    /// for us alone, who then end it.
    public init(_ program: String, _ arguments: [String]) {
        var options = PlatformOptions()
        options.createSession = true
        options.teardownSequence = [.gracefulShutDown(allowedDurationToNextStep: .seconds(3))]
        let platformOptions = options
        task = Task.detached {
            // Detached: it outlives the caller's scope, and ends when it is told to.
            let result = try await run(
                ChildProcess.executable(program), arguments: Arguments(arguments),
                platformOptions: platformOptions, output: .discarded, error: .discarded)
            return "\(result.terminationStatus)"
        }
        Task.detached { [task, self] in
            let end = await task.result
            status.withLock {
                $0 =
                    switch end {
                    case .success(let status): status
                    case .failure(let error): "could not run: \(error)"
                    }
            }
        }
    }

    private static func executable(_ program: String) -> Executable {
        program.contains("/") ? .path(.init(program)) : .name(program)
    }

    /// How it ended; nil while it runs.
    public var endStatus: String? { status.withLock { $0 } }

    /// Asks it to end, insists after three seconds, and waits until it has.
    public func end() async {
        task.cancel()
        _ = await task.result
    }

    /// Runs a program to its end.
    /// - Returns: whether it ended with status 0, and what it wrote to its output and its error output.
    public static func output(
        of program: String, _ arguments: [String], input: String = ""
    ) async throws -> (isSuccess: Bool, text: String) {
        let result = try await run(
            executable(program), arguments: Arguments(arguments), input: .string(input),
            output: .string(limit: 1 << 20),
            error: .string(limit: 1 << 20))
        return (result.terminationStatus.isSuccess, result.standardOutput + result.standardError)
    }
}
