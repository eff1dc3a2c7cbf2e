// SPDX-License-Identifier: Apache-2.0

import Admission
import Cryptography
import EventLoop
import TNP
import Time

/// What a connection of a sender comes to, frame by frame (PROTOCOL §1–§6): bytes, outcomes and time in, bytes and
/// submissions out. No I/O and no clock.
package struct IngressSession {
    /// What does not change while the connection lasts.
    package struct Rules: Sendable {
        var circuitIDs: Bool
        /// Where senders reach the node through tor, as far as it is known: for one who has come past tor.
        package var onion: String?
        package var maximumFrame: Int
        package var maximumInFlight: Int
        var handshakeTimeout: Duration
        package var idleTimeout: Duration
        /// For a frame that has begun.
        var frameTimeout: Duration
        /// For frames that cost an answer and bring nothing.
        var control: Rate
        /// The first app is the default.
        package var apps: [(name: String, format: EnvelopeFormat)]
        package var routes: [String]

        /// - Parameters: as the properties of the same names.
        package init(
            circuitIDs: Bool, onion: String? = nil, maximumFrame: Int, maximumInFlight: Int, handshakeTimeout: Duration,
            idleTimeout: Duration, frameTimeout: Duration, control: Rate,
            apps: [(name: String, format: EnvelopeFormat)], routes: [String]
        ) {
            self.circuitIDs = circuitIDs
            self.onion = onion
            self.maximumFrame = maximumFrame
            self.maximumInFlight = maximumInFlight
            self.handshakeTimeout = handshakeTimeout
            self.idleTimeout = idleTimeout
            self.frameTimeout = frameTimeout
            self.control = control
            self.apps = apps
            self.routes = routes
        }

        /// The app of this name, or the default one for the empty name.
        func app(named name: Bytes) -> (name: String, format: EnvelopeFormat)? {
            name.isEmpty ? apps.first : apps.first { name.elementsEqual($0.name.utf8) }
        }
    }

    /// What is to be done after an event, in this order.
    struct Effects {
        /// Submissions to deliver, each with its app.
        var submissions: [(submission: Submission, app: (name: String, format: EnvelopeFormat))] = []
        /// How many frames broke the rules.
        var faults = 0
        /// Whether HELLO has come.
        var isIdentified = false
        /// Bytes to send.
        var output: [UInt8] = []
        /// Whether the connection is to be ended once the output is sent.
        var ends = false
    }

    private enum Phase: Equatable {
        case proxyLine
        case hello
        case identified
        /// GOAWAY was sent or received: what was taken is answered, then the connection ends.
        case leaving
        case over
    }

    private let rules: Rules
    private var phase: Phase
    private var proxyLine = ProxyLineDecoder()
    private var decoder = FrameDecoder(maximumLength: Frame.maximumLengthBeforeWelcome)
    /// Submissions without a final result.
    private var inFlight: Set<UInt32> = []
    /// Of them, those that are stored durably: their senders have been told so, and may be left.
    private var queued: Set<UInt32> = []
    /// Since when there has been no frame, or since when nothing is in flight: the later of both.
    private var quietSince: MonotonicTime
    /// Submissions that came after GOAWAY was said, or for which there was no place.
    private var excess = 0
    /// Since when a frame is on its way.
    private var frameSince: MonotonicTime?
    /// What is left for frames that bring nothing: PING, PONG, unknown ones, and submissions there is no place for.
    private var control = Allowance()

    init(rules: Rules, now: MonotonicTime) {
        self.rules = rules
        phase = rules.circuitIDs ? .proxyLine : .hello
        quietSince = now
    }

    /// When ``timeReached(_:_:)`` is to be called, unless something happens before; nil: never.
    var deadline: MonotonicTime? {
        switch phase {
        case .proxyLine, .hello: quietSince + rules.handshakeTimeout
        case .identified: [idleDeadline, frameDeadline].compactMap(\.self).min()
        case .leaving, .over: nil
        }
    }

    /// What is stored may take weeks: nobody has to keep a connection for that long.
    private var idleDeadline: MonotonicTime? {
        inFlight.count == queued.count ? quietSince + rules.idleTimeout : nil
    }

    private var frameDeadline: MonotonicTime? { frameSince.map { $0 + rules.frameTimeout } }

    // MARK: Events

    /// Bytes came.
    /// - Parameters:
    ///   - comesFrom: told tor's circuit, where tor passes it on; says what it is sent away with.
    ///   - welcome: what WELCOME is to say, asked for at HELLO.
    mutating func received(
        _ bytes: RawSpan, now: MonotonicTime, comesFrom: (UInt32) -> GoAway? = { _ in nil },
        welcome: (Rules) -> Welcome,
        _ effects: inout Effects
    ) {
        guard phase != .over else { return }
        do throws(ProtocolError) {
            var rest = bytes
            if phase == .proxyLine {
                let (id, taken) = try proxyLine.append(bytes)
                guard let id else { return }
                if let goAway = comesFrom(id) { return end(with: goAway, &effects) }
                phase = .hello
                rest = bytes.extracting(droppingFirst: taken)
            }
            decoder.append(rest)
            while phase != .over, let frame = try nextFrame() {
                quietSince = now
                frameSince = nil
                try handle(frame, now: now, welcome: welcome, &effects)
            }
            if decoder.isWithinFrame { frameSince = frameSince ?? now }
        } catch {
            // An old sender is no hostile one.
            if error.code != .version { effects.faults += 1 }
            end(with: GoAway(phase == .proxyLine ? cameDirectly(error) : error), &effects)
        }
    }

    /// tor begins each stream with a line of its own: what does not has come past it.
    private func cameDirectly(_ error: ProtocolError) -> ProtocolError {
        let onion = rules.onion.map { ", at \($0)" } ?? ""
        return ProtocolError(
            code: error.code,
            text: "this port takes connections from tor only (listen.circuit_ids): reach the node through tor\(onion)")
    }

    /// A submission has an outcome.
    mutating func finished(_ request: UInt32, _ outcome: Outcome, now: MonotonicTime, _ effects: inout Effects) {
        guard phase != .over else { return }
        effects.output.append(SubmissionResult(request: request, outcome: outcome))
        guard outcome.isFinal else {
            queued.insert(request)
            return endIfDone(&effects)
        }
        inFlight.remove(request)
        queued.remove(request)
        quietSince = max(quietSince, now)
        endIfDone(&effects)
    }

    /// A submission is not admitted.
    mutating func refused(_ request: UInt32, _ refusal: Refusal, now: MonotonicTime, _ effects: inout Effects) {
        // The puzzle first: the outcome has the sender solve it.
        if let puzzle = refusal.puzzle { announce(puzzle, &effects) }
        if let outcome = refusal.outcome { finished(request, outcome, now: now, &effects) }
        if let goAway = refusal.goAway { reject(goAway, &effects) }
    }

    /// Time has passed.
    mutating func timeReached(_ now: MonotonicTime, _ effects: inout Effects) {
        guard let deadline, now >= deadline else { return }
        if phase == .identified {
            let isFrame = frameDeadline.map { $0 <= now } ?? false
            let text = isFrame ? "a frame was begun and not ended" : "nothing was sent for a while"
            leave(GoAway(code: .idle, text: text), &effects)
        } else {
            end(with: GoAway(code: .handshakeTimeout, text: "no HELLO came in time"), &effects)
        }
    }

    /// Whether nothing is under way that somebody waits for.
    var isIdle: Bool { phase == .identified && inFlight.count == queued.count }

    /// The connection ends, though nothing is wrong with it.
    mutating func closeIdle(_ text: String, _ effects: inout Effects) {
        switch phase {
        case .identified: leave(GoAway(code: .idle, text: text), &effects)
        case .proxyLine, .hello: end(with: GoAway(code: .idle, text: text), &effects)
        case .leaving, .over: break
        }
    }

    /// The node shuts down.
    mutating func shutDown(retryAfter: UInt32, _ effects: inout Effects) {
        guard phase == .identified || phase == .hello || phase == .proxyLine else { return }
        leave(GoAway(code: .shuttingDown, retryAfter: retryAfter, text: "the node is shutting down"), &effects)
    }

    /// The puzzle has changed.
    func announce(_ puzzle: Puzzle, _ effects: inout Effects) {
        if phase == .identified { effects.output.append(puzzle) }
    }

    /// The connection is served no longer, or not at all.
    mutating func reject(_ goAway: GoAway, _ effects: inout Effects) {
        if phase != .over { end(with: goAway, &effects) }
    }

    // MARK: Frames

    private mutating func nextFrame() throws(ProtocolError) -> Frame? {
        do {
            return try decoder.next()
        } catch {
            // "PROX", read as a length: tor writes a PROXY line, and the node was not told.
            if phase == .hello, !rules.circuitIDs, decoder.startsWithProxyLine {
                throw ProtocolError(
                    code: .protocolError, text: "a PROXY line came, but the node runs without listen.circuit_ids")
            }
            throw error
        }
    }

    private mutating func handle(
        _ frame: Frame, now: MonotonicTime, welcome: (Rules) -> Welcome, _ effects: inout Effects
    ) throws(ProtocolError) {
        if phase == .hello, frame.type != FrameType.hello.rawValue {
            throw ProtocolError(code: .protocolError, text: "a frame before HELLO")
        }
        switch try Message(frame) {
        case .hello(let hello):
            guard phase == .hello else { throw ProtocolError(code: .protocolError, text: "a second HELLO") }
            _ = try ProtocolVersion.agreed(with: hello)
            phase = .identified
            effects.isIdentified = true
            decoder.maximumLength = rules.maximumFrame
            effects.output.append(welcome(rules))
        case .submit(let fields): try submit(fields, now, &effects)
        case .ping(let opaque):
            try countControl(now)
            effects.output.append(pong: opaque)
        case .pong, .skipped: try countControl(now)
        case .goAway:
            phase = .leaving
            endIfDone(&effects)
        case .welcome, .result, .puzzle:
            throw ProtocolError(code: .protocolError, text: "a frame that only a node sends")
        }
    }

    private mutating func countControl(_ now: MonotonicTime) throws(ProtocolError) {
        guard control.wait(rules.control, now: now) == .zero else {
            throw ProtocolError(
                code: .abuse, text: "too many PINGs, skipped frames and submissions above max_in_flight")
        }
        control.take(rules.control, now: now)
    }

    /// So many may have been on their way before the sender knew better.
    private mutating func countExcess(_ now: MonotonicTime) throws(ProtocolError) {
        excess += 1
        if excess > rules.maximumInFlight { try countControl(now) }
    }

    private mutating func submit(
        _ fields: SubmissionFields, _ now: MonotonicTime, _ effects: inout Effects
    ) throws(ProtocolError) {
        let request = fields.request
        func answer(_ outcome: Outcome) {
            effects.output.append(SubmissionResult(request: request, outcome: outcome))
        }
        guard !inFlight.contains(request) else {
            throw ProtocolError(code: .protocolError, text: "a request number that is still in flight")
        }
        guard phase == .identified else {
            try countExcess(now)
            return answer(.retry(.shuttingDown, after: 1000, text: "GOAWAY has been said"))
        }
        guard inFlight.count < rules.maximumInFlight else {
            try countExcess(now)
            return answer(
                .retry(.tooManyInFlight, after: 1000, text: "at most \(rules.maximumInFlight) submissions in flight"))
        }
        guard let app = rules.app(named: fields.app) else {
            effects.faults += 1
            return answer(Rejection(.unknownApp).outcome)
        }
        do {
            effects.submissions.append((try fields.checked(format: app.format), app))
            inFlight.insert(request)
            excess = 0
        } catch {
            effects.faults += 1
            answer(error.outcome)
        }
    }

    // MARK: The end

    private mutating func end(with goAway: GoAway, _ effects: inout Effects) {
        phase = .over
        effects.output.append(goAway)
        effects.ends = true
    }

    private mutating func leave(_ goAway: GoAway, _ effects: inout Effects) {
        phase = .leaving
        effects.output.append(goAway)
        endIfDone(&effects)
    }

    private mutating func endIfDone(_ effects: inout Effects) {
        guard phase == .leaving, inFlight.count == queued.count else { return }
        phase = .over
        effects.ends = true
    }
}
