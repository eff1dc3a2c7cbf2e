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
    package var highWater = ByteStream.highWater
    private var lowWater: Int { highWater / 4 }
    /// Maximum bytes read per turn of the loop, which bounds the work of one connection per turn.
    package var largestRead = ByteStream.largestRead

    private enum State { case connecting, handshaking, open, lingering, ended }
    private var state: State
    /// The socket; -1 after the end.
    private var descriptor: Int32
    /// The socket in a simulation, in place of ``descriptor``.
    private var simulated: SimulatedSocket?
    /// What ALPN would have selected in a simulation.
    private var simulatedProtocol: String?
    private var tls: TLSSession?

    private var readEvent: OpaquePointer?
    /// Whether the stream waits for bytes from the socket.
    private var isReading = false
    private var pausedByHandler = false
    /// Whether the socket has had bytes since the handler paused the stream.
    private var hasUnreadInput = false
    private var isDelivering = false
    /// Bytes for the handler that arrived before it accepted them: at most ``largestRead`` and one TLS record.
    private var input: [UInt8] = []
    /// How the stream ends after ``input`` is delivered; `nil` while it goes on.
    private var endAfterInput: StreamError?

    private var writeEvent: OpaquePointer?
    /// libevent's buffer for bytes that the kernel has not accepted; made when it first needs to hold any.
    private var output: OpaquePointer?
    /// Bytes written before the stream was open.
    private var early: [UInt8] = []
    private var isBackedUp = false

    private var lingerTimer: Timer?
    private var selfWhileLingering: ByteStream?
    private var whenFinished: (() -> Void)?
    /// Whether the peer closed its side before it read the output.
    private var peerHasClosed = false
    /// Why the stream ended; `nil` before that. For code that was not the handler when the stream ended.
    package private(set) var endReason: StreamError?

    /// Takes ownership of a connected socket, as a plain stream or, if `context` is given, as the server side of TLS.
    init(loop: EventLoop, descriptor: Int32, accepting context: TLSContext?) {
        self.loop = loop
        self.descriptor = descriptor
        state = .open
        noDelay()
        updateReading()
        if let context { secure(context, verifying: nil) }
    }

    /// Starts connecting to `address`.
    init(loop: EventLoop, connectingTo address: SocketAddress) {
        self.loop = loop
        state = .connecting
        descriptor = -1
        let started = address.withPointer { address, length in
            descriptor = socket(
                Int32(address.pointee.sa_family),
                Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue),
                0)
            return descriptor >= 0 && (connect(descriptor, address, length) == 0 || errno == EINPROGRESS)
        }
        if started { waitUntilWritable() } else { end(.lastSystemError()) }
    }

    /// Takes ownership of a connected socket of a simulated network.
    init(_ socket: SimulatedSocket) {
        loop = socket.loop
        descriptor = -1
        simulated = socket
        state = .open
        socket.stream = self
        updateReading()
    }

    /// Starts connecting to an endpoint of a simulated network.
    init(loop: EventLoop, connectingTo endpoint: Endpoint, in simulation: Simulation) {
        self.loop = loop
        state = .connecting
        descriptor = -1
        let socket = SimulatedSocket(on: loop, of: simulation.network)
        simulated = socket
        socket.stream = self
        simulation.network.connect(socket, to: endpoint)
        waitUntilWritable()
    }

    deinit { release() }

    private static func of(_ context: UnsafeMutableRawPointer?) -> ByteStream {
        Unmanaged<ByteStream>.fromOpaque(context!).takeUnretainedValue()
    }

    private func release() {
        if let readEvent { event_free(readEvent) }
        if let writeEvent { event_free(writeEvent) }
        if let output { evbuffer_free(output) }
        (readEvent, writeEvent, output) = (nil, nil, nil)
        if descriptor >= 0 { Glibc.close(descriptor) }
        descriptor = -1
        simulated?.close()
    }

    /// Removes the handler with this identity, if it is still the stream's handler. For handlers that end.
    func detach(_ handler: ObjectIdentifier) {
        if handlerIdentity == handler { self.handler = nil }
    }

    // MARK: Writing

    /// Bytes written but not yet accepted by the kernel; with TLS, encrypted ones.
    package var unsent: Int { early.count + queued }

    private var queued: Int { output.map { evbuffer_get_length($0) } ?? 0 }

    /// Whether the stream is connected and not closing.
    package var isOpen: Bool { state == .open }

    /// Sends `bytes` after earlier output, once the stream is open. Does nothing if the stream is closing or has ended.
    package func write(_ bytes: RawSpan) {
        switch state {
        case .connecting, .handshaking: bytes.withUnsafeBytes { early += $0 }
        case .open: bytes.withUnsafeBytes(writeNow)
        case .lingering, .ended: return
        }
        checkOutput()
    }

    /// Sends an array of bytes like the overload that takes a span.
    package func write(_ bytes: [UInt8]) { write(bytes.span.bytes) }

    /// Stops reading if the peer leaves too much output unread.
    private func checkOutput() {
        guard !isBackedUp, unsent > highWater else { return }
        isBackedUp = true
        updateReading()
    }

    private func writeNow(_ bytes: UnsafeRawBufferPointer) {
        guard let tls else { return transmit(bytes) }
        if !tls.write(bytes) {
            // Not during the handler's call: it would not expect the end.
            endAfterInput = .tls("no memory to encrypt the output")
            event_active(readEvent, Int32(EV_READ), 0)
        }
    }

    /// Passes bytes to the kernel. Those that it does not take wait in ``output``.
    func transmit(_ bytes: UnsafeRawBufferPointer) {
        // After an error, the next attempt meets the same error and ends the stream.
        let sent = queued > 0 ? 0 : max(0, socketSend(bytes))
        guard sent < bytes.count else { return }
        output = output ?? evbuffer_new()
        let rest = UnsafeRawBufferPointer(rebasing: bytes[sent...])
        evbuffer_add(output, rest.baseAddress, rest.count)
        waitUntilWritable()
    }

    /// - Returns: how many bytes the socket took; -1 after an error, or if it takes none now.
    private func socketSend(_ bytes: UnsafeRawBufferPointer) -> Int {
        if let simulated { return simulated.send(bytes) ?? -1 }
        return send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
    }

    private func waitUntilWritable() {
        if let simulated { return simulated.wantsWrite = true }
        if writeEvent == nil {
            writeEvent = event_new(
                loop.base, descriptor, Int16(EV_WRITE | EV_PERSIST),
                { _, _, context in ByteStream.of(context).writable() }, Unmanaged.passUnretained(self).toOpaque())
        }
        event_add(writeEvent, nil)
    }

    private func writable() {
        loop.eventBegins()
        if state == .connecting { return connected() }
        guard sendQueued() else {
            return end(simulated.map { .system($0.failure ?? "Broken pipe") } ?? .lastSystemError())
        }
        if queued == 0 {
            stopWaitingUntilWritable()
            if state == .lingering { return outputSent() }
        }
        guard unsent <= lowWater else { return }
        if isBackedUp {
            isBackedUp = false
            updateReading()
            deliverInput()
        }
        if state == .open { handler?.streamDrained(self) }
    }

    /// Sends queued output.
    /// - Returns: `false` after an error of the socket.
    private func sendQueued() -> Bool {
        guard queued > 0 else { return true }
        if let simulated {
            let start = evbuffer_pullup(output, -1)
            guard let sent = simulated.send(UnsafeRawBufferPointer(start: start, count: queued)) else { return false }
            evbuffer_drain(output, sent)
            return true
        }
        return evbuffer_write(output, descriptor) >= 0 || errno == EAGAIN || errno == EINTR
    }

    // MARK: Reading

    /// Delivers no bytes until ``resumeReading()``. The stream itself stops reading when bytes arrive during the pause:
    /// most pauses end before, and then they cost no system call.
    package func pauseReading() { pausedByHandler = true }

    /// Resumes reading, and delivers the bytes that arrived before.
    package func resumeReading() {
        pausedByHandler = false
        hasUnreadInput = false
        updateReading()
        deliverInput()
    }

    private func updateReading() {
        let reads: Bool
        switch state {
        case .connecting, .ended: reads = false
        case .handshaking: reads = true
        case .open: reads = !isBackedUp && !(pausedByHandler && hasUnreadInput)
        case .lingering: reads = !peerHasClosed
        }
        guard reads != isReading, descriptor >= 0 || simulated != nil else { return }
        isReading = reads
        if let simulated { return simulated.wantsRead = reads }
        if readEvent == nil {
            readEvent = event_new(
                loop.base, descriptor, Int16(EV_READ | EV_PERSIST),
                { _, _, context in ByteStream.of(context).readable() }, Unmanaged.passUnretained(self).toOpaque())
        }
        _ = reads ? event_add(readEvent, nil) : event_del(readEvent)
    }

    /// Puts bytes in front of those for the handler, so that they are delivered first.
    func prepend(_ bytes: [UInt8]) { input = bytes + input }

    /// Reads from the socket, once per turn of the loop.
    private func readable() {
        loop.eventBegins()
        if pausedByHandler, state == .open {
            hasUnreadInput = true
            return updateReading()
        }
        if let endAfterInput, state == .open { return end(endAfterInput) }
        let buffer = loop.readBuffer
        if let simulated {
            if let reason = simulated.failure { return end(.system(reason)) }
            guard let count = simulated.receive(into: buffer, atMost: largestRead) else { return }
            return count > 0 ? received(UnsafeRawBufferPointer(rebasing: buffer[..<count])) : peerClosed()
        }
        let count = recv(descriptor, buffer.baseAddress, min(buffer.count, largestRead), 0)
        if count > 0 {
            received(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        } else if count == 0 {
            peerClosed()
        } else if errno != EAGAIN, errno != EINTR {
            end(.lastSystemError())
        }
    }

    private func received(_ bytes: UnsafeRawBufferPointer) {
        // A stream that lingers discards what it receives.
        guard state != .lingering else { return }
        guard let tls else { return deliver(bytes) }
        tls.receive(bytes)
        if state == .handshaking { shakeHands(tls) }
        while state == .open, endAfterInput == nil {
            let (count, step) = tls.read(into: loop.decryptionBuffer)
            // TLS answers some records by itself: a peer that only sends those must read the answers.
            checkOutput()
            if count > 0 { deliver(UnsafeRawBufferPointer(rebasing: loop.decryptionBuffer[..<count])) }
            switch step {
            case .done: continue
            case .needsInput: return
            case .ended(let reason):
                if state == .open, !pausedByHandler { return end(reason) }
                endAfterInput = reason
            }
        }
    }

    private func peerClosed() {
        guard state == .lingering else { return end(tls?.endOfInput ?? .closed) }
        // Send the remaining output first.
        guard queued > 0 else { return end(.closed) }
        peerHasClosed = true
        updateReading()
    }

    /// Passes bytes to the handler, or keeps them during a pause.
    private func deliver(_ bytes: UnsafeRawBufferPointer) {
        guard !pausedByHandler, input.isEmpty else {
            input += bytes
            return
        }
        isDelivering = true
        handler?.stream(self, received: bytes.bytes)
        isDelivering = false
    }

    /// Passes kept bytes to the handler.
    private func deliverInput() {
        // During the handler's call: the outer call of this function delivers the rest.
        guard !isDelivering else { return }
        while state == .open, !pausedByHandler, !input.isEmpty {
            let bytes = input
            input = []
            bytes.withUnsafeBytes(deliver)
        }
        if state == .open, !pausedByHandler, let endAfterInput { end(endAfterInput) }
    }

    // MARK: Opening and closing

    /// Ends the wait for the connection.
    private func connected() {
        if let reason = simulated?.failure { return end(.system(reason)) }
        guard simulated == nil else { return connectionIsOpen() }
        var failure: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &failure, &length)
        guard failure == 0 else { return end(.system(String(cString: strerror(failure)))) }
        noDelay()
        connectionIsOpen()
    }

    private func connectionIsOpen() {
        stopWaitingUntilWritable()
        opened()
    }

    private func stopWaitingUntilWritable() {
        if let simulated { simulated.wantsWrite = false } else { event_del(writeEvent) }
    }

    private func opened() {
        state = .open
        if !early.isEmpty {
            early.withUnsafeBytes(writeNow)
            early = []
        }
        isBackedUp = unsent > highWater
        updateReading()
        handler?.streamDrained(self)
    }

    private func noDelay() {
        var on: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
    }

    /// Closes the stream at once and discards unsent output. Does not call the handler.
    package func close() { end(.closed, notifyingHandler: false) }

    /// Closes the stream at once, and discards also the output that the peer has not received yet. For a peer that does not
    /// respond: the kernel would go on to send that output, and the peer might receive it much later. Does not call the
    /// handler.
    package func abort() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        close()
    }

    /// Closes the stream at once, after writing as much output as the kernel accepts without blocking. Use it when the
    /// peer does not merit the wait of ``finish(then:)``. Does not call the handler.
    package func closeAfterWriting() {
        if state == .open { _ = sendQueued() }
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
        updateReading()
        lingerTimer = Timer(on: loop, after: Self.lingerTime) { [unowned self] in end(.timedOut) }
        tls?.close()
        if queued == 0 { outputSent() }
    }

    /// Shuts down this side of a stream that lingers.
    private func outputSent() {
        if peerHasClosed { return end(.closed) }
        if let simulated { simulated.shutDown() } else { shutdown(descriptor, Int32(SHUT_WR)) }
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

    // MARK: In a simulation

    func simulatedReadable() { readable() }
    func simulatedWritable() { writable() }

    // MARK: TLS

    /// The stream's SSL object; `nil` without TLS.
    package var ssl: OpaquePointer? { tls?.ssl }
    /// The protocol that ALPN selected (RFC 7301); `nil` without TLS or ALPN.
    package var applicationProtocol: String? {
        simulatedProtocol ?? tls.flatMap { TLSContext.negotiatedProtocol(on: $0.ssl) }
    }

    /// When the peer's certificate expires, Unix time in seconds; `nil` if the peer presented none.
    package var peerCertificateExpiry: Int64? {
        guard let certificate = ssl.flatMap({ SSL_get1_peer_certificate($0) }) else { return nil }
        defer { X509_free(certificate) }
        return certificateValidity(of: certificate).notAfter
    }

    /// Turns an open plain stream into the client side of a TLS connection to `host`. The handler receives
    /// `streamDrained` after the handshake, or the end of the stream.
    func startTLS(_ context: TLSContext, host: String) {
        guard state == .open else { return end(.closed) }
        pausedByHandler = false
        secure(context, verifying: host)
    }

    /// Starts TLS: as a client if `host` is given, otherwise as a server.
    private func secure(_ context: TLSContext, verifying host: String?) {
        // A simulation has no TLS: the lengths of its records vary, and would make every run different.
        if simulated != nil {
            simulatedProtocol = context.applicationProtocol
            return opened()
        }
        guard let tls = TLSSession(context, verifying: host, on: self) else { return end(.tls("out of memory")) }
        self.tls = tls
        state = .handshaking
        updateReading()
        // Bytes that arrived already belong to TLS.
        let received = input
        input = []
        received.withUnsafeBytes {
            tls.receive($0)
            shakeHands(tls)
        }
    }

    private func shakeHands(_ tls: TLSSession) {
        switch tls.handshake() {
        case .done: opened()
        case .needsInput: break
        case .ended(let reason): end(reason)
        }
    }
}
