// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import FoundationEssentials
import Simulator

struct BenchSink: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sink", abstract: "Run an HTTP/2 server that answers 200 after reading the whole body.")

    @Option(help: "The port on 127.0.0.1; 0: any free port.")
    var port: UInt16 = 0

    @Option(help: "The file to which the server's certificate authority is written, PEM.")
    var authority: String

    func run() async throws {
        let loop = EventLoop(name: "sink")
        let stop = StopSignal(on: loop)
        await stop.arm()
        let sink = Sink(on: loop)
        let (endpoint, pem) = try await sink.start(port: port)
        try Data(pem).write(to: URL(filePath: authority))
        Terminal.print("\(endpoint)")
        await stop.wait()
        await sink.stop()
    }
}
