// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// Stands in front of a node: whoever connects here reaches the node on a circuit of its own.
actor CircuitRelay {
    private nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let way: FloodTransport
    private var circuits: TorCircuits
    private var listener: Listener?

    init(by way: FloodTransport, circuits: TorCircuits, on loop: EventLoop) {
        self.way = way
        self.circuits = circuits
        self.loop = loop
    }

    /// Lets senders in at `endpoint` until ``close()``.
    /// - Throws: `ListenError`.
    func listen(at endpoint: Endpoint) throws {
        listener = try Listener(endpoint, on: loop) { [unowned self] stream in
            // It never leaves the loop's thread, which assumeIsolated checks.
            nonisolated(unsafe) let stream = stream
            assumeIsolated { $0.accept(stream) }
        }
    }

    /// Lets nobody in any more; who is there stays.
    func close() { listener = nil }

    private func accept(_ sender: ByteStream) {
        // What it says first waits until the node is reached.
        sender.pauseReading()
        let circuit = circuits.next()
        Task { await join(sender, on: circuit) }
    }

    private func join(_ sender: ByteStream, on circuit: TorCircuit) async {
        guard let stream = try? await way.dial(on: circuit, by: loop) else { return sender.close() }
        stream.write(way.opening(of: circuit))
        RelayedStream(sender, stream).begin()
    }
}

/// Two streams of which each gets what the other brings. It lives until one of them ends, and ends the other.
private final class RelayedStream: ByteStreamHandler {
    private let one: ByteStream
    private let other: ByteStream
    private var whileOpen: RelayedStream?

    init(_ one: ByteStream, _ other: ByteStream) {
        self.one = one
        self.other = other
    }

    func begin() {
        whileOpen = self
        one.handler = self
        other.handler = self
        one.resumeReading()
        other.resumeReading()
    }

    private func opposite(of stream: ByteStream) -> ByteStream { stream === one ? other : one }

    func stream(_ stream: ByteStream, received bytes: RawSpan) { opposite(of: stream).write(bytes) }

    func stream(_ stream: ByteStream, ended reason: StreamError) {
        opposite(of: stream).finish()
        whileOpen = nil
    }
}
