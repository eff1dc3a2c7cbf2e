// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import Cryptography
import Dispatch

/// TLS on one stream. OpenSSL does no I/O here: ``receive(_:)`` passes in what the socket received, and each record to
/// send goes to ``ByteStream/transmit(_:)``. The stream's loop only, except for a step of ``handshake(on:if:_:)``.
final class TLSSession: @unchecked Sendable {
    // Unchecked: during a step on another thread, the loop leaves the session alone.

    /// What a step of TLS ended with.
    enum Step {
        /// The handshake is complete, or the buffer is full.
        case done
        /// TLS needs more bytes from the peer.
        case needsInput
        /// TLS has ended: the peer closed it, or it failed.
        case ended(StreamError)
    }

    /// OpenSSL's state of the connection.
    let ssl: OpaquePointer
    private let context: TLSContext
    private unowned let stream: ByteStream
    /// Received bytes that OpenSSL has not read yet; valid until ``receive(_:)`` gets the next ones.
    private var input = UnsafeRawBufferPointer(start: nil, count: 0)
    /// The received bytes for a step on another thread; after it, those that the step did not read.
    private var keptInput: [UInt8] = []
    /// The records that a step on another thread has to send; `nil` at other times.
    private var keptOutput: [UInt8]?

    /// The client side if `host` is given, which the server's certificate must be valid for; otherwise the server side.
    /// `nil` if memory is short, or if the host cannot be verified.
    init?(_ context: TLSContext, verifying host: String?, on stream: ByteStream) {
        guard let ssl = context.newConnection(verifying: host) else { return nil }
        guard let bio = BIO_new(Self.method) else {
            SSL_free(ssl)
            return nil
        }
        self.ssl = ssl
        self.context = context
        self.stream = stream
        BIO_set_data(bio, Unmanaged.passUnretained(self).toOpaque())
        BIO_set_init(bio, 1)
        SSL_set_bio(ssl, bio, bio)
        if host == nil { SSL_set_accept_state(ssl) } else { SSL_set_connect_state(ssl) }
    }

    deinit { SSL_free(ssl) }

    /// Passes in bytes that the socket received. The next ``handshake()`` or ``read(into:)`` reads all of them; they must
    /// stay in place until it returns.
    func receive(_ bytes: UnsafeRawBufferPointer) { input = bytes }

    /// Continues the handshake. It is complete only if both sides agreed on the application protocol.
    func handshake() -> Step {
        ERR_clear_error()
        let result = SSL_do_handshake(ssl)
        guard result == 1 else { return step(after: result) }
        guard context.hasNegotiatedProtocol(on: ssl) else {
            return .ended(.tls("the peer does not support the required application protocol (ALPN)"))
        }
        return .done
    }

    /// The threads on which the handshake takes its steps; `nil` for the loop's.
    var handshakeThreads: DispatchQueue? { context.handshakeThreads }

    /// Continues the handshake on another thread, where it may take long. The loop must not use the session until then.
    /// - Parameters:
    ///   - isWanted: asked before the step, on the other thread; if it returns `false`, neither the step nor `done`
    ///     runs.
    ///   - done: receives the step on the loop, where ``sendKeptOutput()`` must follow.
    func handshake(
        on threads: DispatchQueue, if isWanted: @escaping @Sendable () -> Bool,
        _ done: @escaping @Sendable (Step) -> Void
    ) {
        keptInput = Array(input)
        keptOutput = []
        threads.async { [self, loop = stream.loop] in
            guard isWanted() else { return }
            let step = keptInput.withUnsafeBytes {
                input = $0
                let step = handshake()
                keptInput = Array(input)
                input = UnsafeRawBufferPointer(start: nil, count: 0)
                return step
            }
            Task(executorPreference: loop) { done(step) }
        }
    }

    /// Sends the records of a step on another thread.
    /// - Returns: the received bytes that the step did not read, for ``receive(_:)``.
    func sendKeptOutput() -> [UInt8] {
        keptOutput?.withUnsafeBytes(stream.transmit)
        keptOutput = nil
        defer { keptInput = [] }
        return keptInput
    }

