// SPDX-License-Identifier: Apache-2.0

import CLibevent
import Time

/// What event loops run on in place of libevent and the kernel: virtual time, and a network without sockets. The installed
/// program has none; see the module World.
package protocol LoopWorld: AnyObject {
    /// A loop has work: the world must call its ``EventLoop/runTurn()``.
    func needsTurn(_ loop: EventLoop)
    /// Calls `body` after this time.
    func schedule(after delay: Duration, _ body: @escaping () -> Void)
    /// Listens at an endpoint; `accept` receives the socket of each connection.
    /// - Returns: `nil` if somebody listens there already.
    func listen(at endpoint: Endpoint, on loop: EventLoop, accept: @escaping (any StreamSocket) -> Void)
        -> (any WorldListener)?
    /// Starts to connect to an endpoint.
    func connect(to endpoint: Endpoint, on loop: EventLoop) -> any StreamSocket
}

/// A listener of a ``LoopWorld``.
package protocol WorldListener: AnyObject {
    /// Whether new connections wait.
    var isPaused: Bool { get set }
    func close()
}

/// What a socket has received.
package enum SocketInput {
    /// The number of bytes that are now in the buffer.
    case bytes(Int)
    /// Nothing has arrived.
    case nothing
    /// The peer sends no more.
    case end
    case failed(StreamError)
}

/// The socket of a ``ByteStream``: the kernel's, or one of a ``LoopWorld``.
package protocol StreamSocket: AnyObject {
    /// The stream that uses the socket. It closes the socket before it is released.
    var stream: ByteStream? { get set }
    /// Whether to call ``ByteStream/readable()`` while there is something to receive.
    var wantsRead: Bool { get set }
    /// Whether to call ``ByteStream/writable()`` while there is room for output, or when the attempt to connect has ended.
    var wantsWrite: Bool { get set }
    /// Whether TLS runs over the socket; if not, the stream acts as if it did.
    var carriesTLS: Bool { get }

    /// Why the attempt to connect failed; `nil` if the socket is connected.
    func connectFailure() -> StreamError?
    /// Sends bytes.
    /// - Returns: how many the socket took; `nil` after an error, or if it takes none now.
    func send(_ bytes: UnsafeRawBufferPointer) -> Int?
    /// Sends what is in a buffer of libevent, and removes from the buffer what was sent.
    /// - Returns: why the socket failed; `nil` if it did not.
    func flush(_ output: OpaquePointer) -> StreamError?
    /// Receives bytes.
    func receive(into buffer: UnsafeMutableRawBufferPointer, atMost limit: Int) -> SocketInput
    /// Calls ``ByteStream/readable()`` in the next turn, although nothing has arrived.
    func reportReadable()
    /// Sends no more bytes.
    func shutDown()
    /// Makes ``close()`` reset the connection: what the peer has not received is discarded.
    func discardOutput()
    func close()
}

extension StreamSocket {
    package func flush(_ output: OpaquePointer) -> StreamError? {
        let bytes = UnsafeRawBufferPointer(start: evbuffer_pullup(output, -1), count: evbuffer_get_length(output))
        guard let sent = send(bytes) else { return .system("Broken pipe") }
        evbuffer_drain(output, sent)
        return nil
    }
}
