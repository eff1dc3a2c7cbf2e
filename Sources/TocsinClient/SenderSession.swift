import TNP

/// What a sender has submitted and not yet heard the end of, across connections (PROTOCOL §3, §4, §6): events in,
/// bytes to send out. No I/O and no clock.
struct SenderSession {
    /// What follows from an event.
    enum Action: Equatable {
        case welcomed(Welcome)
        case result(SubmissionResult)
        /// The connection is over for sending; it comes back after so many milliseconds, or never where the fault is
        /// the sender's.
        case goAway(GoAway, isFatal: Bool)
        case send([UInt8])
    }

    private var decoder = FrameDecoder(maximumLength: Self.largestWelcome)
    private var pending: [UInt32: Submission] = [:]
    /// Of the pending ones, those that wait for a place on the connection, oldest first.
    private var queue: [UInt32] = []
    /// Of the pending ones, those that the present connection carries.
    private var sent: Set<UInt32> = []
    private var nextRequest: UInt32 = 1
    private(set) var welcome: Welcome?

    /// A WELCOME may name many routes; no frame of a node is larger.
    private static let largestWelcome = 128 * 1024
    /// How many submissions go out before the node has said how many it takes.
    private static let early = 16

    /// How many submissions wait for their final result.
    var pendingCount: Int { pending.count }

    /// Takes a submission: ``flush()`` gives its bytes when there is a place for it.
    mutating func add(_ make: (UInt32) -> Submission) -> UInt32 {
        while pending[nextRequest] != nil { nextRequest &+= 1 }
        let request = nextRequest
        pending[request] = make(request)
        queue.append(request)
        nextRequest &+= 1
        return request
    }

    /// Gives a submission up. One that is out still takes its place on the connection until the node answers.
    mutating func remove(_ request: UInt32) {
        pending[request] = nil
        queue.removeAll { $0 == request }
    }

    /// A new connection is there: HELLO, and at once what has no final result, with the same bytes as before.
    mutating func connected(agent: String) -> [UInt8] {
        decoder = FrameDecoder(maximumLength: Self.largestWelcome)
        welcome = nil
        sent = []
        queue = pending.keys.sorted()
        var output: [UInt8] = []
        output.append(Hello(agent: agent))
        return output + flush()
    }

    /// What may now go out on the present connection: no more than the node takes at a time.
    mutating func flush() -> [UInt8] {
        let limit = welcome.map { Int($0.maximumInFlight) } ?? Self.early
        let count = min(queue.count, max(0, limit - sent.count))
        var output: [UInt8] = []
        for request in queue.prefix(count) {
            sent.insert(request)
            output.append(pending[request]!)
        }
        queue.removeFirst(count)
        return output
    }

    /// Bytes came; what follows is appended to `actions`, also where an error comes after it.
    /// - Throws: ``ProtocolError`` where they are no frames of a node.
    mutating func received(_ bytes: RawSpan, _ actions: inout [Action]) throws(ProtocolError) {
        decoder.append(bytes)
        while let frame = try decoder.next() {
            switch try Message(frame) {
            case .welcome(let welcome):
                self.welcome = welcome
                actions.append(.welcomed(welcome))
            case .result(let result):
                // Whatever a node says of what is not out there does no harm.
                guard sent.contains(result.request) else { break }
                if result.outcome.isFinal { sent.remove(result.request) }
                guard pending[result.request] != nil else { break }
                if result.outcome.reason == .tooManyInFlight, let welcome, sent.count >= welcome.maximumInFlight {
                    // It has only been too early, before WELCOME: it goes out again when there is a place.
                    queue.insert(result.request, at: queue.firstIndex { $0 > result.request } ?? queue.endIndex)
                    break
                }
                if result.outcome.isFinal { pending[result.request] = nil }
                actions.append(.result(result))
            case .ping(let opaque):
                var pong: [UInt8] = []
                pong.append(pong: opaque)
                actions.append(.send(pong))
            case .goAway(let goAway):
                actions.append(.goAway(goAway, isFatal: Self.isFatal(goAway.code)))
            case .pong, .puzzle, .skipped: break
            case .hello, .submit:
                throw ProtocolError(code: .protocolError, text: "a frame that only a sender sends")
            }
        }
    }

    /// Whether coming back would meet with the same again.
    private static func isFatal(_ code: GoAway.Code) -> Bool {
        switch code {
        case .shuttingDown, .idle, .busy, .handshakeTimeout: false
        default: true
        }
    }
}
