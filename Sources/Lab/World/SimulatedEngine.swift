// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Redis
import Time

/// One server of a simulated engine. It speaks RESP 2, and runs the functions that nodes load.
package final class SimulatedEngine: @unchecked Sendable {
    // Unchecked: a simulation has one thread.

    /// Where the server listens.
    package let endpoint: Endpoint
    /// How long the server waits before it executes a command that has arrived.
    package var delay = Duration.zero
    /// When the last command takes effect that came before.
    private var lastTurn = MonotonicTime(nanoseconds: 0)
    /// Whether the server acts as the primary; a former primary may do so until it is demoted.
    package internal(set) var isPrimary: Bool
    /// Whether the server runs.
    package var isRunning: Bool { process.map { !$0.isKilled } ?? false }

    /// Receives what a command has changed.
    var replicate: ([(key: [UInt8], entry: EngineStore.Entry?)]) -> Void = { _ in }

    private let simulation: Simulation
    private let machine: String
    private var process: SimulatedProcess?
    private var listener: Listener?
    private var clients: [ObjectIdentifier: EngineClient] = [:]
    var store = EngineStore()
    private var functions: EngineFunctions!

    init(_ simulation: Simulation, at endpoint: Endpoint, on machine: String, isPrimary: Bool) {
        (self.simulation, self.endpoint, self.machine, self.isPrimary) = (simulation, endpoint, machine, isPrimary)
    }

    /// Starts the server with the data and the functions that it had when it ended.
    func start() throws {
        let process = simulation.process("engine at \(endpoint)", on: machine)
        self.process = process
        if functions == nil { functions = EngineFunctions { [unowned self] in store.execute($0, at: now) } }
        let loop = simulation.loop(in: process, name: "engine")
        listener = try simulation.run(as: process) {
            try Listener(endpoint, on: loop) { [unowned self] stream in
                let client = EngineClient(stream) { [unowned self] words, reply in
                    inTurn { [unowned self] in reply(answer(words)) }
                } ended: { [unowned self] in
                    clients[$0] = nil
                }
                clients[ObjectIdentifier(client)] = client
            }
        }
    }

    /// Ends the server at once. Its data and functions stay, as on a disk.
    func kill() {
        guard let process else { return }
        simulation.kill(process)
        (self.process, listener, clients) = (nil, nil, [:])
    }

    /// Forgets the data and the functions.
    func lose() {
        store = EngineStore()
        functions = nil
    }

    /// The server's wall clock in microseconds.
    private var now: Int64 { UnixTime.milliseconds * 1000 }

    /// Calls `body` after ``delay``, but not before those that came earlier.
    private func inTurn(_ body: @escaping () -> Void) {
        let now = MonotonicTime.now
        guard delay > .zero || lastTurn >= now, let process else { return body() }
        lastTurn = max(now + delay, lastTurn)
        simulation.schedule(after: lastTurn - now, in: process, body)
    }

    private func answer(_ words: [[UInt8]]) -> RedisReply {
        switch words.first.map({ String(decoding: $0, as: UTF8.self) }) {
        case "PING": return .status("PONG")
        case "AUTH": return .status("OK")
        case "ROLE": return .array([.bytes(Array((isPrimary ? "master" : "slave").utf8))])
        case "FUNCTION" where words.count == 3: return functions.load(String(decoding: words[2], as: UTF8.self))
        case "FCALL":
            guard isPrimary else { return .error("READONLY You can't write against a read only replica.") }
            guard words.count > 2, let keys = Int(String(decoding: words[2], as: UTF8.self)), words.count >= 3 + keys
            else { return .error("ERR wrong number of arguments") }
            let reply = functions.call(
                String(decoding: words[1], as: UTF8.self), keys: words[3..<3 + keys], arguments: words[(3 + keys)...])
            replicate(store.takeChanges())
            return reply
        default: return .error("ERR unknown command")
        }
    }
}

/// A connection of a client to a simulated server or Sentinel.
final class EngineClient: ByteStreamHandler {
    private let stream: ByteStream
    private let execute: ([[UInt8]], @escaping (RedisReply) -> Void) -> Void
    private let ended: (ObjectIdentifier) -> Void
    private let reader = ReplyReader()

    /// - Parameters:
    ///   - execute: executes a command, and passes its reply on.
    ///   - ended: lets go of the object with this identity.
    init(
        _ stream: ByteStream, execute: @escaping ([[UInt8]], @escaping (RedisReply) -> Void) -> Void,
        ended: @escaping (ObjectIdentifier) -> Void
    ) {
        (self.stream, self.execute, self.ended) = (stream, execute, ended)
        stream.handler = self
        stream.resumeReading()
    }

    func stream(_ stream: ByteStream, received bytes: RawSpan) {
        // A command has the form of a reply: an array of strings.
        do throws(RedisError) {
            try reader.append(bytes)
            while let command = try reader.next() {
                execute(command.elements?.compactMap(\.bytes) ?? []) { [weak self] in
                    self?.stream.write($0.encoded)
                }
            }
        } catch {
            stream.close()
            ended(ObjectIdentifier(self))
        }
    }

    func stream(_ stream: ByteStream, ended reason: StreamError) { ended(ObjectIdentifier(self)) }
}

extension RedisReply {
    /// The bytes of a reply in RESP 2.
    var encoded: [UInt8] {
        switch self {
        case .status(let text): Array("+\(text)\r\n".utf8)
        case .error(let text): Array("-\(text)\r\n".utf8)
        case .integer(let number): Array(":\(number)\r\n".utf8)
        case .null: Array("$-1\r\n".utf8)
        case .bytes(let bytes): Array("$\(bytes.count)\r\n".utf8) + bytes + Array("\r\n".utf8)
        case .array(let elements): Array("*\(elements.count)\r\n".utf8) + elements.flatMap(\.encoded)
        }
    }
}
