// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import FoundationEssentials
import Glibc

/// A child process with its exact resource usage: started with `posix_spawn`, awaited with `wait4`.
final class MeasuredProcess {
    let pid: pid_t
    private let outputFile: String

    struct Result {
        let status: Int32
        let output: String
        let usage: ProcessUsage
    }

    /// Starts a program; its standard output goes to a file in `directory`.
    /// - Parameter errors: the file to which standard error is appended; `nil` to discard it.
    init(_ arguments: [String], directory: String, errors: String? = nil) throws {
        outputFile = "\(directory)/output-\(UUID().uuidString)"
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, outputFile, O_WRONLY | O_CREAT, 0o600)
        posix_spawn_file_actions_addopen(&actions, 2, errors ?? "/dev/null", O_WRONLY | O_CREAT | O_APPEND, 0o600)
        // A child inherits the signal mask, and the threads of Swift's runtime block all signals.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        var list: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        defer { for argument in list { free(argument) } }
        var child = pid_t()
        let result = posix_spawnp(&child, arguments[0], &actions, &attributes, &list, environ)
        guard result == 0 else {
            throw fail("cannot run \(arguments[0]): \(String(cString: strerror(result)))", .failure)
        }
        pid = child
    }

    /// What the process has written to standard output until now.
    var output: String {
        FileManager.default.contents(atPath: outputFile).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }

    /// Waits until the process has terminated.
    func wait() -> Result {
        var status: Int32 = 0
        var usage = rusage()
        while wait4(pid, &status, 0, &usage) < 0, errno == EINTR {}
        return Result(status: status, output: output, usage: ProcessUsage(usage))
    }

    /// Sends a signal and waits until the process has terminated. Blocks the thread: see ``stop(by:on:isolation:)``.
    func stop(by signal: Int32 = SIGTERM) {
        kill(pid, signal)
        _ = wait()
    }

    /// Sends a signal and waits until the process has terminated. The loop keeps running meanwhile: the process may
    /// need peers on that loop in order to end.
    func stop(by signal: Int32 = SIGTERM, on loop: EventLoop, isolation: isolated (any Actor)? = #isolation) async {
        kill(pid, signal)
        while wait4(pid, nil, WNOHANG, nil) == 0 { await loop.sleep(for: .milliseconds(10)) }
    }
}
