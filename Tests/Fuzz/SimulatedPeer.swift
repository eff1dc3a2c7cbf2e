// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import HTTP2
import Time
import Tor
import World

/// A hostile peer on a simulated network: connections without sockets and threads, in virtual time.
final class SimulatedPeer: @unchecked Sendable {
    // Unchecked: a simulation has one thread.
    static let shared = SimulatedPeer()

    private let simulation = Simulation(seed: 1)
    private let loop: EventLoop
    private let peerLoop: EventLoop
    private let process: SimulatedProcess
    private var listener: Listener?
    private var pieces: [[UInt8]] = []
    private var hostile: [HostileStream] = []

    private static let endpoint = Endpoint.tcp(host: "peer.test", port: 443)
    /// Longer than all timeouts together.
    private static let maximumRun = Duration.seconds(120)

    private init() {
        process = simulation.process("fuzzed")
        let peer = simulation.process("peer")
        // The same for each input: what breaks shall break again.
        let moment = Duration.microseconds(100)
        simulation.network.defaultConditions = SimulatedNetwork.Conditions(latency: moment...moment, splitPerMille: 0)
        loop = simulation.loop(in: process, name: "fuzzed")
        peerLoop = simulation.loop(in: peer, name: "peer")
        simulation.run(as: peer) {
            do {
                listener = try Listener(Self.endpoint, on: peerLoop) { [unowned self] stream in
                    hostile.append(HostileStream(stream, says: pieces))
                }
            } catch { fatalError("\(error)") }
        }
    }

    /// Runs `body` on the loop, with a peer that says what the input holds.
    private func run(_ input: inout FuzzInput, _ body: @escaping @Sendable (EventLoop) async -> Void) {
        pieces = input.pieces()
        let ended = Flag()
        simulation.run(as: process) {
            _ = Task(executorPreference: loop) { [loop, simulation] in
                await body(loop)
                ended.isSet = true
                simulation.pause()
            }
        }
        simulation.run(for: Self.maximumRun)
        precondition(ended.isSet, "a wait has no end")
        for stream in hostile { stream.close() }
        hostile = []
        simulation.run(for: .seconds(2))
    }

    /// Requests over HTTP/2 to a hostile server.
    func serveHTTP2(_ input: inout FuzzInput) {
        run(&input) { loop in
            let upstream = ConnectionPool(
                Destination(Self.endpoint, tls: Self.tls), connections: 1...2, startsWithOneRequest: true, on: loop)
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<3 {
                    group.addTask(executorPreference: loop) {
                        var headers = HeaderBlock()
                        headers.append(":method", "POST")
                        headers.append(":path", "/3/device/00")
                        let request = Request(headers: headers, body: [UInt8](repeating: 1, count: 300))
                        _ = try? await upstream.send(request, timeout: .seconds(15))
                    }
                }
            }
            upstream.close()
        }
    }

    /// Dials through a hostile proxy.
    func serveProxy(_ input: inout FuzzInput) {
        let kind = input.byte() % 3
        run(&input) { loop in
            let proxy: Proxy =
                switch kind {
                case 0: .http(Self.endpoint)
                case 1: .socks5(Self.endpoint, nil)
                default: .socks5(Self.endpoint, SOCKS5.Credentials(user: "u", password: "p"))
                }
            let stream = try? await loop.dial(
                .tcp(host: "apple.test", port: 443), through: proxy, timeout: .seconds(10))
            stream?.close()
        }
    }

    /// Logs in to a hostile process in the place of tor.
    func serveControl(_ input: inout FuzzInput) {
        run(&input) { loop in
            let control = try? await TorControl.open(Self.endpoint, on: loop)
            control?.close()
        }
    }

    private static let tls: TLSContext = {
        do { return try TLSContext.client(authorities: TrustedAuthorities(), applicationProtocol: "h2") } catch {
            fatalError("\(error)")
        }
    }()
}

private final class Flag: @unchecked Sendable {
    // Unchecked: a simulation has one thread.
    var isSet = false
}

/// Says its first piece at once, and another one whenever it has received something. Closes after an odd number of pieces,
/// and falls silent after an even one.
private final class HostileStream: ByteStreamHandler {
    private let stream: ByteStream
    private var pieces: ArraySlice<[UInt8]>
    private let closesAtEnd: Bool

    init(_ stream: ByteStream, says pieces: [[UInt8]]) {
        self.stream = stream
        self.pieces = pieces[...]
        closesAtEnd = !pieces.count.isMultiple(of: 2)
        stream.handler = self
        stream.resumeReading()
        if let first = self.pieces.popFirst() { stream.write(first) }
    }

    func close() { stream.close() }
    func stream(_ stream: ByteStream, received bytes: RawSpan) {
        if let next = pieces.popFirst() { stream.write(next) } else if closesAtEnd { stream.close() }
    }
    func stream(_ stream: ByteStream, ended reason: StreamError) {}
}
