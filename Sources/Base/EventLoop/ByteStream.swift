// SPDX-License-Identifier: Apache-2.0

import CLibevent
import COpenSSL
import Cryptography
import Glibc
import Synchronization
import Time

/// Receives the events of a ``ByteStream``, on the stream's event loop.
package protocol ByteStreamHandler: AnyObject {
    /// Bytes arrived. The handler consumes all of them; the span is valid only during the call.
    func stream(_ stream: ByteStream, received bytes: RawSpan)
    /// Unsent output has fallen to a quarter of ``ByteStream/highWater``, after output that the kernel did not take at
    /// once. Also called when the stream is connected, and when a TLS handshake is complete.
    func streamDrained(_ stream: ByteStream)
    /// The stream has ended. Called at most once, and not after the handler closed the stream itself.
    func stream(_ stream: ByteStream, ended reason: StreamError)
}

extension ByteStreamHandler {
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
    package static let maximumRead = 64 * 1024
    /// How long ``finish(then:)`` waits for the peer to read the output and close.
    package static let lingerTime = Duration.seconds(2)

    /// The event loop that serves the stream.
    package let loop: EventLoop
    /// Receives the stream's events; not retained. A handler that is released before its stream must close the stream
    /// or call ``detach(_:)``. A weak reference would need neither, but would make each use of a handler much slower.
    package unowned var handler: (any ByteStreamHandler)? {
        didSet { handlerIdentity = handler.map { ObjectIdentifier($0) } }
    }
    private var handlerIdentity: ObjectIdentifier?
    /// The stream stops reading above this many bytes of unsent output, and resumes at a quarter of it.
    package var highWater = ByteStream.highWater
    private var lowWater: Int { highWater / 4 }
    /// Maximum bytes read per turn of the loop, which bounds the work of one connection per turn.
    package var maximumRead = ByteStream.maximumRead

    private enum State { case connecting, handshaking, open, lingering, ended }
    private var state: State
    private let socket: any StreamSocket
    /// The protocol that ALPN would have selected, if TLS was asked for and the socket carries none.
    private var assumedProtocol: String?
    private var tls: TLSSession?
    /// The step of the handshake with which another thread is busy; `nil` if there is none.
    private var step: HandshakeStep?

    private var pausedByHandler = false
    /// Whether the socket has had bytes since the handler paused the stream.
    private var hasUnreadInput = false
    private var isDelivering = false
    /// Bytes for the handler that arrived before it accepted them: at most ``maximumRead`` and one TLS record.
    private var input: [UInt8] = []
    /// How the stream ends after ``input`` is delivered; `nil` while it goes on.
    private var endAfterInput: StreamError?

    /// libevent's buffer for bytes that the socket has not accepted; made when it first needs to hold any.
    private var output: OpaquePointer?
    /// Bytes written before the stream was open.
    private var early: [UInt8] = []
    private var isBackedUp = false

    private var lingerTimer: Timer?
    private var whenFinished: (() -> Void)?
    /// Whether the peer closed its side before it read the output.
    private var peerHasClosed = false
    /// Why the stream ended; `nil` before that. For code that was not the handler when the stream ended.
    package private(set) var endReason: StreamError?

    /// Takes ownership of a connected socket, as a plain stream or, if `context` is given, as the server side of TLS.
    init(_ socket: any StreamSocket, on loop: EventLoop, accepting context: TLSContext? = nil) {
        self.loop = loop
        self.socket = socket
        state = .open
        socket.stream = self
        updateReading()
        if let context { secure(context, verifying: nil) }
    }

    /// Takes ownership of a socket that connects.
    init(connecting socket: any StreamSocket, on loop: EventLoop) {
        self.loop = loop
        self.socket = socket
        state = .connecting
        socket.stream = self
        socket.wantsWrite = true
    }

    /// Starts to connect to `address`.
    convenience init(loop: EventLoop, connectingTo address: SocketAddress) {
        let socket = KernelSocket(connectingTo: address, on: loop)
        self.init(connecting: socket, on: loop)
        if let failure = socket.startFailure { tearDown(failure) }
    }

