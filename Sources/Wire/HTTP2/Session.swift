// SPDX-License-Identifier: Apache-2.0

import CNGHTTP2
import Cryptography
import EventLoop
import Time

/// Handles the events of a session; a subclass overrides what it needs. A class, so that ``Session`` calls it through
/// `Unmanaged`: a protocol's methods would count a reference, several times a request.
open class SessionHandler {
    /// Creates a handler.
    public init() {}

    /// A header block begins on this stream.
    open func session(began stream: Int32) {}
    /// A header field arrived.
    /// - Returns: `false` to reset the stream.
    open func session(header name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>, slot: Int) -> Bool {
        true
    }
    /// Body bytes arrived.
    /// - Returns: `false` to cancel the stream.
    open func session(data: UnsafeBufferPointer<UInt8>, slot: Int) -> Bool { true }
    /// The peer has sent everything on this stream.
    open func session(endOf stream: Int32, slot: Int) {}
    /// The header block of this slot was sent.
    open func session(sentHeadersOf slot: Int) {}
    /// The stream closed, with this error code.
    open func session(closed stream: Int32, slot: Int, code: UInt32) {}
    /// The peer sent GOAWAY.
    open func session(goAway lastStream: Int32, code: UInt32, debugData: [UInt8]) {}
    /// Writes the next bytes of a body to `buffer`: returns how many, and whether the body ends with them; `nil` to wait until
    /// ``Session/resume(_:)``.
    open func session(fill buffer: UnsafeMutableBufferPointer<UInt8>, slot: Int) -> (count: Int, isLast: Bool)? {
        (0, true)
    }
    /// The session has ended, for this reason.
    open func sessionEnded(_ reason: String) {}
    /// The peer has sent SETTINGS, and they are now in effect.
    open func sessionGotSettings() {}
    /// The window of the connection has more room.
    open func sessionWindowGrew() {}
    /// A frame from the peer begins.
    /// - Returns: `false` to close the connection because of too many frames.
    open func sessionShouldAcceptFrame() -> Bool { true }
    /// This many bytes have arrived from the peer.
    /// - Returns: `false` to close the connection because of too many bytes.
    open func sessionShouldAccept(bytes: Int) -> Bool { true }
}

