// SPDX-License-Identifier: Apache-2.0

import CLibevent
import COpenSSL
import Glibc
import Time

/// Who hears of a stream. All calls come on the stream's loop.
package protocol ByteStreamHandler: AnyObject {
    /// Bytes came; they are only lent for the length of the call, and all of them are taken.
    func stream(_ stream: ByteStream, received bytes: RawSpan)
    /// What was written has gone out, down to a quarter of ``ByteStream/highWater``; also comes when the stream is
    /// connected.
    func streamDrained(_ stream: ByteStream)
    /// The stream is over. Comes once, and not after the handler's own side closed it.
    func stream(_ stream: ByteStream, ended reason: StreamError)
}

extension ByteStreamHandler {
    package func streamDrained(_ stream: ByteStream) {}
}

/// A stream of bytes in both directions over TCP, a unix socket or TLS, on one event loop.
///
/// Back-pressure works both ways: bytes are read only while the handler takes them, and a peer that does not read what
/// we write is not read from either, from ``highWater`` bytes of unsent output down to a quarter of that.
package final class ByteStream {
    /// Unsent bytes from which nothing is read from the peer any more, where nothing else is said.
    package static let highWater = 256 * 1024
    /// Bytes that one turn of the loop reads at most, where nothing else is said.
    package static let largestRead = 64 * 1024
    /// How long ``finish()`` waits for the peer to take what was written and to close.
    package static let lingerTime = Duration.seconds(2)

    /// The loop that the stream lives on.
    package let loop: EventLoop
    /// Who hears of this stream; not retained.
    package weak var handler: (any ByteStreamHandler)?
    /// Unsent bytes from which nothing is read from the peer any more; at a quarter of them reading goes on.
    package var highWater = ByteStream.highWater { didSet { bufferevent.map(setWaterMarks) } }
    private var lowWater: Int { highWater / 4 }
    /// Bytes that one turn of the loop reads at most: the bound on the work of one connection per turn.
    package var largestRead = ByteStream.largestRead {
        didSet { _ = bufferevent.map { bufferevent_set_max_single_read($0, largestRead) } }
    }

    private enum State { case connecting, open, lingering, ended }
    private var state: State
    private var bufferevent: OpaquePointer?
    private var context: TLSContext?
    private var heldBack = false
    private var pausedByHandler = false
    private var isDelivering = false
    private var lingerTimer: Timer?
    private var lingerer: ByteStream?
    private var whenFinished: (() -> Void)?
    /// Why the stream ended, for those who come too late to have been told.
    package private(set) var endReason: StreamError?

    /// Takes over a connected socket, as a plain stream or as the server's side of TLS.
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
        }
        guard bufferevent != nil else { return nil }
    }

    /// Starts to connect to `address`.
    init(loop: EventLoop, connectingTo address: SocketAddress) {
        self.loop = loop
        state = .connecting
        adopt(bufferevent_socket_new(loop.base, -1, Int32(BEV_OPT_CLOSE_ON_FREE.rawValue)))
        let started = address.withPointer { bufferevent_socket_connect(bufferevent, $0, Int32($1)) }
        if started != 0, state == .connecting { end(.lastSystemError()) }
    }

    deinit { release() }

    private func adopt(_ new: OpaquePointer?) {
        guard let new else { return }
        bufferevent = new
        bufferevent_setcb(
            new,
            { _, context in ByteStream.of(context).readable() },
            { _, context in ByteStream.of(context).writable() },
            { _, events, context in ByteStream.of(context).happened(Int32(events)) },
            Unmanaged.passUnretained(self).toOpaque())
        bufferevent_set_max_single_read(new, Self.largestRead)
        bufferevent_set_max_single_write(new, Self.highWater)
        setWaterMarks(new)
        if state == .open { noDelay() }
        bufferevent_enable(new, Int16(EV_READ | EV_WRITE))
    }

    private func setWaterMarks(_ bufferevent: OpaquePointer) {
        bufferevent_setwatermark(bufferevent, Int16(EV_WRITE), lowWater, 0)
    }

    private static func of(_ context: UnsafeMutableRawPointer?) -> ByteStream {
        Unmanaged<ByteStream>.fromOpaque(context!).takeUnretainedValue()
    }

    private func release() {
        guard let bufferevent else { return }
        self.bufferevent = nil
        bufferevent_setcb(bufferevent, nil, nil, nil, nil)
        bufferevent_free(bufferevent)
    }

    // MARK: Writing

    /// Bytes written and not yet taken by the network.
    package var unsent: Int {
        guard let bufferevent else { return 0 }
        let encrypted = bufferevent_get_underlying(bufferevent).map { evbuffer_get_length(bufferevent_get_output($0)) }
        return evbuffer_get_length(bufferevent_get_output(bufferevent)) + (encrypted ?? 0)
    }

    /// Whether the stream can still be written to.
    package var isOpen: Bool { state == .open }

    /// Sends `bytes` after all that was written before, as soon as the stream is open; does nothing once it has ended.
    package func write(_ bytes: RawSpan) {
        guard state == .open || state == .connecting, let bufferevent else { return }
        bytes.withUnsafeBytes { _ = bufferevent_write(bufferevent, $0.baseAddress, $0.count) }
        if !heldBack, unsent > highWater {
            heldBack = true
            updateReading()
        }
    }

    /// The same.
    package func write(_ bytes: [UInt8]) { write(bytes.span.bytes) }

    // MARK: Reading

    /// Stops taking bytes from the peer until ``resumeReading()``.
    package func pauseReading() {
        pausedByHandler = true
        updateReading()
    }

    /// Takes bytes from the peer again.
    package func resumeReading() {
        pausedByHandler = false
        updateReading()
        // What came before the pause waits in the buffer, and no event will tell of it again.
        readable()
    }

    private func updateReading() {
        guard let bufferevent, state != .ended else { return }
        if heldBack || pausedByHandler {
            bufferevent_disable(bufferevent, Int16(EV_READ))
        } else {
            bufferevent_enable(bufferevent, Int16(EV_READ))
        }
    }

    /// Puts bytes in front of those that wait to be read.
    func prepend(_ bytes: [UInt8]) {
        guard let bufferevent, !bytes.isEmpty else { return }
        evbuffer_prepend(bufferevent_get_input(bufferevent), bytes, bytes.count)
    }

    private func readable() {
        // A handler may resume the stream while it is being told: what is left is told when it returns.
        guard !isDelivering, state != .connecting else { return }
        isDelivering = true
        defer { isDelivering = false }
        while let bufferevent, state != .ended, !pausedByHandler || state == .lingering {
            let input = bufferevent_get_input(bufferevent)
            let length = evbuffer_get_contiguous_space(input)
            guard length > 0, let start = evbuffer_pullup(input, length) else { return }
            if state == .open {
                handler?.stream(self, received: UnsafeRawBufferPointer(start: start, count: length).bytes)
            }
            // The handler may have closed the stream, and its buffers with it.
            guard self.bufferevent == bufferevent else { return }
            evbuffer_drain(input, length)
        }
    }

    private func writable() {
        if heldBack, unsent <= lowWater {
            heldBack = false
            updateReading()
            readable()
        }
        if state == .open { handler?.streamDrained(self) }
    }

    // MARK: Beginning and end

    private func happened(_ events: Int32) {
        if events & Int32(BEV_EVENT_CONNECTED) != 0 {
            if let context, let ssl = bufferevent.flatMap({ bufferevent_openssl_get_ssl($0) }),
                !context.isAgreed(on: ssl)
            {
                return end(.tls("the other side does not speak the application protocol that is needed"))
            }
            state = .open
            noDelay()
            handler?.streamDrained(self)
            // What came with the end of the handshake.
            readable()
            return
        }
        guard let bufferevent else { return }
        if events & Int32(BEV_EVENT_EOF) != 0 {
            readable()
            // Half closed: what we still have to say is said first.
            if state == .lingering, unsent > 0 { return }
            end(.closed)
        } else if events & Int32(BEV_EVENT_ERROR) != 0 {
            end(.ofFailed(bufferevent))
        }
    }

    private func noDelay() {
        var on: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
    }

    private var descriptor: Int32 { bufferevent.map { bufferevent_getfd($0) } ?? -1 }

    /// Ends the stream at once; what was not sent is lost. The handler hears nothing.
    package func close() { end(.closed, tellingHandler: false) }

    /// Ends the stream at once, after as much of what was written as the system takes without waiting. For a plain stream
    /// whose peer is not worth the wait of ``finish(then:)``. The handler hears nothing.
    package func closeAfterWriting() {
        if state == .open, let bufferevent, bufferevent_get_underlying(bufferevent) == nil {
            evbuffer_unfreeze(bufferevent_get_output(bufferevent), 1)
            _ = evbuffer_write(bufferevent_get_output(bufferevent), descriptor)
        }
        close()
    }

    /// Ends the stream at once and tells the handler why.
    package func fail(_ reason: StreamError) { end(reason) }

    /// Ends the stream after what was written has been sent: our side is closed, and the peer then has a little time
    /// to read it (``lingerTime``) while what it still sends is dropped. Without that wait a TCP reset could overtake
    /// our last words. The handler hears nothing; `done` is called when the stream is over.
    package func finish(then done: (() -> Void)? = nil) {
        guard state == .open else {
            close()
            done?()
            return
        }
        whenFinished = done
        state = .lingering
        handler = nil
        lingerer = self
        pausedByHandler = false
        heldBack = false
        updateReading()
        let deadline = MonotonicTime.now + Self.lingerTime
        let timer = Timer(on: loop) { [unowned self] in linger(until: deadline) }
        lingerTimer = timer
        linger(until: deadline)
    }

    /// Looks every few milliseconds whether everything has been sent (TLS does not tell), then closes our side and goes
    /// on dropping what comes until the peer has closed its own.
    private func linger(until deadline: MonotonicTime) {
        guard MonotonicTime.now < deadline else { return end(.timedOut) }
        guard unsent == 0 else {
            lingerTimer?.start(after: .milliseconds(5))
            return
        }
        shutdown(descriptor, Int32(SHUT_WR))
        lingerTimer?.start(after: deadline - .now)
    }

    private func end(_ reason: StreamError, tellingHandler: Bool = true) {
        guard state != .ended else { return }
        state = .ended
        endReason = reason
        lingerTimer = nil
        release()
        if tellingHandler { handler?.stream(self, ended: reason) }
        whenFinished?()
        whenFinished = nil
        lingerer = nil
    }

    // MARK: TLS

    /// The common name of the certificate that the peer showed and that was verified; nil where there is none.
    package var peerCommonName: String? {
        guard let ssl = bufferevent.flatMap({ bufferevent_openssl_get_ssl($0) }),
            let certificate = SSL_get1_peer_certificate(ssl)
        else { return nil }
        defer { X509_free(certificate) }
        var name = [CChar](repeating: 0, count: 256)
        let length = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, &name, 256)
        guard length >= 0 else { return nil }
        return String(decoding: name.prefix(Int(length)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Puts TLS on top of a plain bufferevent. As a filter, so that one read of the socket brings many records and one
    /// write sends many; what it may hold back is bounded, or nothing would ever press back.
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

    /// Makes an open plain stream the client's side of a TLS connection to `host`. The handler hears
    /// `streamDrained` when the handshake is done, or that the stream has ended.
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
