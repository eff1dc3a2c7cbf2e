// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// A relay in front of a node that gives each connection a circuit of its own.
actor CircuitRelay {
    private nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let transport: FloodTransport
    private var circuits: TorCircuits
    private var listener: Listener?

    init(by transport: FloodTransport, circuits: TorCircuits, on loop: EventLoop) {
        self.transport = transport
        self.circuits = circuits
        self.loop = loop
    }

    /// Accepts connections at `endpoint` until ``close()``.
    /// - Throws: `ListenError`.
    func listen(at endpoint: Endpoint) throws {
        listener = try Listener(endpoint, on: loop) { [unowned self] stream in
            // The stream stays on the loop's thread, which assumeIsolated checks.
            nonisolated(unsafe) let stream = stream
            assumeIsolated { $0.accept(stream) }
        }
    }

    /// Accepts no more connections; open ones stay open.
    func close() { listener = nil }

    private func accept(_ sender: ByteStream) {
        // Reads nothing from the sender until the connection to the node is open.
        sender.pauseReading()
        let circuit = circuits.next()
        Task { await connect(sender, on: circuit) }
    }

    private func connect(_ sender: ByteStream, on circuit: TorCircuit) async {
        guard let stream = try? await transport.dial(on: circuit, by: loop) else { return sender.close() }
        stream.write(transport.preamble(of: circuit))
        RelayedStream(sender, stream).begin()
    }
}

/// Relays between two streams until one of them closes, then closes the other.
private final class RelayedStream: ByteStreamHandler {
    private let one: ByteStream
    private let other: ByteStream

    init(_ one: ByteStream, _ other: ByteStream) {
        self.one = one
        self.other = other
    }

    func begin() {
        one.loop.keep(self)
        one.handler = self
        other.handler = self
        one.resumeReading()
        other.resumeReading()
    }

    private func opposite(of stream: ByteStream) -> ByteStream { stream === one ? other : one }

    func stream(_ stream: ByteStream, received bytes: RawSpan) { opposite(of: stream).write(bytes) }

    func stream(_ stream: ByteStream, ended reason: StreamError) {
        opposite(of: stream).finish()
        one.loop.letGo(of: self)
    }
}
