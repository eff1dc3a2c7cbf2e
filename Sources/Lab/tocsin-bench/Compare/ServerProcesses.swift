// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import FoundationEssentials
import Glibc
import StandIns

/// A server on a port of 127.0.0.1.
struct LocalServer {
    let process: MeasuredProcess
    let port: UInt16

    var pid: Int32 { process.pid }
    var address: String { "127.0.0.1:\(port)" }
}

/// The servers of a benchmark, each in a process of its own.
final class ServerProcesses {
    /// The directory of all files.
    let directory: String
    /// The ports of the servers.
    let ports = PortReservations()
    private var processes: [MeasuredProcess] = []

    private static let patience = 200
    private static let pollMicroseconds: UInt32 = 50_000

    init(directory: String) { self.directory = directory }

    /// Starts a server and waits until it accepts connections.
    func start(_ arguments: [String], port: UInt16) throws -> LocalServer {
        let log = "\(directory)/log-\(port)"
        let process = try MeasuredProcess(arguments, directory: directory, errors: log)
        processes.append(process)
        for _ in 0..<Self.patience {
            if LocalPort.isOpen(port) { return LocalServer(process: process, port: port) }
            // Polls, because these programs do not report that they listen.
            usleep(Self.pollMicroseconds)
        }
        let errors = FileManager.default.contents(atPath: log).map { String(decoding: $0, as: UTF8.self) } ?? ""
        throw fail("\(arguments[0]) did not start:\n\(errors.suffix(2000))", .failure)
    }

    /// Stops a server and waits for its end.
    func stop(_ server: LocalServer) {
        processes.removeAll { $0.pid == server.pid }
        server.process.stop()
    }

    /// Terminates all servers, by their pids.
    func stop() {
        for process in processes { process.stop() }
        processes = []
    }
}
