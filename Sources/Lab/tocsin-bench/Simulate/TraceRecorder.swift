// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import Glibc
import Time
import World

/// Records what happens in a simulation: as a hash, and as lines in a file if there is one. Two runs are the same if
/// their hashes are.
final class TraceRecorder {
    private let simulation: Simulation
    private let file: UnsafeMutablePointer<FILE>?
    private var events = FNV1a()

    init(path: String?, simulation: Simulation) throws {
        self.simulation = simulation
        file = path.flatMap { fopen($0, "w") }
        if let path, file == nil { throw fail("cannot write \(path): \(String(cString: strerror(errno)))", .failure) }
    }

    deinit { if let file { fclose(file) } }

    /// The hash of all events.
    var hash: String { String(events.value, radix: 16) }

    func record(_ text: String) {
        events.add("\(simulation.now.nanoseconds) \(text)".utf8)
        guard let file else { return }
        fputs("\(simulation.steps) \(simulation.now.nanoseconds) \(text)\n", file)
    }

    /// Records an event of the network; bytes when they are read, not when they are sent.
    func record(_ connection: SimulatedConnection, _ event: SimulatedNetwork.Event) {
        switch event {
        case .opened: record("\(connection.number) \(connection.endpoint) opened")
        case .closed(let byListener):
            record("\(connection.number) \(connection.endpoint) closed by \(byListener ? "listener" : "dialer")")
        case .sent: break
        case .read(let bytes, let byListener):
            events.add(bytes)
            record("\(connection.number) \(connection.endpoint) \(byListener ? "<" : ">") \(bytes.count) bytes")
        }
    }
}
