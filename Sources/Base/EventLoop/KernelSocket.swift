// SPDX-License-Identifier: Apache-2.0

import CLibevent
import Glibc

/// A socket of the kernel, watched by libevent.
final class KernelSocket: StreamSocket {
    // Safe, because a stream closes its socket before it is released.
    unowned(unsafe) var stream: ByteStream?
    private let loop: EventLoop
    /// -1 if the system gave no socket, and after the socket was closed.
    private var descriptor: Int32
    private var readEvent: OpaquePointer?
    private var writeEvent: OpaquePointer?

    /// Takes ownership of a connected socket.
    init(_ descriptor: Int32, on loop: EventLoop) {
        self.loop = loop
        self.descriptor = descriptor
        noDelay()
    }

    /// Starts to connect to an address. If that fails at once, ``connectFailure()`` says why.
    init(connectingTo address: SocketAddress, on loop: EventLoop) {
        self.loop = loop
        descriptor = -1
        startFailure = address.withPointer { address, length in
            descriptor = socket(
                Int32(address.pointee.sa_family),
                Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue),
                0)
            let isStarted = descriptor >= 0 && (connect(descriptor, address, length) == 0 || errno == EINPROGRESS)
            return isStarted ? nil : .lastSystemError()
        }
    }

    deinit { close() }

    /// Why the attempt to connect has not begun; `nil` if it has.
    private(set) var startFailure: StreamError?

    var carriesTLS: Bool { true }

    private static func of(_ context: UnsafeMutableRawPointer?) -> KernelSocket {
        Unmanaged<KernelSocket>.fromOpaque(context!).takeUnretainedValue()
    }

    var wantsRead = false {
        didSet {
            guard wantsRead != oldValue, descriptor >= 0 else { return }
            if readEvent == nil {
                readEvent = event_new(
                    loop.base, descriptor, Int16(EV_READ | EV_PERSIST),
                    { _, _, context in KernelSocket.of(context).stream?.readable() },
                    Unmanaged.passUnretained(self).toOpaque())
            }
            _ = wantsRead ? event_add(readEvent, nil) : event_del(readEvent)
        }
    }

    var wantsWrite = false {
        didSet {
            // Adding the event again costs nothing, and makes up for a failure to add it.
            guard wantsWrite || oldValue, descriptor >= 0 else { return }
            if writeEvent == nil {
                writeEvent = event_new(
                    loop.base, descriptor, Int16(EV_WRITE | EV_PERSIST),
                    { _, _, context in KernelSocket.of(context).stream?.writable() },
                    Unmanaged.passUnretained(self).toOpaque())
            }
            _ = wantsWrite ? event_add(writeEvent, nil) : event_del(writeEvent)
        }
    }

    func reportReadable() { event_active(readEvent, Int32(EV_READ), 0) }

    func connectFailure() -> StreamError? {
        if let startFailure { return startFailure }
        var failure: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &failure, &length)
        guard failure == 0 else { return .system(String(cString: strerror(failure))) }
        noDelay()
        return nil
    }

    private func noDelay() {
        var on: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
    }

    func send(_ bytes: UnsafeRawBufferPointer) -> Int? {
        let sent = Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
        return sent >= 0 ? sent : nil
    }

    func flush(_ output: OpaquePointer) -> StreamError? {
        if evbuffer_write(output, descriptor) >= 0 || errno == EAGAIN || errno == EINTR { return nil }
        return .lastSystemError()
    }

    func receive(into buffer: UnsafeMutableRawBufferPointer, atMost limit: Int) -> SocketInput {
        let count = recv(descriptor, buffer.baseAddress, min(buffer.count, limit), 0)
        if count > 0 { return .bytes(count) }
        if count == 0 { return .end }
        return errno == EAGAIN || errno == EINTR ? .nothing : .failed(.lastSystemError())
    }

    func shutDown() { shutdown(descriptor, Int32(SHUT_WR)) }

    func discardOutput() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    func close() {
        if let readEvent { event_free(readEvent) }
        if let writeEvent { event_free(writeEvent) }
        (readEvent, writeEvent) = (nil, nil)
        if descriptor >= 0 { Glibc.close(descriptor) }
        descriptor = -1
    }
}