/// The nghttp2 state of one connection, on a stream. Received bytes go in as they arrive; output is gathered until the
/// end of each turn of the loop, and then written.
package final class Session: ByteStreamHandler, TurnEndHandler {
    /// The target size of a write in bytes, chosen to fill a TLS record.
    private static let writeSize = 16_336
    private static let flood = "too many frames without a response (flood protection)"
    private static let connectionWindow: Int32 = 1 << 24
    /// The underlying stream.
    package let stream: ByteStream
    /// nghttp2's state.
    package private(set) var handle: OpaquePointer?
    /// The memory of nghttp2's small objects, which lives as long as its state.
    private let memory: OpaquePointer
    /// Unmanaged, because a strong reference costs a retain for each frame and each header field. The handler closes
    /// the stream when it is released; after that, the session does not use it.
    private let handler: Unmanaged<SessionHandler>
    private var gathered: [UInt8] = []
    private var flushScheduled = false
    /// Whether the peer has sent too many frames.
    private var isFlooded = false
    /// Whether nghttp2 is reading received bytes, and may call back.
    private var isReading = false
    private var isTerminating = false
    private var isClosing = false
    /// When bytes last arrived from the peer.
    private(set) var lastReceived = MonotonicTime.now

    /// Starts a session on an open stream with these SETTINGS.
    /// - Parameter handler: receives the session's events; not retained.
    package init(_ stream: ByteStream, isServer: Bool, settings: [nghttp2_settings_entry], handler: SessionHandler) {
        self.stream = stream
        self.handler = .passUnretained(handler)
        // Without memory for so small an object, Swift's next array would end the process, too.
        guard let memory = tocsin_session_memory_new() else { fatalError("the system has no memory") }
        self.memory = memory
        gathered.reserveCapacity(Self.writeSize)
        var options: OpaquePointer?
        nghttp2_option_new(&options)
        defer { nghttp2_option_del(options) }
        // One stream until the server's SETTINGS allow more: a client must not assume the number of streams.
        nghttp2_option_set_peer_max_concurrent_streams(options, 1)
        let user = Unmanaged.passUnretained(self).toOpaque()
        let create = isServer ? nghttp2_session_server_new3 : nghttp2_session_client_new3
        var functions = tocsin_session_memory_functions(memory)
        _ = create(&handle, Session.callbacks, user, options, &functions)
        // Each stream has its own window; a small window for the whole connection would only starve streams.
        nghttp2_session_set_local_window_size(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, Self.connectionWindow)
        nghttp2_submit_settings(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), settings, settings.count)
        stream.handler = self
        scheduleFlush()
    }

    deinit {
        nghttp2_session_del(handle)
        tocsin_session_memory_del(memory)
    }

    // MARK: Out

    /// Sends what nghttp2 has queued, at the end of this turn of the loop.
    package func scheduleFlush() {
        guard !flushScheduled else { return }
        flushScheduled = true
        stream.loop.atEndOfTurn(self)
    }

    package func turnEnded() {
        flushScheduled = false
        flush()
    }

    private func flush() {
        // The loop may call turnEnded() after the handler has been released.
        guard stream.endReason == nil else { return }
        while stream.unsent < ByteStream.highWater {
            var data: UnsafePointer<UInt8>?
            let length = nghttp2_session_mem_send(handle, &data)
            guard length > 0 else {
                if length < 0 { fail("nghttp2: \(Session.reason(length))") }
                break
            }
            if gathered.count + length > Self.writeSize { writeGathered() }
            gathered.append(copying: UnsafeRawBufferPointer(start: data, count: length))
        }
        writeGathered()
        if stream.isOpen, nghttp2_session_want_read(handle) == 0, nghttp2_session_want_write(handle) == 0 {
            stream.finish()
            tell { $0.sessionEnded("connection closed after GOAWAY") }
        }
    }

    private func writeGathered() {
        guard !gathered.isEmpty else { return }
        stream.write(gathered)
        gathered.removeAll(keepingCapacity: true)
    }

    /// The number of concurrent streams that the peer allows.
    var peerStreamLimit: Int {
        Int(clamping: nghttp2_session_get_remote_settings(handle, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS))
    }

    func ping() {
        nghttp2_submit_ping(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil)
        scheduleFlush()
    }

    /// Sends GOAWAY, then closes the connection. What the peer still sends is ignored.
    func terminate() {
        isTerminating = true
        // Within a callback, nghttp2 would go on to read, and abort the process at the next frame of a wrong size.
        guard !isReading else { return }
        nghttp2_session_terminate_session(handle, NGHTTP2_NO_ERROR.rawValue)
        scheduleFlush()
    }

    /// Sends GOAWAY and ends the session: at once, or within a callback as soon as nghttp2 has read the bytes that arrived.
    func close() {
        isClosing = true
        // nghttp2 must not write within a callback, and the handler must live until the last one.
        guard !isReading else { return }
        nghttp2_session_terminate_session(handle, NGHTTP2_NO_ERROR.rawValue)
        turnEnded()
        fail("closed locally")
    }

    // MARK: In

    package func stream(_ stream: ByteStream, received bytes: RawSpan) {
        lastReceived = stream.loop.now
        isReading = true
        let taken = bytes.withUnsafeBytes {
            nghttp2_session_mem_recv(handle, $0.assumingMemoryBound(to: UInt8.self).baseAddress, $0.count)
        }
        isReading = false
        guard taken >= 0 else { return fail(isFlooded ? Self.flood : "HTTP/2 error: \(Session.reason(taken))") }
        if isClosing { return close() }
        guard tell({ $0.sessionShouldAccept(bytes: bytes.byteCount) }) else { return fail(Self.flood) }
        if isTerminating { terminate() }
        scheduleFlush()
    }

    package func streamDrained(_ stream: ByteStream) { scheduleFlush() }

    package func stream(_ stream: ByteStream, ended reason: StreamError) {
        tell { $0.sessionEnded(reason.description) }
    }

    private func received(_ frame: nghttp2_frame) {
        let header = frame.hd
        switch UInt32(clamping: header.type) {
        case NGHTTP2_HEADERS.rawValue, NGHTTP2_DATA.rawValue:
            guard UInt32(clamping: header.flags) & NGHTTP2_FLAG_END_STREAM.rawValue != 0,
                let slot = slot(of: header.stream_id)
            else { return }
            tell { $0.session(endOf: header.stream_id, slot: slot) }
        case NGHTTP2_SETTINGS.rawValue where UInt32(clamping: header.flags) & NGHTTP2_FLAG_ACK.rawValue == 0:
            tell { $0.sessionGotSettings() }
        case NGHTTP2_WINDOW_UPDATE.rawValue where header.stream_id == 0: tell { $0.sessionWindowGrew() }
        case NGHTTP2_GOAWAY.rawValue:
            let goAway = frame.goaway
            let debugData = Array(UnsafeBufferPointer(start: goAway.opaque_data, count: goAway.opaque_data_len))
            tell { $0.session(goAway: goAway.last_stream_id, code: goAway.error_code, debugData: debugData) }
        default: break
        }
    }

    /// Closes the connection, after the output already written to the stream.
    func fail(_ reason: String) {
        guard stream.isOpen else { return }
        stream.finish()
        tell { $0.sessionEnded(reason) }
    }

    /// Ends the connection to a peer that does not respond, and discards what is still to be sent.
    func abort(_ reason: String) {
        guard stream.isOpen else { return }
        stream.abort()
        tell { $0.sessionEnded(reason) }
    }

    // MARK: nghttp2

    /// The bytes that the connection's window has room for.
    var remoteWindow: Int { Int(clamping: nghttp2_session_get_remote_window_size(handle)) }

    /// Asks for the body of a stream that was told to wait.
    func resume(_ stream: Int32) {
        nghttp2_session_resume_data(handle, stream)
        scheduleFlush()
    }

    /// Resets a stream with this error code.
    package func reset(_ stream: Int32, code: UInt32) {
        nghttp2_submit_rst_stream(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, code)
        scheduleFlush()
    }

    private func slot(of stream: Int32) -> Int? {
        nghttp2_session_get_stream_user_data(handle, stream).map { Int(bitPattern: $0) - 1 }
    }

    /// Slots pass through nghttp2 as pointers, plus 1, since 0 would be nil.
    package static func pointer(_ slot: Int) -> UnsafeMutableRawPointer? {
        UnsafeMutableRawPointer(bitPattern: slot + 1)
    }

    static func reason(_ code: Int) -> String { String(cString: nghttp2_strerror(Int32(clamping: code))) }

    /// Calls `body` with the handler, which it does not retain.
    @inline(__always)
    private func tell<Result>(_ body: (SessionHandler) -> Result) -> Result { handler._withUnsafeGuaranteedRef(body) }

    /// Calls `body` with the session of a callback, which it does not retain: the caller of nghttp2 holds the session
    /// meanwhile.
    private static func with<Result>(_ user: UnsafeMutableRawPointer?, _ body: (Session) -> Result) -> Result {
        Unmanaged<Session>.fromOpaque(user!)._withUnsafeGuaranteedRef(body)
    }

    /// Calls `body` with the session and the slot of a stream; does nothing if the stream has none.
    private static func with(
        _ user: UnsafeMutableRawPointer?, _ stream: Int32, _ body: (Session, _ slot: Int) -> Void
    ) {
        with(user) { session in
            if let slot = session.slot(of: stream) { body(session, slot) }
        }
    }

    /// Calls `body` with the header fields of a block in nghttp2's form.
    /// - Parameter stable: a copy of the block's bytes that lives until the stream closes. If given, nghttp2 refers to
    ///   it; otherwise nghttp2 copies the fields.
    package static func withFields<Result>(
        _ block: borrowing HeaderBlock, at stable: UnsafeMutablePointer<UInt8>? = nil, isFirst: Bool,
        _ body: (UnsafePointer<nghttp2_nv>, Int) -> Result
    ) -> Result {
        block.bytes.withUnsafeBufferPointer { bytes in
            block.fields.withUnsafeBufferPointer { fields in
                withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: fields.count) { values in
                    let base = stable ?? UnsafeMutablePointer(mutating: bytes.baseAddress)
                    let copying =
                        stable == nil
                        ? NGHTTP2_NV_FLAG_NONE.rawValue
                        : NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue
                    for (index, field) in fields.enumerated() {
                        let isIndexed = field.indexing == .allowed || (field.indexing == .firstOnly && isFirst)
                        values.initializeElement(
                            at: index,
                            to: nghttp2_nv(
                                name: base.map { $0 + field.name.lowerBound },
                                value: base.map { $0 + field.value.lowerBound },
                                namelen: field.name.count, valuelen: field.value.count,
                                flags: UInt8(clamping: copying | (isIndexed ? 0 : NGHTTP2_NV_FLAG_NO_INDEX.rawValue)))
                        )
                    }
                    return body(values.baseAddress!, fields.count)
                }
            }
        }
    }

    /// A source of body bytes, which calls ``SessionHandler/session(fill:slot:)``.
    package static func bodySource(_ slot: Int) -> nghttp2_data_provider {
        nghttp2_data_provider(
            source: nghttp2_data_source(ptr: pointer(slot)),
            read_callback: { _, _, buffer, length, flags, source, user in
                let slot = Int(bitPattern: source!.pointee.ptr) - 1
                let part = Session.with(user) { session in
                    session.tell {
                        $0.session(fill: UnsafeMutableBufferPointer(start: buffer, count: length), slot: slot)
                    }
                }
                guard let part else { return Int(NGHTTP2_ERR_DEFERRED.rawValue) }
                if part.isLast { flags!.pointee |= UInt32(NGHTTP2_DATA_FLAG_EOF.rawValue) }
                return part.count
            })
    }

    nonisolated(unsafe) private static let callbacks: OpaquePointer? = {
        // `unsafe`, because the compiler cannot tell that nghttp2 only reads the value, when it creates a session.
        var callbacks: OpaquePointer?
        nghttp2_session_callbacks_new(&callbacks)
        nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks) { _, _, user in
            Session.with(user) { session in
                if session.tell({ $0.sessionShouldAcceptFrame() }) { return 0 }
                session.isFlooded = true
                return NGHTTP2_ERR_CALLBACK_FAILURE.rawValue
            }
        }
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { _, frame, user in
            Session.with(user) { session in session.tell { $0.session(began: frame!.pointee.hd.stream_id) } }
            return 0
        }
        nghttp2_session_callbacks_set_on_header_callback(callbacks) {
            _, frame, name, nameLength, value, valueLength, _, user in
            var goesOn = true
            Session.with(user, frame!.pointee.hd.stream_id) { session, slot in
                goesOn = session.tell {
                    $0.session(
                        header: UnsafeBufferPointer(start: name, count: nameLength),
                        value: UnsafeBufferPointer(start: value, count: valueLength), slot: slot)
                }
            }
            return goesOn ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
        }
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) { _, _, stream, data, length, user in
            Session.with(user, stream) { session, slot in
                let bytes = UnsafeBufferPointer(start: data, count: length)
                if !session.tell({ $0.session(data: bytes, slot: slot) }) {
                    session.reset(stream, code: NGHTTP2_CANCEL.rawValue)
                }
            }
            return 0
        }
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, user in
            Session.with(user) { $0.received(frame!.pointee) }
            return 0
        }
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks) { _, frame, user in
            guard UInt32(clamping: frame!.pointee.hd.type) == NGHTTP2_HEADERS.rawValue else { return 0 }
            Session.with(user, frame!.pointee.hd.stream_id) { session, slot in
                session.tell { $0.session(sentHeadersOf: slot) }
            }
            return 0
        }
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { _, stream, code, user in
            Session.with(user, stream) { session, slot in
                session.tell { $0.session(closed: stream, slot: slot, code: code) }
            }
            return 0
        }
        return callbacks
    }()
}
