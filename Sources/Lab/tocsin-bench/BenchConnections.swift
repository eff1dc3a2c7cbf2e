// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import TNP

struct BenchConnections: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "connections", abstract: "Measure the memory that connections take in a node.",
        discussion: """
            Opens connections, each on a circuit of its own: first they send only HELLO, then also an incomplete \
            frame. All other limits of the node are the defaults.

            EXAMPLES
              tocsin-bench connections
              tocsin-bench connections --connections 1000
            """)

    @Option(help: "Number of connections, 1 to 10000.")
    var connections = 10_000

    func validate() throws {
        guard (1...10_000).contains(connections) else {
            throw ValidationError("--connections must be 1 to 10000, not \(connections)")
        }
    }

    func run() async throws {
        guard OpenFiles.raiseLimit() > connections + 100 else {
            throw fail("the limit of open files is too low: ulimit -n \(connections + 200)", .failure)
        }
        try await TestBed.run("connections", more: "", circuitIDs: true) { bed in
            let crowd = Crowd(bed)
            let before = await bed.nodeKilobytes
            Terminal.progress("connecting …")
            try await crowd.connect(connections)
            let silent = await bed.nodeKilobytes
            Terminal.progress("sending an incomplete frame on each …")
            await crowd.beginFrames()
            let partial = await bed.nodeKilobytes
            await crowd.close()
            Terminal.endProgress()
            func row(_ title: String, _ kilobytes: Int) -> String {
                let each = Double(kilobytes - before) / Double(connections)
                return Terminal.padded(title, 48)
                    + Terminal.padded("\(Terminal.number(Double(kilobytes) / 1024, digits: 0)) MB", 8, right: true)
                    + Terminal.padded("\(Terminal.number(each, digits: 1)) KiB each", 16, right: true)
            }
            Terminal.print(
                """
                \(row("node without connections", before))
                \(row("\(connections) connections after HELLO", silent))
                \(row("the same, each with an incomplete frame of 8 kB", partial))
                """)
        }
    }
}

/// Holds connections open.
private actor Crowd {
    private nonisolated let loop = EventLoop(name: "crowd")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let node: Endpoint
    private var circuits = TorCircuits(after: 0)
    private var streams: [ByteStream] = []

    /// The wait until the node has processed what was sent.
    private static let settling = Duration.seconds(2)
    /// A frame of the largest size that a node accepts, without its last byte.
    private static let incompleteFrame =
        [0, 0, 0x20, 0, FrameType.submit.rawValue] + [UInt8](repeating: 0, count: Frame.defaultMaximumLength - 2)

    init(_ bed: TestBed) { node = bed.endpoint }

    func connect(_ count: Int) async throws {
        for number in 0..<count {
            // Paced, because a unix socket refuses connections when its backlog is full.
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
            stream.write(Self.incompleteFrame)
            await loop.sleep(for: .microseconds(100))
        }
        await loop.sleep(for: Self.settling)
    }

    func close() {
        for stream in streams { stream.close() }
        streams = []
    }
}
