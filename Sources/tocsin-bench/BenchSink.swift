// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import FoundationEssentials
import Simulator

struct BenchSink: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sink", abstract: "An HTTP/2 server that answers 200 once the whole body is there.")

    @Option(help: "Port of 127.0.0.1; 0: any that is free.")
    var port: UInt16 = 0

    @Option(help: "Where the authority of its certificate is written.")
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
