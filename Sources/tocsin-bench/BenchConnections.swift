// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import TNP

struct BenchConnections: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "connections", abstract: "Memory that connections take in a node.",
        discussion: """
            Opens connections, each of a circuit of its own: first such that have said HELLO and are silent, then, on the
            same, half a frame that is never ended. A node with its default limits otherwise.

            EXAMPLES
              tocsin bench connections
              tocsin bench connections --connections 1000
            """)

    @Option(help: "Connections, 1 to 10000.")
    var connections = 10_000

    func validate() throws {
        guard (1...10_000).contains(connections) else {
            throw ValidationError("--connections must be 1 to 10000, not \(connections)")
        }
    }

    func run() async throws {
        guard OpenFiles.allowMost() > connections + 100 else {
            throw fail("too few open files are allowed for that: ulimit -n \(connections + 200)", ExitStatus.failure)
        }
        try await TestBed.run("connections", more: "", circuitIDs: true) { bed in
            let crowd = Crowd(bed)
            let before = await bed.nodeKilobytes
            Terminal.progress("connecting …")
            try await crowd.come(connections)
            let silent = await bed.nodeKilobytes
            Terminal.progress("half a frame on each …")
            await crowd.beginFrames()
            let stuffed = await bed.nodeKilobytes
            await crowd.leave()
            Terminal.endProgress()
            func row(_ title: String, _ kilobytes: Int) -> String {
                let each = Double(kilobytes - before) / Double(connections)
                return Terminal.padded(title, 44)
                    + Terminal.padded("\(Terminal.number(Double(kilobytes) / 1000, digits: 0)) MB", 8, right: true)
                    + Terminal.padded("\(Terminal.number(each, digits: 1)) kB each", 16, right: true)
            }
            Terminal.print(
                """
                \(row("node without connections", before))
                \(row("\(connections) connections that have said HELLO", silent))
                \(row("the same, each within a frame of 8 kB", stuffed))
                """)
        }
    }
}

/// Connections that are held open.
private actor Crowd {
    private nonisolated let loop = EventLoop(name: "crowd")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let node: Endpoint
    private var circuits = TorCircuits(after: 0)
    private var streams: [ByteStream] = []

    /// Until the node has taken what was sent.
    private static let settling = Duration.seconds(2)
    /// A frame's head and all of its bytes but one, as large as a node takes it.
    private static let unendedFrame =
        [0, 0, 0x20, 0, FrameType.submit.rawValue] + [UInt8](repeating: 0, count: Frame.defaultMaximumLength - 2)

    init(_ bed: TestBed) { node = bed.endpoint }

    func come(_ count: Int) async throws {
        for number in 0..<count {
            // No faster than the node accepts: a unix socket refuses who finds its backlog full.
            if number.isMultiple(of: 100) { await loop.sleep(for: .milliseconds(50)) }
            let stream = try await loop.dial(node, timeout: .seconds(10))
            var bytes = circuits.next().proxyLine
            bytes.append(Hello(agent: ""))
            stream.write(bytes)
            stream.resumeReading()
            streams.append(stream)
        }
        await loop.sleep(for: Self.settling)
    }

    func beginFrames() async {
        for stream in streams {
            stream.write(Self.unendedFrame)
            await loop.sleep(for: .microseconds(100))
        }
        await loop.sleep(for: Self.settling)
    }

    func leave() {
        for stream in streams { stream.close() }
        streams = []
    }
}
