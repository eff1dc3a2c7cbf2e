// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// Relays between a node and the control port of a tor that runs as another user: passes on the commands that
/// ``ControlFilter`` allows, and all of tor's output. The relay runs as tor's user.
package actor ControlRelay {
    private nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    /// A node has one connection, and opens another for each check of tor; each of the operator's commands has its own.
    static let maximumConnections = 8
    private static let dialTimeout = Duration.seconds(5)

    private let settings: TorSettings
    private var listener: Listener?
    private var connections = 0

    /// Creates a relay that does not listen yet.
    /// - Parameter settings: the settings of that tor, whose directory holds both sockets.
    package init(_ settings: TorSettings, on loop: EventLoop) {
        self.settings = settings
        self.loop = loop
    }

    /// Accepts connections of tor's group until ``close()``.
    /// - Throws: `ListenError`.
    package func listen() throws(ListenError) {
        listener = try Listener(settings.controlSocket, on: loop) { [unowned self] stream in
            // The stream stays on the loop's thread, which assumeIsolated checks.
            nonisolated(unsafe) let stream = stream
            assumeIsolated { $0.accept(stream) }
        }
    }

    /// Accepts no more connections.
    package func close() { listener = nil }

    private func accept(_ node: ByteStream) {
        guard connections < Self.maximumConnections else { return node.close() }
        connections += 1
        // Reads nothing from the node until the connection to tor is open.
        node.pauseReading()
        Task { await connect(node) }
    }

    private func connect(_ node: ByteStream) async {
        guard let tor = try? await loop.dial(settings.ownControlSocket, timeout: Self.dialTimeout) else {
            node.close()
            connections -= 1
            return
        }
        RelayedControl(node, tor) { [weak self] in self?.assumeIsolated { $0.connections -= 1 } }.begin()
    }
}

/// A connection of a node, and the one to tor that belongs to it.
private final class RelayedControl: ByteStreamHandler {
    /// The connection ends when either peer leaves more than this many bytes unread.
    private static let maximumUnread = 1 << 20

    private let node: ByteStream
    private let tor: ByteStream
    private let ended: () -> Void
    private var filter = ControlFilter()

    init(_ node: ByteStream, _ tor: ByteStream, ended: @escaping () -> Void) {
        self.node = node
        self.tor = tor
        self.ended = ended
    }

    func begin() {
        node.loop.keep(self)
        // tor buffers what a controller does not read, so the relay goes on reading from tor up to the limit at which
        // the connection ends.
        tor.highWater = Self.maximumUnread
        for stream in [node, tor] {
            stream.handler = self
            stream.resumeReading()
        }
    }

    func stream(_ stream: ByteStream, received bytes: RawSpan) {
        guard stream === node else {
            node.write(bytes)
            return closeIfUnread()
        }
        let output = bytes.withUnsafeBytes { filter.filter($0) }
        tor.write(output.forTor)
        node.write(output.forNode)
        if filter.isExhausted { closeBoth() } else { closeIfUnread() }
    }

    func stream(_ stream: ByteStream, ended reason: StreamError) { closeBoth() }

    private func closeIfUnread() {
        if max(node.unsent, tor.unsent) > Self.maximumUnread { closeBoth() }
    }

    private func closeBoth() {
        guard node.loop.keeps(self) else { return }
        node.close()
        tor.close()
        ended()
        node.loop.letGo(of: self)
    }
}