    deinit { release() }

    private func release() {
        if let output { evbuffer_free(output) }
        output = nil
        socket.close()
    }

    /// Removes the handler with this identity, if it is still the stream's handler. For the `deinit` of a handler,
    /// which cannot pass itself.
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
            // Ends the stream in the next turn: the handler may be calling, and does not expect the end.
            endAfterInput = .tls("no memory to encrypt the output")
            socket.reportReadable()
        }
    }

    /// Passes bytes to the socket. Those that it does not take wait in ``output``.
    func transmit(_ bytes: UnsafeRawBufferPointer) {
        // After an error, the next attempt meets the same error and ends the stream.
        let sent = queued > 0 ? 0 : socket.send(bytes) ?? 0
        guard sent < bytes.count else { return }
        output = output ?? evbuffer_new()
        let rest = UnsafeRawBufferPointer(rebasing: bytes[sent...])
        evbuffer_add(output, rest.baseAddress, rest.count)
        socket.wantsWrite = true
    }

    /// The socket has room for output, or its attempt to connect has ended. Called by the socket.
    package func writable() {
        loop.eventBegins()
        if state == .connecting { return connected() }
        if let failure = sendQueued() { return tearDown(failure) }
        if queued == 0 {
            socket.wantsWrite = false
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
    /// - Returns: why the socket failed; `nil` if it did not.
    private func sendQueued() -> StreamError? {
        guard queued > 0, let output else { return nil }
        return socket.flush(output)
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
        case .handshaking: reads = step == nil
        case .open: reads = !isBackedUp && !(pausedByHandler && hasUnreadInput)
        case .lingering: reads = !peerHasClosed
        }
        socket.wantsRead = reads
    }

    /// Puts bytes in front of those for the handler, so that they are delivered first.
    func prepend(_ bytes: [UInt8]) { input = bytes + input }

    /// Reads from the socket, once per turn of the loop. Called by the socket.
    package func readable() {
        loop.eventBegins()
        if pausedByHandler, state == .open {
            hasUnreadInput = true
            return updateReading()
        }
        if let endAfterInput, state == .open { return tearDown(endAfterInput) }
        let buffer = loop.readBuffer
        switch socket.receive(into: buffer, atMost: maximumRead) {
        case .bytes(let count): received(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        case .nothing: break
        case .end: peerClosed()
        case .failed(let reason): tearDown(reason)
        }
    }

    private func received(_ bytes: UnsafeRawBufferPointer) {
        // A stream that lingers discards what it receives.
        guard state != .lingering else { return }
        guard let tls else { return deliver(bytes) }
        tls.receive(bytes)
        if state == .handshaking { shakeHands(tls) }
        decrypt(tls)
    }

    /// Passes what TLS has received to the handler, once the handshake is complete.
    private func decrypt(_ tls: TLSSession) {
        while state == .open, endAfterInput == nil {
            let (count, step) = tls.read(into: loop.decryptionBuffer)
            // TLS answers some records by itself: a peer that only sends those must read the answers.
            checkOutput()
            if count > 0 { deliver(UnsafeRawBufferPointer(rebasing: loop.decryptionBuffer[..<count])) }
            switch step {
            case .done: continue
            case .needsInput: return
            case .ended(let reason):
                if state == .open, !pausedByHandler { return tearDown(reason) }
                endAfterInput = reason
            }
        }
    }

    private func peerClosed() {
        guard state == .lingering else { return tearDown(tls?.endOfInput ?? .closed) }
        // Send the remaining output first.
        guard queued > 0 else { return tearDown(.closed) }
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
        // Inside a call of the handler, the outer call of this function delivers the rest.
        guard !isDelivering else { return }
        while state == .open, !pausedByHandler, !input.isEmpty {
            let bytes = input
            input = []
            bytes.withUnsafeBytes(deliver)
        }
        if state == .open, !pausedByHandler, let endAfterInput { tearDown(endAfterInput) }
    }

    // MARK: Opening and closing

    /// Ends the wait for the connection.
    private func connected() {
        if let failure = socket.connectFailure() { return tearDown(failure) }
        socket.wantsWrite = false
        opened()
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

    /// Closes the stream at once and discards unsent output. Does not call the handler.
    package func close() { tearDown(.closed, notifyingHandler: false) }

    /// Closes the stream at once, and discards also the output that the peer has not received yet. For a peer that does not
    /// respond: the kernel would go on to send that output, and the peer might receive it much later. Does not call the
    /// handler.
    package func abort() {
        socket.discardOutput()
        close()
    }

    /// Closes the stream at once, after writing as much output as the kernel accepts without blocking. For a peer that
    /// is not worth the wait of ``finish(then:)``. Does not call the handler.
    package func closeAfterWriting() {
        if state == .open { _ = sendQueued() }
        close()
    }

    /// Closes the stream at once and reports `reason` to the handler.
    package func fail(_ reason: StreamError) { tearDown(reason) }

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
        loop.keep(self)
        updateReading()
        lingerTimer = Timer(on: loop, after: Self.lingerTime) { [unowned self] in tearDown(.timedOut) }
        tls?.close()
        if queued == 0 { outputSent() }
    }

    /// Shuts down this side of a stream that lingers.
    private func outputSent() {
        if peerHasClosed { return tearDown(.closed) }
        socket.shutDown()
    }

    private func tearDown(_ reason: StreamError, notifyingHandler: Bool = true) {
        guard state != .ended else { return }
        let hasLingered = state == .lingering
        state = .ended
        endReason = reason
        step?.cancel()
        lingerTimer = nil
        release()
        if notifyingHandler { handler?.stream(self, ended: reason) }
        handler = nil
        whenFinished?()
        whenFinished = nil
        if hasLingered { loop.letGo(of: self) }
    }

    // MARK: TLS

    /// The stream's SSL object; `nil` without TLS.
    package var ssl: OpaquePointer? { tls?.ssl }
    /// The protocol that ALPN selected (RFC 7301); `nil` without TLS or ALPN.
    package var applicationProtocol: String? {
        assumedProtocol ?? tls.flatMap { TLSContext.negotiatedProtocol(on: $0.ssl) }
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
        guard state == .open else { return tearDown(.closed) }
        pausedByHandler = false
        secure(context, verifying: host)
    }

    /// Starts TLS: as a client if `host` is given, otherwise as a server.
    private func secure(_ context: TLSContext, verifying host: String?) {
        guard socket.carriesTLS else {
            assumedProtocol = context.applicationProtocol
            return opened()
        }
        guard let tls = TLSSession(context, verifying: host, on: self) else { return tearDown(.tls("out of memory")) }
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
        guard let threads = tls.handshakeThreads else { return handshakeContinued(tls.handshake()) }
        let step = HandshakeStep(self)
        self.step = step
        updateReading()
        tls.handshake(on: threads, if: { step.isWanted }, step.ended)
    }

    fileprivate func handshakeStepEnded(_ step: TLSSession.Step) {
        guard state == .handshaking, let tls else { return }
        loop.eventBegins()
        self.step = nil
        let rest = tls.sendKeptOutput()
        handshakeContinued(step)
        updateReading()
        rest.withUnsafeBytes {
            tls.receive($0)
            decrypt(tls)
        }
    }

    private func handshakeContinued(_ step: TLSSession.Step) {
        switch step {
        case .done: opened()
        case .needsInput: break
        case .ended(let reason): tearDown(reason)
        }
    }
}

/// A step of a handshake on another thread. It refers to the stream, which may end meanwhile.
private final class HandshakeStep: @unchecked Sendable {
    // Unchecked: only the loop follows the reference.
    private weak var stream: ByteStream?
    private let isCancelled = Atomic(false)

    init(_ stream: ByteStream) { self.stream = stream }

    var isWanted: Bool { !isCancelled.load(ordering: .acquiring) }

    func cancel() { isCancelled.store(true, ordering: .releasing) }

    @Sendable func ended(_ step: TLSSession.Step) { stream?.handshakeStepEnded(step) }
}
