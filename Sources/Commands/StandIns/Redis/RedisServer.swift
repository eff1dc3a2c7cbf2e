// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import FoundationEssentials
import Glibc
import Synchronization
import Tor

/// A real Redis server on this machine, in a directory of its own, with the settings that a cluster of nodes needs. It
/// can be killed and started again.
package final class RedisServer: Sendable {
    package struct StartError: Error, CustomStringConvertible {
        /// The last lines that it wrote.
        package let description: String
    }

    private struct Process {
        var child: ChildProcess?
        var pid: Int32?
        var lines: [String] = []
        var isReady = false
        var hasEnded = false
    }

    /// The same program is the server and its tools: it becomes the one under whose name it starts. Debian's package of
    /// the tools has it and, unlike the package of the server, starts no service.
    private static let program = "/usr/bin/redis-check-rdb"
    private static let startTimeout = Duration.seconds(10)

    /// The directory with the server's files.
    package let directory: String
    /// The address of the server: a port, or a unix socket.
    package let endpoint: Endpoint
    private let settings: [String]
    private let options: [String]
    private let process = Mutex(Process())

    private init(
        _ options: [String] = [], host: String = "127.0.0.1", port: UInt16?,
        settings: (_ directory: String) throws -> [String]
    ) throws {
        var template = Array("/tmp/tocsin-redis-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw StartError(description: String(cString: strerror(errno))) }
        directory = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        endpoint = port.map { .tcp(host: host, port: $0) } ?? .unix(path: "\(directory)/redis")
        self.options = options
        self.settings = ["dir \(directory)", "bind \(host)", "protected-mode no"] + (try settings(directory))
    }

    /// A server that does not run yet.
    /// - Parameters:
    ///   - settings: further lines of its configuration.
    ///   - host: the address to listen on: on loopback, or in a network namespace.
    ///   - port: on `host`; `nil` for a unix socket, which no other machine can reach.
    ///   - identity: the server's certificate, if its port speaks TLS.
    package convenience init(
        _ settings: [String] = [], host: String = "127.0.0.1", port: UInt16? = nil, identity: CertifiedKey? = nil
    ) throws {
        try self.init(host: host, port: port) { directory in
            let own = ["save \"\"", "appendonly yes", "maxmemory-policy noeviction"] + settings
            guard let port else { return own + ["port 0", "unixsocket \(directory)/redis", "unixsocketperm 700"] }
            guard let identity else { return own + ["port \(port)"] }
            try Data(identity.certificates).write(to: URL(filePath: "\(directory)/certificate.pem"))
            try identity.pem?.withBytes { key in
                try Data(key.withUnsafeBytes { Array($0) }).write(to: URL(filePath: "\(directory)/key.pem"))
            }
            return own + [
                "port 0", "tls-port \(port)", "tls-cert-file \(directory)/certificate.pem",
                "tls-key-file \(directory)/key.pem", "tls-auth-clients no",
            ]
        }
    }

    /// A Sentinel that watches a primary on loopback, and does not run yet. Its quorum is 1: it decides on a failover
    /// alone.
    package convenience init(sentinelOf cluster: String, primary: UInt16, port: UInt16) throws {
        try self.init(["--sentinel"], port: port) { _ in
            [
                "port \(port)", "sentinel monitor \(cluster) 127.0.0.1 \(primary) 1",
                "sentinel down-after-milliseconds \(cluster) 1000", "sentinel failover-timeout \(cluster) 5000",
            ]
        }
    }

    deinit { try? FileManager.default.removeItem(atPath: directory) }

    /// Starts the server, with what an earlier start has stored, and waits until it serves.
    /// - Throws: ``StartError``.
    package func start() async throws {
        let file = "\(directory)/redis.conf"
        try Data(settings.joined(separator: "\n").utf8).write(to: URL(filePath: file))
        process.withLock { $0 = Process() }
        let program = "\(directory)/redis-server"
        try? FileManager.default.removeItem(atPath: program)
        try FileManager.default.createSymbolicLink(atPath: program, withDestinationPath: Self.program)
        let child = ChildProcess(program, [file] + options) { [weak self] event in self?.observe(event) }
        process.withLock { $0.child = child }
        let deadline = ContinuousClock.now + Self.startTimeout
        while !process.withLock({ $0.isReady }) {
            let (hasEnded, lines) = process.withLock { ($0.hasEnded, $0.lines) }
            guard !hasEnded, .now < deadline else {
                await child.terminate()
                throw StartError(description: "redis-server: " + lines.suffix(5).joined(separator: "\n"))
            }
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    private func observe(_ event: ChildProcess.Event) {
        process.withLock { process in
            switch event {
            case .started(let pid): process.pid = pid
            case .line(let line):
                process.lines = process.lines.suffix(20) + [line]
                if line.contains("eady to accept connections") || line.contains("+monitor master") {
                    process.isReady = true
                }
            case .terminated: process.hasEnded = true
            }
        }
    }

    /// The process id of the server; `nil` before its start.
    package var pid: Int32? { process.withLock { $0.pid } }

    /// Stops the server with SIGTERM, after three seconds with SIGKILL, and waits until it has exited.
    package func stop() async { await process.withLock { $0.child }?.terminate() }

    /// Ends the server at once (SIGKILL), and waits until it has exited.
    package func kill() async { await signal(SIGKILL) }

    /// Removes what a stopped server has stored.
    package func eraseState() throws { try FileManager.default.removeItem(atPath: "\(directory)/appendonlydir") }

    /// Stops the server for a while (SIGSTOP); its clients see no more than silence.
    package func freeze() { send(SIGSTOP) }

    /// Lets a frozen server go on.
    package func thaw() { send(SIGCONT) }

    private func send(_ number: Int32) {
        if let pid = process.withLock({ $0.hasEnded ? nil : $0.pid }) { Glibc.kill(pid, number) }
    }

    private func signal(_ number: Int32) async {
        send(number)
        while !process.withLock({ $0.hasEnded || $0.pid == nil }) { try? await Task.sleep(for: .milliseconds(5)) }
    }
}
