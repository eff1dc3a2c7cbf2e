import CNGHTTP2
import EventLoop

/// A request that a server got, whole.
public struct ServerRequest: Sendable, RedactedContent {
    /// Names the request on its connection.
    public let stream: Int32
    /// Pseudo-header fields included.
    public let headers: HeaderBlock
    public let body: [UInt8]
    /// Whether its body was larger than the server takes, and is cut off.
    public let isTooLarge: Bool
}

/// Answers a server's requests; on the server's loop.
public protocol RequestHandler: AnyObject {
    /// A whole request is there; the answer goes to ``ServerConnection/respond(to:_:)``, at once or later.
    func handle(_ request: ServerRequest, on connection: ServerConnection)
}

/// An HTTP/2 server: what the stand-ins for Apple and Google are made of.
public final class Server {
    /// What a server says of itself to its clients.
    public struct Limits: Sendable {
        /// SETTINGS_MAX_CONCURRENT_STREAMS.
        public var concurrentStreams: UInt32
        /// The largest body of a request that is kept, in bytes; more is read and dropped.
        public var largestBody: Int

        /// - Parameters: as the properties of the same names.
        public init(concurrentStreams: UInt32 = 1000, largestBody: Int = 64 * 1024) {
            self.concurrentStreams = concurrentStreams
            self.largestBody = largestBody
        }
    }

    private let limits: Limits
    private let handler: any RequestHandler
    private var listener: Listener?
    private var connections: [ObjectIdentifier: ServerConnection] = [:]

    /// Listens on `endpoint` with TLS and gives each request to `handler`.
    /// - Throws: ``ListenError``.
    public init(
        on endpoint: Endpoint, loop: EventLoop, tls: TLSContext, limits: Limits = Limits(), handler: any RequestHandler
    ) throws(ListenError) {
        self.limits = limits
        self.handler = handler
        listener = try Listener(endpoint, on: loop, tls: tls) { [unowned self] stream in
            let connection = ServerConnection(stream, limits: limits, handler: handler) { [weak self] in
                self?.connections[$0] = nil
            }
            connections[ObjectIdentifier(connection)] = connection
        }
    }

    /// Where it listens.
    public var endpoint: Endpoint? { listener?.endpoint }

    /// Ends the server and its connections.
    public func close() {
        listener = nil
        for connection in connections.values { connection.close() }
        connections = [:]
    }
}

/// The server's side of one HTTP/2 connection.
public final class ServerConnection: SessionEvents {
    private struct Slot {
        var headers = HeaderBlock()
        var body: [UInt8] = []
        var isTooLarge = false
        var answer: [UInt8] = []
        var answerSent = 0
        var isOpen = true
    }

    /// The most bytes of header fields of one request.
    private static let largestHeaders = 16 * 1024
    private let limits: Server.Limits
    private let handler: any RequestHandler
    private let ended: (ObjectIdentifier) -> Void
    private var session: Session!
    private var slots: [Slot] = []
    private var free: [Int] = []
    private var slotOfStream: [Int32: Int] = [:]

    init(
        _ stream: ByteStream, limits: Server.Limits, handler: any RequestHandler,
        ended: @escaping (ObjectIdentifier) -> Void
    ) {
        self.limits = limits
        self.handler = handler
        self.ended = ended
        session = Session(
            stream, role: .server,
            settings: [
                nghttp2_settings_entry(
                    settings_id: Int32(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue),
                    value: limits.concurrentStreams)
            ], events: self)
    }

    deinit { session.stream.close() }

    /// The common name of the client's certificate; nil where it showed none.
    public var clientCommonName: String? { session.stream.peerCommonName }

    /// Answers a request; does nothing where the client has given it up.
    public func respond(to stream: Int32, _ response: Response) {
        guard let slot = slotOfStream[stream] else { return }
        slots[slot].answer = response.body
        var block = HeaderBlock()
        block.append(":status", String(response.status))
        for (name, value) in response.headers.all { block.append(name, value) }
        _ = Session.withFields(block, isFirst: false) { fields, count in
            withUnsafePointer(to: Session.bodySource(slot)) { source in
                nghttp2_submit_response(session.handle, stream, fields, count, response.body.isEmpty ? nil : source)
            }
        }
        session.scheduleFlush()
    }

    /// Ends the connection at once.
    public func close() { session.stream.close() }

    // MARK: SessionEvents

    func session(began stream: Int32) {
        let slot = free.popLast() ?? slots.count
        if slot == slots.count { slots.append(Slot()) } else { slots[slot] = Slot() }
        slotOfStream[stream] = slot
        session.setSlot(slot, of: stream)
    }

    func session(header name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>, slot: Int) -> Bool {
        guard slots[slot].headers.bytes.count + name.count + value.count <= Self.largestHeaders else { return false }
        slots[slot].headers.append(name, value)
        return true
    }

    func session(data: UnsafeBufferPointer<UInt8>, slot: Int) -> Bool {
        if slots[slot].body.count + data.count > limits.largestBody {
            slots[slot].isTooLarge = true
        } else {
            slots[slot].body.append(contentsOf: data)
        }
        return true
    }

    func session(endOf stream: Int32, slot: Int) {
        let request = ServerRequest(
            stream: stream, headers: slots[slot].headers, body: slots[slot].body, isTooLarge: slots[slot].isTooLarge)
        handler.handle(request, on: self)
    }

    func session(sentHeadersOf slot: Int) {}

    func session(closed stream: Int32, slot: Int, code: UInt32) {
        slotOfStream[stream] = nil
        slots[slot] = Slot()
        free.append(slot)
    }

    func session(goAway lastStream: Int32, code: UInt32, debugData: [UInt8]) {}

    func session(fill buffer: UnsafeMutableBufferPointer<UInt8>, slot: Int) -> (count: Int, isLast: Bool) {
        let rest = slots[slot].answer[slots[slot].answerSent...].prefix(buffer.count)
        _ = buffer.update(fromContentsOf: rest)
        slots[slot].answerSent += rest.count
        return (rest.count, slots[slot].answerSent == slots[slot].answer.count)
    }

    func sessionEnded(_ reason: String) { ended(ObjectIdentifier(self)) }
}
