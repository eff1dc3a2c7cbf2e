// SPDX-License-Identifier: Apache-2.0

import CLinux
import Confinement
import Cryptography
import Glibc
import Logging
import NodeConfiguration
import Time

/// The supervisor: a small process that reads nothing which came over the network. It starts before the node reads its
/// configuration, and ends with the node.
package enum SupervisorProcess {
    /// What the node asks for: the first byte of a message. A descriptor comes with each.
    enum Command: UInt8 {
        /// Start a key holder that serves this connection.
        case startHolder = 1
        /// Read refused system calls from this descriptor. The second byte says whether the log is JSON.
        case watch
        /// Start a resolver that serves this connection.
        case startResolver
    }

    /// The first bytes of reports to the node.
    private enum ReportKind: UInt8 {
        case refused = 101
        case holderEnded
        case resolverEnded
    }

    /// The largest message in bytes.
    static let largestMessage = 256
    /// The most reports that wait for the node.
    static let mostReports = 1000
    private static let connection: Int32 = 3
    /// The most key holders at a time: two during a reload.
    private static let mostHolders = 4
    /// A call that is refused again is logged again after this time.
    private static let logInterval = Duration.seconds(60)
    private static let mostLogged = 100

    /// A key holder or a resolver that runs.
    private struct Child {
        enum Kind { case holder, resolver }

        let kind: Kind
        let process: pid_t
        let descriptor: Int32
        /// Whether the supervisor has ended it.
        var isReplaced = false
    }

    /// - Parameters:
    ///   - file: the configuration file.
    ///   - makeLogger: makes the logger of a format.
    package static func run(configuration file: String, makeLogger: (Configuration.LogFormat) -> Logger) -> Never {
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
        let socket = LocalSocket(owning: connection)
        let memory = clinux_memfd()
        var children: [Child] = []
        var refused: (descriptor: Int32, logger: Logger)?
        var logged: [String: MonotonicTime] = [:]
        var isWatching = false
        // A new key holder forgets what the keys were used for, except Apple's tokens.
        var holderStarts = UseLimit(burst: 10, perSecond: 0.1)
        var resolverStarts = UseLimit(burst: 10, perSecond: 0.1)
        while true {
            var waits = [pollfd(fd: socket.descriptor, events: Int16(POLLIN), revents: 0)]
            waits.append(pollfd(fd: refused?.descriptor ?? -1, events: Int16(POLLIN), revents: 0))
            waits += children.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
            guard poll(&waits, nfds_t(waits.count), -1) > 0 else { continue }
            for (child, wait) in zip(children, waits.dropFirst(2)) where wait.revents != 0 {
                let (text, isRegular) = end(of: child.process)
                close(child.descriptor)
                children.removeAll { $0.process == child.process }
                switch child.kind {
                case .holder: send([ReportKind.holderEnded.rawValue] + Array(text.utf8), to: socket)
                case .resolver where isRegular || child.isReplaced: break
                case .resolver: send([ReportKind.resolverEnded.rawValue] + Array(text.utf8), to: socket)
                }
            }
            if let (descriptor, logger) = refused, waits[1].revents != 0 {
                if waits[1].revents & Int16(POLLIN) != 0, let call = RefusedCall.next(from: descriptor) {
                    let now = MonotonicTime.now
                    if logged[call.name].map({ now - $0 >= logInterval }) ?? (logged.count < mostLogged) {
                        logged[call.name] = now
                        logger.error(
                            "the sandbox refused a system call",
                            metadata: [
                                "call": "\(call.name)", "thread": "\(call.thread)", "name": "\(name(of: call.thread))",
                            ])
                    }
                    let thread = withUnsafeBytes(of: call.thread.bigEndian) { Array($0) }
                    send([ReportKind.refused.rawValue] + thread + Array(call.name.utf8), to: socket)
                } else if waits[1].revents & Int16(POLLHUP) != 0 {
                    close(descriptor)
                    refused = nil
                }
            }
            guard waits[0].revents != 0 else { continue }
            do {
                guard let (bytes, passed) = try socket.receive(atMost: largestMessage) else { continue }
                switch (Command(rawValue: bytes[0]), passed) {
                case (.startHolder, let passed?):
                    if children.count(where: { $0.kind == .holder }) < mostHolders, holderStarts.take(at: .now),
                        let holder = start(.holder, ["key-holder", file], [passed, memory])
                    {
                        children.append(holder)
                    }
                    close(passed)
                case (.startResolver, let passed?):
                    if resolverStarts.take(at: .now) {
                        // It takes the place of the one before, which may hang.
                        endResolvers(&children)
                        if let resolver = start(.resolver, ["resolver"], [passed]) { children.append(resolver) }
                    }
                    close(passed)
                // Once, before the node reads anything of strangers.
                case (.watch, let passed?) where !isWatching:
                    isWatching = true
                    refused = (passed, makeLogger(bytes.last == 1 ? .json : .text))
                case (_, let passed): if let passed { close(passed) }
                }
            } catch {
                // The node has ended.
                endResolvers(&children)
                _exit(0)
            }
        }
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

    private static func endResolvers(_ children: inout [Child]) {
        for index in children.indices where children[index].kind == .resolver {
            kill(children[index].process, SIGKILL)
            children[index].isReplaced = true
        }
    }

    private static func start(_ kind: Child.Kind, _ arguments: [String], _ passed: [Int32]) -> Child? {
        guard let process = try? Program.start(arguments, passing: passed) else { return nil }
        let descriptor = clinux_pidfd_open(process)
        guard descriptor >= 0 else {
            // Nobody would notice its end.
            kill(process, SIGKILL)
            _ = end(of: process)
            return nil
        }
        return Child(kind: kind, process: process, descriptor: descriptor)
    }

    /// Waits for a process that has ended.
    /// - Returns: how it has ended, and whether with status 0.
    private static func end(of process: pid_t) -> (text: String, isRegular: Bool) {
        var status: Int32 = 0
        guard waitpid(process, &status, 0) == process else { return ("for an unknown reason", false) }
        let signal = clinux_exit_signal(status)
        return (signal > 0 ? "by signal \(signal)" : "with status \(clinux_exit_status(status))", status == 0)
    }

    /// A report that the node does not read in time is lost: the supervisor must not wait for it.
    private static func send(_ report: [UInt8], to socket: LocalSocket) {
        _ = report.withUnsafeBytes {
            Glibc.send(
                socket.descriptor, $0.baseAddress, min($0.count, largestMessage),
                Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
        }
    }

    /// Decodes a report; `nil` if it is none.
    static func report(in bytes: [UInt8]) -> Supervisor.Report? {
        switch bytes.first.flatMap(ReportKind.init(rawValue:)) {
        case .refused:
            guard bytes.count > 5 else { return nil }
            let thread = bytes[1..<5].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
            return .refused(
                RefusedCall(
                    name: String(decoding: bytes[5...], as: UTF8.self), thread: Int32(bitPattern: thread)))
        case .holderEnded: return .holderEnded(String(decoding: bytes.dropFirst(), as: UTF8.self))
        case .resolverEnded: return .resolverEnded(String(decoding: bytes.dropFirst(), as: UTF8.self))
        case nil: return nil
        }
    }
}
