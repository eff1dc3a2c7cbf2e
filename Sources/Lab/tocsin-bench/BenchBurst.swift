// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import FoundationEssentials
import Time

struct BenchBurst: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "burst", abstract: "Ring a great number of phones for the first time, then stop the node.",
        discussion: """
            The node keeps what it learns about each phone on disk. Prints how long it takes to stop after the burst, to \
            start again, and the memory of both processes.

            With --defaults, the node's tables have their default sizes. The phones ring at 3300 a second, which keeps the \
            replay window full: it is a minute long then.

            EXAMPLES
              tocsin-bench burst --phones 1500000
              tocsin-bench burst --phones 500000 --defaults
            """)

    @Option(help: "Number of phones, 1000 to 3000000.")
    var phones = 1_500_000

    @Flag(help: "Give the node's tables their default sizes.")
    var defaults = false

    func validate() throws {
        guard (1000...3_000_000).contains(phones) else {
            throw ValidationError("--phones must be 1000 to 3000000, not \(phones)")
        }
    }

    func run() async throws {
        let directory = URL.temporaryDirectory.appending(
            path: "tocsin-bench-burst-\(ProcessInfo.processInfo.processIdentifier)"
        ).path()
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let servers = ServerProcesses(directory: directory)
        defer { servers.stop() }
        let sink = try NginxServer.startSink(on: servers)
        let node = try ComparedNode(
            "node", on: servers, sink: sink, envelopes: phones + 100_000, hasDefaultBounds: defaults)
        let before = ProcessUsage(of: node.server.pid).peakKilobytes
        Terminal.progress("\(phones) phones …")
        let load = try BenchProgram(directory: directory).load(
            phones, to: node.server.address,
            ["--connections", "50", "--in-flight", "20"] + (defaults ? ["--rate", "3300"] : []),
            measuring: [node.server.pid])
        Terminal.progress("stopping …")
        let begin = MonotonicTime.now
        servers.stop(node.server)
        let stopped = MonotonicTime.now
        Terminal.progress("starting …")
        let second = try node.restart(on: servers)
        let started = MonotonicTime.now
        let memory = ProcessUsage(of: second.pid).peakKilobytes
        Terminal.endProgress()
        func seconds(_ time: Duration) -> String { Terminal.number(time.milliseconds / 1000, digits: 2) }
        Terminal.print(
            """
            phones a second                  \(Terminal.number(Double(phones) / load.seconds, digits: 0))
            CPU s per 100,000                \(Terminal.number(load.others[0].cpuSeconds / Double(phones) * 100_000, digits: 2))
            peak RSS before the burst, MB    \(before / 1024)
            peak RSS after the burst, MB     \(load.others[0].peakKilobytes / 1024)
            stop, s                          \(seconds(stopped - begin))
            next start, s                    \(seconds(started - stopped))
            peak RSS after it, MB            \(memory / 1024)
            """)
    }
}
