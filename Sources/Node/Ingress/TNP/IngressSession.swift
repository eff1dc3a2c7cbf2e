// SPDX-License-Identifier: Apache-2.0

import Admission
import Cryptography
import DequeModule
import EventLoop
import NodeConfiguration
import TNP
import Time

/// The node's side of a TNP connection (PROTOCOL §1–§6, §10, §11): takes bytes, outcomes and time; returns bytes,
/// submissions and requests about handles. Performs no I/O and reads no clock.
package struct IngressSession {
    /// The settings of a connection, fixed for its lifetime.
    package struct Rules: Sendable {
        /// Whether a PROXY line with tor's circuit ID precedes the first frame.
        package var circuitIDs: Bool
        /// The node's onion address and port, if known: named to a client that bypassed tor.
        package var onion: String?
        /// The node's onions.
        package var onions: [SignedOnion]
        /// The longest frame after HELLO, in bytes.
        package var maximumFrame: Int
        /// The most submissions in flight.
        package var maximumInFlight: Int
        var handshakeTimeout: Duration
        /// How long a connection may be idle after HELLO: no frame arrives, and nothing is in flight but submissions
        /// that were answered with QUEUED.
        package var idleTimeout: Duration
        /// How long one frame may take to arrive.
        var frameTimeout: Duration
        /// How long results may stay unread.
        var readTimeout: Duration
        /// The rate limit for frames that carry no submission, and for submissions above the limit in flight.
        var control: Rate
        /// The first app is the default.
        package var apps: [(name: String, format: EnvelopeFormat)]
        /// The routes that WELCOME lists, as "app/magic".
        package var routes: [String]
        /// Whether the node takes site keys, or serves sites only.
        package var siteMode: SiteMode
        /// Whether the node keeps handles.
        package var keepsHandles: Bool

        /// The onions that a sender's signature may name. Without tor, a sender has no onion to name.
        package var signedOnions: [SignedOnion] { circuitIDs ? onions : onions + [.none] }

        /// The app of this name, or the default one for the empty name.
        package func app(named name: Bytes) -> (name: String, format: EnvelopeFormat)? {
            name.isEmpty ? apps.first : apps.first { name.elementsEqual($0.name.utf8) }
        }
    }

    /// What the connection must do after an event.
    struct Effects {
        /// Bytes to send.
        var output: [UInt8] = []
        /// Whether the connection must be closed once the output is sent.
        var closes = false
    }

    /// What the connection must do for the frames that arrived.
    struct Requests {
        /// Submissions to deliver, each with its app.
        var submissions: Deque<(submission: Submission, app: (name: String, format: EnvelopeFormat))> = []
        /// Submissions whose handles to look up.
        var submissionsByHandle: [SubmissionByHandle] = []
        /// Requests of handles' owners to perform.
        var handleRequests: [HandleRequest] = []
        /// The number of protocol violations.
        var violations = 0
        /// Whether HELLO was received.
        var isIdentified = false

        /// Removes everything; keeps the memory for submissions.
        mutating func removeAll() {
            submissions.removeAll(keepingCapacity: true)
            if !submissionsByHandle.isEmpty { submissionsByHandle = [] }
            if !handleRequests.isEmpty { handleRequests = [] }
            (violations, isIdentified) = (0, false)
        }
    }

    private enum Phase: Equatable {
        case proxyLine
        case hello
        case identified
        /// GOAWAY was sent or received: the submissions in flight are answered, then the connection closes.
        case draining
        case over
    }

    /// The number of a request, hashed by one multiplication (Knuth, The Art of Computer Programming, volume 3, §6.4)
    /// in place of SipHash. A sender that chooses numbers with equal hashes makes a search longer, by at most
    /// ``Rules/maximumInFlight`` steps.
    private struct RequestNumber: Hashable {
        let value: UInt32
        init(_ value: UInt32) { self.value = value }
        func _rawHashValue(seed: Int) -> Int { Int(value) &* 0x1E37_79B9_7F4A_7C15 ^ seed }
    }

    private let rules: Rules
    private var phase: Phase
    private var proxyLine = ProxyLineDecoder()
    private var decoder = FrameDecoder(maximumLength: Frame.maximumLengthBeforeWelcome)
    /// Submissions, and requests of handles' owners, without a final answer.
    private var inFlight: Set<RequestNumber> = []
    /// The part of ``inFlight`` that are requests of handles' owners, which REGISTERED answers.
    private var aboutHandles: Set<RequestNumber> = []
    /// The part of ``inFlight`` that is stored durably. The sender has received QUEUED, so the connection may close.
    private var queued: Set<RequestNumber> = []
    /// The time of the last frame or the last final answer, whichever is later; before them, that of the connection.
    private var idleSince: MonotonicTime
    /// Excess submissions since the last accepted one: after GOAWAY, or above ``Rules/maximumInFlight``.
    private var excess = 0
    /// Since when a frame has been incomplete; `nil` between frames.
    private var frameSince: MonotonicTime?
    /// The state of the rate limit ``Rules/control``.
    private var control = Allowance()
    /// The seed of WELCOME's puzzle, which AUTH signs.
    private var seed: [UInt8] = []
    /// The site that has last proved itself on this connection.
    private var site: Site?

    init(rules: Rules, now: MonotonicTime) {
        self.rules = rules
        phase = rules.circuitIDs ? .proxyLine : .hello
        idleSince = now
    }

    /// When to call ``timeReached(_:_:)``, unless another event comes first; `nil` if never.
    var deadline: MonotonicTime? {
        switch phase {
        case .proxyLine, .hello: idleSince + rules.handshakeTimeout
        case .identified: idleDeadline.map { min($0, frameDeadline ?? $0) } ?? frameDeadline
        case .draining, .over: nil
        }
    }

    /// Stored submissions do not keep the connection open: their delivery may take weeks.
    private var idleDeadline: MonotonicTime? {
        inFlight.count == queued.count ? idleSince + rules.idleTimeout : nil
    }

    private var frameDeadline: MonotonicTime? { frameSince.map { $0 + rules.frameTimeout } }

    // MARK: Events

    /// Handles received bytes.
    /// - Parameters:
    ///   - comesFrom: takes tor's circuit ID, if tor passes it on; returns the GOAWAY to reject the connection with,
    ///     `nil` if it is admitted.
    ///   - welcome: makes the WELCOME that answers HELLO.
    ///   - identify: finds the site that AUTH with this seed proves; `nil` if it proves none. The connection then
    ///     counts as the site's. Throws if there is no room for the site.
    mutating func received(
        _ bytes: RawSpan, now: MonotonicTime, comesFrom: (UInt32) -> GoAway? = { _ in nil },
        welcome: (Rules) -> Welcome,
        identify: (SiteAuthentication, _ seed: [UInt8]) throws(ProtocolError) -> Site? = { _, _ in nil },
        _ requests: inout Requests, _ effects: inout Effects
    ) {
        guard phase != .over else { return }
        do throws(ProtocolError) {
            var rest = bytes
            if phase == .proxyLine {
                let (id, taken) = try proxyLine.append(bytes)
                guard let id else { return }
                if let goAway = comesFrom(id) { return close(with: goAway, &effects) }
                phase = .hello
                rest = bytes.extracting(droppingFirst: taken)
            }
            decoder.append(rest)
            while phase != .over, let frame = try nextFrame() {
                idleSince = now
                frameSince = nil
                try handle(frame, now: now, welcome: welcome, identify: identify, &requests, &effects)
            }
            if decoder.isWithinFrame { frameSince = frameSince ?? now }
        } catch {
            // A sender may be outdated, or the node may have no room for its site: that is no violation.
            if error.code != .version, error.code != .busy { requests.violations += 1 }
            close(with: GoAway(phase == .proxyLine ? bypassedTor(error) : error), &effects)
        }
    }

    /// Explains a missing PROXY line: tor starts every stream with one, so this stream did not come from tor.
    private func bypassedTor(_ error: ProtocolError) -> ProtocolError {
        let onion = rules.onion.map { ", at \($0)" } ?? ""
        return ProtocolError(
            code: error.code,
            text: "this port is for tor only (listen.circuit_ids): reach the node through tor\(onion)")
    }

    /// Reports the outcome of a submission.
    mutating func finished(_ request: UInt32, _ outcome: Outcome, now: MonotonicTime, _ effects: inout Effects) {
        guard phase != .over else { return }
        if !aboutHandles.isEmpty, aboutHandles.remove(RequestNumber(request)) != nil {
            effects.output.append(HandleResult(request: request, outcome: outcome))
        } else {
            effects.output.append(SubmissionResult(request: request, outcome: outcome))
        }
        guard outcome.isFinal else {
            queued.insert(RequestNumber(request))
            return closeIfDone(&effects)
        }
        ended(request, now, &effects)
    }

    /// Reports that the request of a handle's owner was accepted.
    mutating func registered(_ request: UInt32, _ handle: Handle, now: MonotonicTime, _ effects: inout Effects) {
        guard phase != .over else { return }
        aboutHandles.remove(RequestNumber(request))
        effects.output.append(HandleResult(request: request, outcome: .delivered(), handle: handle))
        ended(request, now, &effects)
    }

    private mutating func ended(_ request: UInt32, _ now: MonotonicTime, _ effects: inout Effects) {
        inFlight.remove(RequestNumber(request))
        if !queued.isEmpty { queued.remove(RequestNumber(request)) }
        idleSince = max(idleSince, now)
        closeIfDone(&effects)
    }

    /// Reports that a submission was not admitted.
    mutating func refused(_ request: UInt32, _ refusal: Refusal, now: MonotonicTime, _ effects: inout Effects) {
        // The puzzle first: the outcome makes the sender solve it.
        if let puzzle = refusal.puzzle { announce(puzzle, &effects) }
        if let outcome = refusal.outcome { finished(request, outcome, now: now, &effects) }
        if let goAway = refusal.goAway { reject(goAway, &effects) }
    }

    /// Handles an expired deadline.
    mutating func timeReached(_ now: MonotonicTime, _ effects: inout Effects) {
        guard let deadline, now >= deadline else { return }
        if phase == .identified {
            let isFrame = frameDeadline.map { $0 <= now } ?? false
            let text = isFrame ? "frame timeout: a frame was left incomplete" : "idle timeout"
            drain(GoAway(code: .idle, text: text), &effects)
        } else {
            close(with: GoAway(code: .handshakeTimeout, text: "no HELLO within the handshake timeout"), &effects)
        }
    }

    /// Whether the sender is identified and waits for nothing: all its submissions in flight are stored, and no frame has
    /// begun to arrive.
    var isIdle: Bool { phase == .identified && inFlight.count == queued.count && frameSince == nil }

    /// Closes the connection with GOAWAY 4 (idle) once what is in flight is answered.
    mutating func closeIdle(_ text: String, _ effects: inout Effects) {
        switch phase {
        case .identified: drain(GoAway(code: .idle, text: text), &effects)
        case .proxyLine, .hello: close(with: GoAway(code: .idle, text: text), &effects)
        case .draining, .over: break
        }
    }

    /// Announces the node's shutdown.
    mutating func shutDown(retryAfter: UInt32, _ effects: inout Effects) {
        guard phase == .identified || phase == .hello || phase == .proxyLine else { return }
        drain(GoAway(code: .shuttingDown, retryAfter: retryAfter, text: "the node is shutting down"), &effects)
    }

    /// Announces a new puzzle to an identified sender.
    func announce(_ puzzle: Puzzle, _ effects: inout Effects) {
        if phase == .identified { effects.output.append(puzzle) }
    }

    /// Sends this GOAWAY and closes the connection.
    mutating func reject(_ goAway: GoAway, _ effects: inout Effects) {
        if phase != .over { close(with: goAway, &effects) }
    }

    // MARK: Frames

    private mutating func nextFrame() throws(ProtocolError) -> Frame? {
        do {
            return try decoder.next()
        } catch {
            // tor sends a PROXY line although listen.circuit_ids is off; "PROX" was read as a frame's length.
            if phase == .hello, !rules.circuitIDs, decoder.startsWithProxyLine {
                throw ProtocolError(code: .protocolError, text: "received a PROXY line, but listen.circuit_ids is off")
            }
            throw error
        }
    }

    private mutating func handle(
        _ frame: Frame, now: MonotonicTime, welcome: (Rules) -> Welcome,
        identify: (SiteAuthentication, _ seed: [UInt8]) throws(ProtocolError) -> Site?, _ requests: inout Requests,
        _ effects: inout Effects
    ) throws(ProtocolError) {
        if phase == .hello, frame.type != FrameType.hello.rawValue {
            throw ProtocolError(code: .protocolError, text: "received a frame before HELLO")
        }
        switch try Message(frame) {
        case .hello(let hello):
            guard phase == .hello else {
                throw ProtocolError(code: .protocolError, text: "received a second HELLO")
            }
            _ = try ProtocolVersion.agreed(with: hello)
            phase = .identified
            requests.isIdentified = true
            decoder.maximumLength = rules.maximumFrame
            let welcome = welcome(rules)
            if rules.siteMode != .off { seed = welcome.puzzle.seed }
            effects.output.append(welcome)
        case .submit(let fields): try submit(fields, now, &requests, &effects)
        case .ping(let opaque):
            try countControl(now)
            effects.output.append(pong: opaque)
        case .pong, .skipped: try countControl(now)
        case .goAway:
            phase = .draining
            closeIfDone(&effects)
        case .authentication(let authentication):
            guard rules.siteMode != .off else {
                throw ProtocolError(code: .protocolError, text: "received AUTH, but this node takes no site keys")
            }
            // A signature takes longer to check than any other frame without a submission.
            try countControl(now)
            guard let proved = try identify(authentication, seed) else {
                requests.violations += 1
                return effects.output.append(SiteAuthenticationResult.rejected)
            }
            site = proved
            effects.output.append(SiteAuthenticationResult.accepted(proved.name))
        case .handleRequest(let fields):
            guard rules.keepsHandles else {
                throw ProtocolError(
                    code: .protocolError, text: "received a frame about a handle, but this node keeps none")
            }
            try handleRequest(fields, now, &requests, &effects)
        case .welcome, .result, .puzzle, .registered, .authenticated:
            throw ProtocolError(code: .protocolError, text: "received a frame that only a node sends")
        }
    }

    private mutating func countControl(_ now: MonotonicTime) throws(ProtocolError) {
        guard control.wait(rules.control, now: now) == .zero else {
            throw ProtocolError(
                code: .abuse, text: "too many PINGs, skipped frames and submissions above max_in_flight")
        }
        control.take(rules.control, now: now)
    }

    /// Counts an excess submission. The first ``Rules/maximumInFlight`` are not charged: the sender may have sent
    /// them before it learned of the limit or the GOAWAY.
    private mutating func countExcess(_ now: MonotonicTime) throws(ProtocolError) {
        excess += 1
        if excess > rules.maximumInFlight { try countControl(now) }
    }

    /// Checks what holds for submissions and for requests about handles alike.
    /// - Parameter right: the right that a site needs for the request.
    /// - Returns: the outcome with which to refuse the request; `nil` if it may be taken.
    /// - Throws: if the request number is still in flight, or too many requests were refused in a row.
    private mutating func refusal(
        of request: UInt32, right: Site.Right, _ now: MonotonicTime, _ requests: inout Requests
    ) throws(ProtocolError) -> Outcome? {
        guard !inFlight.contains(RequestNumber(request)) else {
            throw ProtocolError(code: .protocolError, text: "received a request number that is still in flight")
        }
        guard phase == .identified else {
            try countExcess(now)
            return .retry(.shuttingDown, after: 1000, text: "submitted after GOAWAY")
        }
        guard inFlight.count < rules.maximumInFlight else {
            try countExcess(now)
            return .retry(.tooManyInFlight, after: 1000, text: "at most \(rules.maximumInFlight) submissions in flight")
        }
        guard site.map({ $0.rights.contains(right) }) ?? (rules.siteMode != .required) else {
            requests.violations += 1
            return Rejection(.notASite).outcome
        }
        return nil
    }

    private mutating func submit(
        _ fields: SubmissionFields, _ now: MonotonicTime, _ requests: inout Requests, _ effects: inout Effects
    ) throws(ProtocolError) {
        let request = fields.request
        func answer(_ outcome: Outcome) {
            effects.output.append(SubmissionResult(request: request, outcome: outcome))
        }
        if let outcome = try refusal(of: request, right: .send, now, &requests) { return answer(outcome) }
        if rules.keepsHandles, let handle = fields.handle.flatMap({ Handle($0) }) {
            requests.submissionsByHandle.append(SubmissionByHandle(request: request, handle: handle, .tnp(fields)))
            countInFlight(request)
            return
        }
        guard let app = rules.app(named: fields.app) else {
            requests.violations += 1
            return answer(Rejection(.unknownApp).outcome)
        }
        do {
            requests.submissions.append((try fields.checked(format: app.format), app))
            countInFlight(request)
        } catch {
            requests.violations += 1
            answer(error.outcome)
        }
    }

    private mutating func handleRequest(
        _ fields: HandleRequestFields, _ now: MonotonicTime, _ requests: inout Requests, _ effects: inout Effects
    ) throws(ProtocolError) {
        let request = fields.request
        func answer(_ outcome: Outcome) { effects.output.append(HandleResult(request: request, outcome: outcome)) }
        if let outcome = try refusal(of: request, right: .register, now, &requests) { return answer(outcome) }
        // The rate limit bounds the signatures that a connection makes the node check.
        let wait = site == nil ? control.wait(rules.control, now: now) : .zero
        guard wait == .zero else { return answer(.retry(.connectionOverRate, after: wait.wireMilliseconds)) }
        if site == nil { control.take(rules.control, now: now) }
        do {
            requests.handleRequests.append(try fields.checked(at: rules.signedOnions))
            countInFlight(request)
            aboutHandles.insert(RequestNumber(request))
        } catch {
            requests.violations += 1
            answer(error.outcome)
        }
    }

    private mutating func countInFlight(_ request: UInt32) {
        inFlight.insert(RequestNumber(request))
        excess = 0
    }

    // MARK: Closing

    private mutating func close(with goAway: GoAway, _ effects: inout Effects) {
        phase = .over
        effects.output.append(goAway)
        effects.closes = true
    }

    private mutating func drain(_ goAway: GoAway, _ effects: inout Effects) {
        phase = .draining
        effects.output.append(goAway)
        closeIfDone(&effects)
    }

    private mutating func closeIfDone(_ effects: inout Effects) {
        guard phase == .draining, inFlight.count == queued.count else { return }
        phase = .over
        effects.closes = true
    }
}
