// SPDX-License-Identifier: Apache-2.0

import CLinux
import Confinement
import Glibc

/// The node's side of its supervisor: the process that starts key holders and resolvers, and learns which system calls the
/// node's sandbox has refused.
package final class Supervisor: @unchecked Sendable {
    // Unchecked: used on the loop's thread only, once the loop runs.

    /// What the supervisor reports.
    package enum Report: Equatable, Sendable {
        /// The sandbox has refused a system call.
        case refused(RefusedCall)
        /// A key holder has ended; the text says how.
        case holderEnded(String)
        /// A resolver that the node still used has failed; the text says how it ended.
        case resolverEnded(String)
    }

    private let socket: LocalSocket
    private var reports: [Report] = []

    private init(_ socket: LocalSocket) { self.socket = socket }

    /// Starts a supervisor, from the same program as this process.
    /// - Parameter file: the configuration file, for the key holders.
    /// - Throws: ``Failure``.
    package static func start(configuration file: String) throws(Failure) -> Supervisor {
        do {
            let (ours, others) = try LocalSocket.pair(keepsMessages: true)
            _ = try Program.start(["supervisor", file], passing: [others.descriptor])
            return Supervisor(ours)
        } catch {
            throw Failure(description: "cannot start the supervisor of the node's processes")
        }
    }

    /// Why there is no supervisor.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// Starts a key holder.
    /// - Returns: the connection to it.
    func startHolder() throws(LocalSocket.Failure) -> LocalSocket {
        let (ours, others) = try LocalSocket.pair(keepsMessages: false)
        try socket.send(SupervisorCommand.startHolder.bytes, with: others.descriptor)
        return ours
    }

    /// Starts a resolver.
    /// - Returns: the connection to it. It is closed if the supervisor starts none.
    func startResolver() throws(LocalSocket.Failure) -> LocalSocket {
        let (ours, others) = try LocalSocket.pair(keepsMessages: true)
        try socket.send(SupervisorCommand.startResolver.bytes, with: others.descriptor)
        return ours
    }

    /// Lets the supervisor watch the sandbox, and closes the descriptor here.
    /// - Parameters:
    ///   - descriptor: from `SystemCallFilter.apply`.
    ///   - logsJSON: the format of the supervisor's log.
    package func watch(_ descriptor: Int32, logsJSON: Bool) throws(Failure) {
        defer { close(descriptor) }
        do {
            try socket.send(SupervisorCommand.watch(logsJSON: logsJSON).bytes, with: descriptor)
        } catch {
            throw Failure(description: "the supervisor has ended")
        }
    }

    /// What the supervisor has reported since the last call.
    package func takeReports() -> [Report] {
        while let received = try? socket.receive(atMost: SupervisorCommand.maximumBytes) {
            keep(received.bytes)
            if let passed = received.passed { close(passed) }
        }
        defer { reports = [] }
        return reports
    }

    package var hasEnded: Bool { socket.isClosed }

    private func keep(_ bytes: [UInt8]) {
        guard reports.count < SupervisorProcess.maximumReports, let report = Report(bytes) else {
            return
        }
        reports.append(report)
    }
}
