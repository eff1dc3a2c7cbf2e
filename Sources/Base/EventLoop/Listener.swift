// SPDX-License-Identifier: Apache-2.0

import CLibevent
import Glibc

/// Why a listener could not be opened.
package struct ListenError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The endpoint that could not be opened.
    package let endpoint: Endpoint
    /// The reason, usually the operating system's text, for instance "Address already in use".
    package let reason: String

    /// Whether another socket listens there.
    package var isInUse = false

    /// The message for the operator.
    package var description: String { "cannot listen on \(endpoint): \(reason)" }
}

extension ListenError {
    fileprivate init(endpoint: Endpoint, errno error: Int32) {
        self.init(endpoint: endpoint, reason: String(cString: strerror(error)), isInUse: error == EADDRINUSE)
    }
}

/// Accepts connections on a TCP port or a unix socket until it is closed or released.
package final class Listener {
    /// How long accepting is suspended after the process ran out of file descriptors.
    private static let pauseWhenExhausted = Duration.seconds(1)
    /// Maximum connections accepted per turn of the loop, so that existing connections are served in between.
    static let acceptsPerTurn = 32

    /// The endpoint that it listens on; for TCP port 0, with the port that the system chose.
    package private(set) var endpoint: Endpoint
    private let loop: EventLoop
    /// The identity with which connections use TLS that are accepted from now on; `nil` for none.
    package var tls: TLSContext?
    private let accepted: (ByteStream) -> Void
    private var listener: OpaquePointer?
    /// The listener of the loop's world, in place of ``listener``.
    private var inWorld: (any WorldListener)?
    private var recovery: Timer?
    /// The turn of the last accept, and the connections accepted in it.
    private var acceptedInTurn: (turn: UInt64, count: Int) = (0, 0)
    private var isPaused = false
    private var socketPath: String?

    /// Listens on `endpoint`, whose host must be a numeric address or `localhost`, and passes each connection to
    /// `accepted` on the loop. Replaces a unix socket that a dead process left behind.
    /// - Parameters:
    ///   - tls: if given, connections use TLS with this identity.
    ///   - mode: the file mode of a unix socket.
    /// - Throws: ``ListenError``.
    package init(
        _ endpoint: Endpoint, on loop: EventLoop, tls: TLSContext? = nil, backlog: Int32 = 1024,
        mode: UInt32 = 0o660, accepted: @escaping (ByteStream) -> Void
    ) throws(ListenError) {
        loop.preconditionOnLoop()
        self.endpoint = endpoint
        self.loop = loop
        self.tls = tls
        self.accepted = accepted
        if let world = loop.world {
            inWorld = world.listen(at: endpoint, on: loop) { [unowned self] in
                accepted(ByteStream($0, on: loop, accepting: self.tls))
            }
            guard inWorld != nil else { throw ListenError(endpoint: endpoint, errno: EADDRINUSE) }
            return
        }
        let address: SocketAddress?
        switch endpoint {
        case .tcp(let host, let port):
            address = SocketAddress(numericHost: host == "localhost" ? "127.0.0.1" : host, port: port)
        case .unix(let path):
            address = SocketAddress(unixPath: path)
            if try Listener.isDeadSocket(at: path, for: endpoint) { unlink(path) }
        }
        guard let address else { throw ListenError(endpoint: endpoint, reason: Self.invalidAddress) }
        let flags = UInt32(LEV_OPT_CLOSE_ON_FREE) | UInt32(LEV_OPT_CLOSE_ON_EXEC) | UInt32(LEV_OPT_REUSEABLE)
        listener = address.withPointer { pointer, length in
            evconnlistener_new_bind(
                loop.base,
                { _, descriptor, _, _, context in Listener.of(context).accept(descriptor) },
                Unmanaged.passUnretained(self).toOpaque(), flags, backlog, pointer, Int32(length))
        }
        guard let listener else { throw ListenError(endpoint: endpoint, errno: errno) }
        evconnlistener_set_error_cb(listener) { _, context in Listener.of(context).exhausted() }
        switch endpoint {
        case .tcp(let host, 0):
            self.endpoint = .tcp(host: host, port: Listener.port(of: evconnlistener_get_fd(listener)))
        case .tcp: break
        case .unix(let path):
            chmod(path, mode)
            socketPath = path
        }
    }

    deinit { close() }

    /// Why this process cannot listen on `endpoint` now; `nil` if it can.
    ///
    /// The check keeps no other process from listening there, such as a node that starts at this moment. It creates no
    /// socket file, and binds TCP addresses for a moment without listening: Linux lets several sockets with
    /// `SO_REUSEADDR` bind an address unless one of them listens, see socket(7).
    package static func obstacle(to endpoint: Endpoint) -> ListenError? {
        switch endpoint {
        case .tcp(let host, let port):
            guard let address = SocketAddress(numericHost: host == "localhost" ? "127.0.0.1" : host, port: port) else {
                return ListenError(endpoint: endpoint, reason: invalidAddress)
            }
            return errorOfBinding(address).map { ListenError(endpoint: endpoint, errno: $0) }
        case .unix(let path):
            guard SocketAddress(unixPath: path) != nil else {
                return ListenError(endpoint: endpoint, reason: invalidAddress)
            }
            do throws(ListenError) {
                _ = try isDeadSocket(at: path, for: endpoint)
            } catch {
                return error
            }
            let directory = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
            guard access(directory, W_OK | X_OK) == 0 else {
                return ListenError(endpoint: endpoint, reason: "\(directory): \(String(cString: strerror(errno)))")
            }
            return nil
        }
    }

    private static let invalidAddress = "not a numeric address, localhost or a valid socket path"

    private static func errorOfBinding(_ address: SocketAddress) -> Int32? {
        address.withPointer { pointer, length in
            let descriptor = socket(
                Int32(pointer.pointee.sa_family), Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            guard descriptor >= 0 else { return errno }
            defer { Glibc.close(descriptor) }
            var on: Int32 = 1
            setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
            return bind(descriptor, pointer, length) == 0 ? nil : errno
        }
    }

    /// Stops accepting until ``resume()``; new connections wait in the backlog.
    package func pause() {
        isPaused = true
        inWorld?.isPaused = true
        if let listener { evconnlistener_disable(listener) }
    }

    /// Resumes accepting.
    package func resume() {
        isPaused = false
        inWorld?.isPaused = false
        if let listener { evconnlistener_enable(listener) }
    }

    /// Stops listening and removes the unix socket. Accepted streams stay open.
    package func close() {
        recovery = nil
        inWorld?.close()
        if let listener { evconnlistener_free(listener) }
        listener = nil
        if let socketPath { unlink(socketPath) }
        socketPath = nil
    }

    private static func of(_ context: UnsafeMutableRawPointer?) -> Listener {
        Unmanaged<Listener>.fromOpaque(context!).takeUnretainedValue()
    }

    private func accept(_ descriptor: Int32) {
        loop.eventBegins()
        if acceptedInTurn.turn != loop.turn { acceptedInTurn = (loop.turn, 0) }
        acceptedInTurn.count += 1
        if acceptedInTurn.count == Self.acceptsPerTurn { suspend(for: .zero) }
        accepted(ByteStream(KernelSocket(descriptor, on: loop), on: loop, accepting: tls))
    }

    /// Suspends accepting when the process is out of file descriptors: retrying at once would only spin.
    private func exhausted() { suspend(for: Self.pauseWhenExhausted) }

    /// Suspends accepting for this time; `.zero` means until the next turn.
    private func suspend(for time: Duration) {
        guard let listener else { return }
        evconnlistener_disable(listener)
        let timer =
            recovery
            ?? Timer(on: loop) { [unowned self] in
                if let listener = self.listener, !isPaused { evconnlistener_enable(listener) }
            }
        timer.start(after: time)
        recovery = timer
    }

    /// Whether there is a socket at `path` that a dead process left behind.
    /// - Throws: ``ListenError`` if a process listens there, or something else stands in its place.
    private static func isDeadSocket(at path: String, for endpoint: Endpoint) throws(ListenError) -> Bool {
        var status = stat()
        guard lstat(path, &status) == 0 else { return false }
        guard status.st_mode & S_IFMT == S_IFSOCK, let address = SocketAddress(unixPath: path) else {
            throw ListenError(endpoint: endpoint, reason: "the path exists and is not a socket")
        }
        let probe = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        defer { Glibc.close(probe) }
        // EAGAIN: a process listens, and its backlog is full.
        let isAlive = address.withPointer { connect(probe, $0, $1) } == 0 || errno == EAGAIN
        if isAlive {
            throw ListenError(endpoint: endpoint, reason: String(cString: strerror(EADDRINUSE)), isInUse: true)
        }
        return true
    }

    private static func port(of descriptor: Int32) -> UInt16 {
        var address = sockaddr_in6()
        var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
        withUnsafeMutableBytes(of: &address) {
            _ = getsockname(descriptor, $0.assumingMemoryBound(to: sockaddr.self).baseAddress!, &length)
        }
        // The port is at the same offset in both address families.
        return UInt16(bigEndian: address.sin6_port)
    }
}
