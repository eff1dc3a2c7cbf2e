// SPDX-License-Identifier: Apache-2.0

import CLinux
import Confinement
import Cryptography
import Glibc
import Logging
import NodeConfiguration
import Time

/// The supervisor: a small process that reads nothing which came over the network. It starts before the node reads its
/// configuration, and ends with the node. ``SupervisorState`` decides.
package final class SupervisorProcess {
    /// The largest number of reports that the node takes at a time; further ones are dropped.
    static let maximumReports = 1000
    private static let connection: Int32 = 3

    private let configuration: String
    private let makeLogger: (Configuration.LogFormat) -> Logger
    private let socket = LocalSocket(owning: SupervisorProcess.connection)
    private let memory = clinux_memfd()
    private var state = SupervisorState()
    /// The processes that run, each with a descriptor that becomes readable at its end.
    private var children: [(process: pid_t, descriptor: Int32)] = []
    private var refused: (descriptor: Int32, logger: Logger)?

    private init(_ configuration: String, _ makeLogger: @escaping (Configuration.LogFormat) -> Logger) {
        self.configuration = configuration
        self.makeLogger = makeLogger
    }

    /// - Parameters:
    ///   - file: the configuration file.
    ///   - makeLogger: makes the logger of a format.
    package static func run(
        configuration file: String, makeLogger: @escaping (Configuration.LogFormat) -> Logger
    ) -> Never {
        _ = ProcessHardening.forbidCoreDumps()
        var rules = FileRules()
        // Key holders and resolvers inherit these rules, and narrow them.
        rules.executable = ["/"]
        rules.listeningPorts = []
        do {
            _ = try rules.apply()
            try SystemCallFilter.supervisor.apply(.refuse)
        } catch {
            makeLogger(.text).error("the supervisor of the node's processes cannot confine itself: \(error)")
        }
        let process = SupervisorProcess(file, makeLogger)
        while true { process.serve() }
    }

    /// Waits for one or several events, and handles them.
    private func serve() {
        var waits = [pollfd(fd: socket.descriptor, events: Int16(POLLIN), revents: 0)]
        waits.append(pollfd(fd: refused?.descriptor ?? -1, events: Int16(POLLIN), revents: 0))
        waits += children.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
        guard poll(&waits, nfds_t(waits.count), -1) > 0 else { return }
        for (child, wait) in zip(children, waits.dropFirst(2)) where wait.revents != 0 {
            let (text, isRegular) = Self.waitForExit(of: child.process)
            close(child.descriptor)
            children.removeAll { $0.process == child.process }
            perform(state.ended(child.process, text, isRegular: isRegular))
        }
        if let refused, waits[1].revents != 0 {
            if waits[1].revents & Int16(POLLIN) != 0, let call = RefusedCall.next(from: refused.descriptor) {
                perform(state.refused(call, now: .now))
            } else if waits[1].revents & Int16(POLLHUP) != 0 {
                close(refused.descriptor)
                self.refused = nil
            }
        }
        if waits[0].revents != 0 { receive() }
    }

    private func receive() {
        do {
            guard let (bytes, passed) = try socket.receive(atMost: SupervisorCommand.maximumBytes) else { return }
            guard let passed else { return }
            var isKept = false
            if let command = SupervisorCommand(bytes) {
                isKept = perform(state.received(command, now: .now), passed)
            }
            if !isKept { close(passed) }
        } catch {
            // The node has ended.
            perform(state.nodeEnded())
            _exit(0)
        }
    }

    /// - Parameter passed: the descriptor that came with a command.
    /// - Returns: whether the supervisor keeps it.
    @discardableResult private func perform(_ actions: [SupervisorState.Action], _ passed: Int32 = -1) -> Bool {
        var isKept = false
        for action in actions {
            switch action {
            case .start(.holder): start(.holder, ["key-holder", configuration], [passed, memory])
            case .start(.resolver): start(.resolver, ["resolver"], [passed])
            case .kill(let process): kill(process, SIGKILL)
            case .watch(let logsJSON):
                refused = (passed, makeLogger(logsJSON ? .json : .text))
                isKept = true
            case .log(let call):
                refused?.logger.error(
                    "the sandbox refused a system call",
                    metadata: [
                        "call": "\(call.name)", "thread": "\(call.thread)", "name": "\(Self.name(of: call.thread))",
                    ])
            case .report(let report): send(report.bytes)
            }
        }
        return isKept
    }

    /// The name of a thread: `tor`, or one of the node's.
    private static func name(of thread: Int32) -> String {
        var bytes = [UInt8](repeating: 0, count: 16)
        let file = open("/proc/\(thread)/comm", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return "" }
        defer { close(file) }
        let count = read(file, &bytes, bytes.count)
        // Without the line feed at the end.
        return String(decoding: bytes.prefix(max(0, count - 1)), as: UTF8.self)
    }

    private func start(_ kind: SupervisorState.Kind, _ arguments: [String], _ passed: [Int32]) {
        guard let process = try? Program.start(arguments, passing: passed) else { return }
        let descriptor = clinux_pidfd_open(process)
        guard descriptor >= 0 else {
            // Without the descriptor, the supervisor would not notice the end of the process.
            kill(process, SIGKILL)
            _ = Self.waitForExit(of: process)
            return
        }
        children.append((process, descriptor))
        state.started(kind, process)
    }

    /// Waits for a process that has ended.
    /// - Returns: how it has ended, and whether with status 0.
    private static func waitForExit(of process: pid_t) -> (text: String, isRegular: Bool) {
        var status: Int32 = 0
        guard waitpid(process, &status, 0) == process else { return ("for an unknown reason", false) }
        let signal = clinux_exit_signal(status)
        return (signal > 0 ? "by signal \(signal)" : "with status \(clinux_exit_status(status))", status == 0)
    }

    /// Sends a report. It is lost if the buffer is full: the supervisor must not wait for the node.
    private func send(_ report: [UInt8]) {
        _ = report.withUnsafeBytes {
            Glibc.send(
                socket.descriptor, $0.baseAddress, min($0.count, SupervisorCommand.maximumBytes),
                Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
        }
    }
}
