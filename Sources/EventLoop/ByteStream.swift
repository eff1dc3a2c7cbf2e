// SPDX-License-Identifier: Apache-2.0

import CLibevent
import COpenSSL
import Cryptography
import Glibc
import Time

/// Receives the events of a ``ByteStream``, on the stream's event loop.
package protocol ByteStreamHandler: AnyObject {
    /// Bytes arrived. The handler consumes all of them; the span is valid only during the call.
    func stream(_ stream: ByteStream, received bytes: RawSpan)
    /// Unsent output has fallen to a quarter of ``ByteStream/highWater``, after output that the kernel did not take at
    /// once. Also called when the stream is connected.
    func streamDrained(_ stream: ByteStream)
    /// The stream has ended. Called at most once, and not after the handler closed the stream itself.
    func stream(_ stream: ByteStream, ended reason: StreamError)
}

extension ByteStreamHandler {
    /// Does nothing by default.
    package func streamDrained(_ stream: ByteStream) {}
}

/// A bidirectional byte stream over TCP, a unix socket or TLS, on one event loop.
///
/// Back-pressure works in both directions. The stream reads only while the handler accepts bytes. It also stops reading
/// while the peer leaves more than ``highWater`` bytes of output unread, until a quarter of that remains.
package final class ByteStream {
    /// The default high-water mark of unsent output, in bytes.
    package static let highWater = 256 * 1024
    /// The default limit on the bytes read per turn of the loop.
    package static let largestRead = 64 * 1024
    /// More than TLS adds to the bytes of one write that stays below ``highWater``: some 30 bytes for each 16 KiB.
    private static let tlsOverhead = 1024
    /// How long ``finish(then:)`` waits for the peer to read the output and close.
    package static let lingerTime = Duration.seconds(2)

    /// The event loop that serves the stream.
    package let loop: EventLoop
    /// Receives the stream's events; not retained. A handler that goes before its stream must close the stream or call
    /// ``detach(_:)``: a weak reference would do that by itself, but would make each use of a handler much slower.
    package unowned var handler: (any ByteStreamHandler)? {
        didSet { handlerIdentity = handler.map { ObjectIdentifier($0) } }
    }
    private var handlerIdentity: ObjectIdentifier?
    /// The stream stops reading above this many bytes of unsent output, and resumes at a quarter of it.
    package var highWater = ByteStream.highWater { didSet { bufferevent.map(setWaterMarks) } }
    private var lowWater: Int { highWater / 4 }
    /// Maximum bytes read per turn of the loop, which bounds the work of one connection per turn.
    package var largestRead = ByteStream.largestRead {
        didSet { _ = bufferevent.map { bufferevent_set_max_single_read($0, largestRead) } }
    }

    private enum State { case connecting, open, lingering, ended }
    private var state: State
    private var bufferevent: OpaquePointer?
    private var context: TLSContext?
    private var isBackedUp = false
    private var pausedByHandler = false
    /// Whether the bufferevent reads.
    private var isReading = true
    /// Whether the peer has closed its side, and the stream has not ended yet.
    private var endsAfterPause = false
    private var isDelivering = false
    /// The event of a socket that is read without libevent's buffers; `nil` for other streams.
    private var readEvent: OpaquePointer?
    /// Whether the socket has had bytes since the handler paused the stream.
    private var hasUnreadInput = false
    private var lingerTimer: Timer?
    private var selfWhileLingering: ByteStream?
    private var whenFinished: (() -> Void)?
    /// Why the stream ended; `nil` before that. For code that was not the handler when the stream ended.
    package private(set) var endReason: StreamError?

    /// Takes ownership of a connected socket, as a plain stream or, if `context` is given, as the server side of TLS.
    init?(loop: EventLoop, descriptor: Int32, accepting context: TLSContext?) {
        self.loop = loop
        self.context = context
        state = context == nil ? .open : .connecting
        guard let plain = bufferevent_socket_new(loop.base, descriptor, Int32(BEV_OPT_CLOSE_ON_FREE.rawValue)) else {
            return nil
        }
        if let context {
            guard let ssl = context.newConnection(verifying: nil) else {
                bufferevent_free(plain)
                return nil
            }
            secure(plain, ssl, BUFFEREVENT_SSL_ACCEPTING)
        } else {
            adopt(plain)
            readDirectly(from: descriptor)
        }
        guard bufferevent != nil else { return nil }
    }

    /// Starts connecting to `address`.
    init(loop: EventLoop, connectingTo address: SocketAddress) {
        self.loop = loop
        state = .connecting
        adopt(bufferevent_socket_new(loop.base, -1, Int32(BEV_OPT_CLOSE_ON_FREE.rawValue)))
        let started = address.withPointer { bufferevent_socket_connect(bufferevent, $0, Int32($1)) }
        if started != 0, state == .connecting { end(.lastSystemError()) }
    }

    deinit { release() }

    /// Reads from the socket without libevent's buffers: the handler takes all bytes at once, so that all streams of a
    /// loop can share one buffer.
    private func readDirectly(from descriptor: Int32) {
        bufferevent_disable(bufferevent, Int16(EV_READ))
        readEvent = event_new(
            loop.base, descriptor, Int16(EV_READ | EV_PERSIST),
            { _, _, context in ByteStream.of(context).socketReadable() }, Unmanaged.passUnretained(self).toOpaque())
        event_add(readEvent, nil)
    }

    private func adopt(_ new: OpaquePointer?) {
        guard let new else { return }
        bufferevent = new
        bufferevent_setcb(
            new,
            { _, context in ByteStream.of(context).readable() },
            { _, context in ByteStream.of(context).writable() },
            { _, events, context in ByteStream.of(context).handleEvents(Int32(events)) },
            Unmanaged.passUnretained(self).toOpaque())
        bufferevent_set_max_single_read(new, Self.largestRead)
        bufferevent_set_max_single_write(new, Self.highWater)
        setWaterMarks(new)
        if state == .open { noDelay() }
        bufferevent_enable(new, Int16(EV_READ | EV_WRITE))
        isReading = true
    }

    private func setWaterMarks(_ bufferevent: OpaquePointer) {
        bufferevent_setwatermark(bufferevent, Int16(EV_WRITE), lowWater, 0)
    }

    private static func of(_ context: UnsafeMutableRawPointer?) -> ByteStream {
        Unmanaged<ByteStream>.fromOpaque(context!).takeUnretainedValue()
    }

    private func release() {
        if let readEvent { event_free(readEvent) }
        readEvent = nil
        guard let bufferevent else { return }
        self.bufferevent = nil
        bufferevent_setcb(bufferevent, nil, nil, nil, nil)
        bufferevent_free(bufferevent)
    }

    /// Removes the handler with this identity, if it is still the stream's handler. For handlers that end.
    func detach(_ handler: ObjectIdentifier) {
        if handlerIdentity == handler { self.handler = nil }
    }

    // MARK: Writing

    /// Bytes written but not yet accepted by the kernel.
    package var unsent: Int {
        guard let bufferevent else { return 0 }
        let encrypted = bufferevent_get_underlying(bufferevent).map { evbuffer_get_length(bufferevent_get_output($0)) }
        return evbuffer_get_length(bufferevent_get_output(bufferevent)) + (encrypted ?? 0)
    }

    /// Whether the stream is connected and not closing.
    package var isOpen: Bool { state == .open }

    /// Sends `bytes` after earlier output, once the stream is open. Does nothing if the stream is closing or has ended.
    package func write(_ bytes: RawSpan) {
        guard state == .open || state == .connecting, let bufferevent else { return }
        bytes.withUnsafeBytes { bytes in
            let sent = writeDirectly(bytes)
            guard sent < bytes.count else { return }
            let rest = UnsafeRawBufferPointer(rebasing: bytes[sent...])
            bufferevent_write(bufferevent, rest.baseAddress, rest.count)
        }
        if !isBackedUp, unsent > highWater {
            isBackedUp = true
            updateReading()
        }
    }

    /// Gives bytes to the kernel or to TLS, if nothing is queued before them: that saves a copy, a buffer and the system
    /// calls with which libevent waits for the socket.
    /// - Returns: how many bytes were taken. After an error 0: libevent meets the same error and reports it.
    private func writeDirectly(_ bytes: UnsafeRawBufferPointer) -> Int {
        guard state == .open, let bufferevent, evbuffer_get_length(bufferevent_get_output(bufferevent)) == 0 else {
            return 0
        }
        guard let ssl else {
            return max(0, send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL)))
        }
        // Within these bounds the output of TLS has room for all of it, and the stream does not back up. Above them,
        // libevent has to know of the output, to report that it has drained.
        guard unsent <= lowWater, unsent + bytes.count + Self.tlsOverhead <= highWater else { return 0 }
        ERR_clear_error()
        let taken = SSL_write(ssl, bytes.baseAddress, Int32(bytes.count))
        if taken <= 0 { ERR_clear_error() }
        return max(0, Int(taken))
    }

    /// Sends an array of bytes like the overload that takes a span.
    package func write(_ bytes: [UInt8]) { write(bytes.span.bytes) }

    // MARK: Reading

    /// Delivers no bytes until ``resumeReading()``. The stream itself stops reading when bytes arrive during the pause:
    /// most pauses end before, and then they cost no system call.
    package func pauseReading() { pausedByHandler = true }

    /// Resumes reading, and delivers the bytes that are already buffered.
    package func resumeReading() {
        pausedByHandler = false
        hasUnreadInput = false
        updateReading()
        // libevent raises no new event for bytes buffered before the pause, or for an end during it.
        readable()
    }

    private func updateReading() {
        let reads = !isBackedUp && !(pausedByHandler && hasInput)
        guard let bufferevent, state != .ended, reads != isReading else { return }
        isReading = reads
        if let readEvent {
            _ = reads ? event_add(readEvent, nil) : event_del(readEvent)
        } else if reads {
            bufferevent_enable(bufferevent, Int16(EV_READ))
        } else {
            bufferevent_disable(bufferevent, Int16(EV_READ))
        }
    }

    private var hasInput: Bool {
        if readEvent != nil { return hasUnreadInput }
        return bufferevent.map { evbuffer_get_length(bufferevent_get_input($0)) > 0 } ?? false
    }

    /// Puts bytes in front of the buffered input, so that they are delivered first.
    func prepend(_ bytes: [UInt8]) {
        guard let bufferevent, !bytes.isEmpty else { return }
        evbuffer_prepend(bufferevent_get_input(bufferevent), bytes, bytes.count)
    }

    private func readable() {
        // The handler may call resumeReading() during delivery: the outer call then delivers the rest.
        guard !isDelivering, state != .connecting else { return }
        deliverInput()
        if endsAfterPause, !pausedByHandler, state == .open { end(.closed) }
    }

    /// Passes libevent's input to the handler.
    private func deliverInput() {
        isDelivering = true
        defer { isDelivering = false }
        while let bufferevent, state != .ended, !pausedByHandler || state == .lingering {
            let input = bufferevent_get_input(bufferevent)
            let length = evbuffer_get_contiguous_space(input)
            guard length > 0, let start = evbuffer_pullup(input, length) else { return }
            if state == .open {
                handler?.stream(self, received: UnsafeRawBufferPointer(start: start, count: length).bytes)
            }
            // The handler may have closed the stream, which frees its buffers.
            guard self.bufferevent == bufferevent else { return }
            evbuffer_drain(input, length)
        }
        if pausedByHandler { updateReading() }
    }

    /// Reads from the socket, once per turn of the loop.
    private func socketReadable() {
        if pausedByHandler, state == .open {
            hasUnreadInput = true
            return updateReading()
        }
        let buffer = loop.readBuffer
        let count = recv(descriptor, buffer.baseAddress, min(buffer.count, largestRead), 0)
        if count > 0 {
            guard state == .open else { return }
            isDelivering = true
            handler?.stream(self, received: UnsafeRawBufferPointer(rebasing: buffer[..<count]).bytes)
            isDelivering = false
        } else if count == 0 {
            // The peer closed its side: send the remaining output first.
            guard state == .lingering, unsent > 0 else { return end(.closed) }
            endsAfterPause = true
            if let readEvent { event_del(readEvent) }
        } else if errno != EAGAIN, errno != EINTR {
            end(.lastSystemError())
        }
    }

    private func writable() {
        if isBackedUp, unsent <= lowWater {
            isBackedUp = false
            updateReading()
            readable()
        }
        if state == .open { handler?.streamDrained(self) }
    }

    // MARK: Opening and closing

    private func handleEvents(_ events: Int32) {
        if events & Int32(BEV_EVENT_CONNECTED) != 0 {
            if let context, let ssl, !context.hasNegotiatedProtocol(on: ssl) {
                return end(.tls("the peer does not support the required application protocol (ALPN)"))
            }
            state = .open
            noDelay()
            handler?.streamDrained(self)
            // Deliver bytes that arrived with the end of the handshake.
            readable()
            return
        }
        guard let bufferevent else { return }
        if events & Int32(BEV_EVENT_EOF) != 0 {
            // The end comes after the bytes before it: it waits for the end of a pause, too.
            if pausedByHandler, state == .open {
                endsAfterPause = true
                return
            }
            readable()
            // The peer closed its side: send the remaining output first.
            if state == .lingering, unsent > 0 { return }
            end(.closed)
        } else if events & Int32(BEV_EVENT_ERROR) != 0 {
            end(.error(of: bufferevent))
        }
    }

    private func noDelay() {
        var on: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
    }

    private var descriptor: Int32 { bufferevent.map { bufferevent_getfd($0) } ?? -1 }

    /// Closes the stream at once and discards unsent output. Does not call the handler.
    package func close() { end(.closed, notifyingHandler: false) }

    /// Closes the stream at once, after writing as much output as the kernel accepts without blocking. Use it on a
    /// plain stream when the peer does not merit the wait of ``finish(then:)``; on a TLS stream, it discards unsent
    /// output. Does not call the handler.
    package func closeAfterWriting() {
        if state == .open, let bufferevent, bufferevent_get_underlying(bufferevent) == nil {
            evbuffer_unfreeze(bufferevent_get_output(bufferevent), 1)
            _ = evbuffer_write(bufferevent_get_output(bufferevent), descriptor)
        }
        close()
    }

    /// Closes the stream at once and reports `reason` to the handler.
    package func fail(_ reason: StreamError) { end(reason) }

    /// Closes the stream after sending its output: shuts down this side, then discards input until the peer closes, for
    /// up to ``lingerTime`` in total. Without that wait, a TCP reset could overtake the last bytes of output. Does not
    /// call the handler; calls `done` when the stream has ended.
    package func finish(then done: (() -> Void)? = nil) {
        guard state == .open else {
            close()
            done?()
            return
        }
        whenFinished = done
        state = .lingering
        handler = nil
        selfWhileLingering = self
        pausedByHandler = false
        hasUnreadInput = false
        isBackedUp = false
        updateReading()
        let deadline = MonotonicTime.now + Self.lingerTime
        lingerTimer = Timer(on: loop) { [unowned self] in linger(until: deadline) }
        linger(until: deadline)
    }

    /// Polls every 5 ms until all output is sent, since TLS gives no event for it. Then shuts down this side and
    /// discards input until the peer closes.
    private func linger(until deadline: MonotonicTime) {
        guard MonotonicTime.now < deadline else { return end(.timedOut) }
        guard unsent == 0 else {
            lingerTimer?.start(after: .milliseconds(5))
            return
        }
        // The peer has closed its side already.
        if endsAfterPause { return end(.closed) }
        shutdown(descriptor, Int32(SHUT_WR))
        lingerTimer?.start(after: deadline - .now)
    }

    private func end(_ reason: StreamError, notifyingHandler: Bool = true) {
        guard state != .ended else { return }
        state = .ended
        endReason = reason
        lingerTimer = nil
        release()
        if notifyingHandler { handler?.stream(self, ended: reason) }
        handler = nil
        whenFinished?()
        whenFinished = nil
        selfWhileLingering = nil
    }

    // MARK: TLS

    /// The stream's SSL object; `nil` without TLS.
    package var ssl: OpaquePointer? { bufferevent.flatMap { bufferevent_openssl_get_ssl($0) } }

    /// When the peer's certificate expires, Unix time in seconds; `nil` if the peer presented none.
    package var peerCertificateExpiry: Int64? {
        guard let certificate = ssl.flatMap({ SSL_get1_peer_certificate($0) }) else { return nil }
        defer { X509_free(certificate) }
        return certificateValidity(of: certificate).notAfter
    }

    /// Layers TLS on a plain bufferevent. It uses a filter, so that one read of the socket brings many records and one
    /// write sends many. The filter's output is bounded; otherwise there would be no back-pressure.
    private func secure(_ plain: OpaquePointer, _ ssl: OpaquePointer, _ role: bufferevent_ssl_state) {
        bufferevent_setcb(plain, nil, nil, nil, nil)
        bufferevent_setwatermark(plain, Int16(EV_WRITE), 0, Self.highWater)
        bufferevent_set_max_single_read(plain, Self.largestRead)
        bufferevent_set_max_single_write(plain, Self.highWater)
        let options = Int32(BEV_OPT_CLOSE_ON_FREE.rawValue)
        guard let secured = bufferevent_openssl_filter_new(loop.base, plain, ssl, role, options) else {
            SSL_free(ssl)
            bufferevent_free(plain)
            return
        }
        adopt(secured)
    }

    /// Turns an open plain stream into the client side of a TLS connection to `host`. The handler receives
    /// `streamDrained` after the handshake, or the end of the stream.
    func startTLS(_ context: TLSContext, host: String) {
        guard state == .open, let plain = bufferevent, let ssl = context.newConnection(verifying: host) else {
            return end(.tls("out of memory"))
        }
        self.context = context
        state = .connecting
        pausedByHandler = false
        bufferevent = nil
        secure(plain, ssl, BUFFEREVENT_SSL_CONNECTING)
        if bufferevent == nil { end(.tls("out of memory")) }
    }
}