    /// Decrypts received bytes until `buffer` is full or all of them are read.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> (count: Int, Step) {
        ERR_clear_error()
        var count = 0
        while count < buffer.count {
            let result = SSL_read(ssl, buffer.baseAddress! + count, Int32(buffer.count - count))
            guard result > 0 else { return (count, step(after: result)) }
            count += Int(result)
        }
        return (count, .done)
    }

    /// Encrypts bytes and sends them; the handshake must be complete.
    /// - Returns: `false` if TLS has failed.
    func write(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard !bytes.isEmpty else { return true }
        ERR_clear_error()
        var written = 0
        return SSL_write_ex(ssl, bytes.baseAddress, bytes.count, &written) == 1
    }

    /// Tells the peer that no more bytes follow (close_notify, RFC 8446 §6.1).
    func close() {
        ERR_clear_error()
        SSL_shutdown(ssl)
    }

    /// Why the stream ends when the peer closes the connection without close_notify.
    var endOfInput: StreamError {
        SSL_is_init_finished(ssl) == 0 ? .tls("the peer aborted the handshake") : .closed
    }

    private func step(after result: Int32) -> Step {
        switch SSL_get_error(ssl, result) {
        case SSL_ERROR_WANT_READ: return .needsInput
        case SSL_ERROR_ZERO_RETURN: return .ended(.closed)
        default: return .ended(failure)
        }
    }

    private var failure: StreamError {
        // A later caller must not take what is left in the error queue for its own error.
        defer { ERR_clear_error() }
        let verification = SSL_get_verify_result(ssl)
        if Int(verification) != Int(X509_V_OK), SSL_is_server(ssl) == 0 {
            return .tls(TLSContext.text(ofVerification: Int(verification)))
        }
        return ERR_reason_error_string(ERR_get_error()).map { .tls(String(cString: $0)) } ?? endOfInput
    }

    // MARK: OpenSSL's I/O

    /// Calls `body` with the session of a BIO. Does not retain the session: the caller of OpenSSL does.
    private static func with<Result>(_ bio: OpaquePointer?, _ body: (TLSSession) -> Result) -> Result {
        Unmanaged<TLSSession>.fromOpaque(BIO_get_data(bio)!)._withUnsafeGuaranteedRef(body)
    }

    private func takeInput(_ target: UnsafeMutableRawPointer, atMost limit: Int) -> Int {
        let count = min(limit, input.count)
        guard count > 0, let start = input.baseAddress else { return 0 }
        target.copyMemory(from: start, byteCount: count)
        input = UnsafeRawBufferPointer(rebasing: input[count...])
        return count
    }

    private func send(_ record: UnsafeRawBufferPointer) {
        if keptOutput == nil { stream.transmit(record) } else { keptOutput? += record }
    }

    /// The kind of BIO that reads from ``input`` and writes to the stream. `unsafe`, because the compiler cannot tell that
    /// OpenSSL only reads the value.
    nonisolated(unsafe) private static let method: OpaquePointer? = {
        let method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tocsin stream")
        BIO_meth_set_read_ex(method) { bio, target, limit, count in
            cssl_bio_clear_retry(bio)
            let taken = TLSSession.with(bio) { $0.takeInput(target!, atMost: limit) }
            count!.pointee = taken
            if taken == 0 { cssl_bio_retry_read(bio) }
            return taken > 0 ? 1 : 0
        }
        BIO_meth_set_write_ex(method) { bio, bytes, length, count in
            // The stream keeps what the socket does not take, so that OpenSSL never has to wait.
            TLSSession.with(bio) { $0.send(UnsafeRawBufferPointer(start: bytes, count: length)) }
            count!.pointee = length
            return 1
        }
        BIO_meth_set_ctrl(method) { _, command, _, _ in command == BIO_CTRL_FLUSH ? 1 : 0 }
        return method
    }()
}
