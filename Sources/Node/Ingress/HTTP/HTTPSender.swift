// SPDX-License-Identifier: Apache-2.0

import Admission
import EventLoop
import HTTP1
import NodeConfiguration
import TNP
import Time

/// A connection at the HTTP endpoint: of a desktop client (Bisq, Haveno), or of a phone that manages its handle. A
/// notification becomes a submission, and its outcome the response. The wait for a response is bounded, because a
/// desktop drops all new notifications while it waits for one.
package final class HTTPSender: SenderConnection, HTTPConnection.Delegate {
    /// The settings of a connection, fixed for its lifetime.
    package struct Rules {
        /// Whether a PROXY line with tor's circuit ID precedes the first request.
        var circuitIDs: Bool
        var http: HTTPLimits
        /// How long a request may wait for its response.
        var answerTimeout: Duration
        /// How long a request may wait for its response while the node shuts down.
        var shutdownAnswerTimeout: Duration
        /// Whether the node keeps handles.
        var keepsHandles: Bool
        /// The origins of pages that may make requests about handles.
        var handleOrigins: [String]
        /// The rate limit of requests about handles, whose signatures cost the node more to check than any other
        /// request costs to refuse.
        var control: Rate
    }

    private var connection: HTTPConnection!
    private unowned let host: any SenderHost
    private let rules: Rules
    private var pending: PendingRequest?
    private var requests: UInt32 = 0
    private var timer: Timer!
    /// When the timer fires; `nil` if it is stopped.
    private var timerFiresAt: MonotonicTime?
    private var proxyLine = ProxyLineDecoder()
    private let since = MonotonicTime.now
    package private(set) var lastRead = MonotonicTime.now

    package let number: UInt64
    package let senderProtocol = Admission.SenderProtocol.http
    package var circuit: CircuitID?
    package private(set) var isClosed = false
    package private(set) var hasSucceeded = false
    private var hasAnswered = false
    /// The state of the rate limit ``Rules/control``.
    private var control = Allowance()
    package let hasOwnPuzzle = false

    /// Serves `stream`.
    /// - Parameters:
    ///   - number: unique among the node's connections.
    ///   - rules: the limits and timeouts.
    ///   - host: the node; not retained.
    package init(_ stream: ByteStream, number: UInt64, rules: Rules, host: any SenderHost) {
        self.number = number
        self.rules = rules
        self.host = host
        timer = Timer(on: stream.loop) { [unowned self] in timeReached() }
        connection = HTTPConnection(stream, limits: rules.http, host: self) { [unowned self] bytes in
            rules.circuitIDs ? readProxyLine(bytes) : refuseProxyLine(bytes)
        }
    }

    /// Refuses a PROXY line that tor sends although listen.circuit_ids is off, with a text that tells the operator the
    /// cause.
    private func refuseProxyLine(_ bytes: RawSpan) -> HTTPConnection.PreludeResult {
        guard bytes.withUnsafeBytes({ $0.starts(with: "PROXY ".utf8) }) else { return .done(taken: 0) }
        let text = "received a PROXY line, but listen.circuit_ids is off"
        return .refused(response: finalResponse(APIResponse.error(400, text)))
    }

    private func readProxyLine(_ bytes: RawSpan) -> HTTPConnection.PreludeResult {
        do throws(ProtocolError) {
            let (id, taken) = try proxyLine.append(bytes)
            guard let id else { return .more }
            guard let goAway = host.assign(self, toCircuit: id) else { return .done(taken: taken) }
            return .refused(response: finalResponse(APIResponse.rejection(goAway)))
        } catch {
            return .refused(response: finalResponse(APIResponse.error(400, error.text)))
        }
    }

    // MARK: Requests

    package func handle(_ request: HTTPRequest, on connection: HTTPConnection) {
        lastRead = .now
        host.identified(self)
        let route: APIRoute
        do throws(APIRoute.NoRoute) {
            route = try APIRoute(request)
        } catch {
            respond(Self.answer(to: error))
            return host.countViolations(self, 1)
        }
        if let call = route.phoneRequest {
            if let wait = takeControl() {
                return respond(
                    APIResponse.response(to: route.dialect, .retry(.connectionOverRate, after: wait.wireMilliseconds)))
            }
            if case .answer(let response, let isViolation) = call.verdict(
                keepsHandles: rules.keepsHandles, origins: rules.handleOrigins)
            {
                respond(response)
                return host.countViolations(self, isViolation ? 1 : 0)
            }
        }
        if let refusal = host.refusal(of: self, site: route.site, right: route.phoneRequest == nil ? .send : .register)
        {
            respond(APIResponse.response(to: route.dialect, refusal))
            // A site's connection may carry requests of others (``KnownSites``), which must not be charged to the site.
            if refusal.kind == .rejected, circuit?.site == nil { host.countViolations(self, 1) }
            return
        }
        do throws(Rejection) {
            if let call = route.phoneRequest { return try perform(call, in: route.dialect) }
            let apiRequest = try route.apiRequest()
            switch apiRequest.phone {
            case .device(let magic, let token):
                let (envelope, app) = try host.appResolver.envelope(of: apiRequest, to: magic, deviceToken: token)
                host.deliver(
                    Submission(request: expectAnswer(in: route.dialect), envelope: envelope, acceptQueued: true),
                    app: app.name, format: app.format, for: self)
            case .handle(let handle):
                guard rules.keepsHandles else { throw Rejection(.unsupportedField, "this node keeps no handles") }
                let request = expectAnswer(in: route.dialect)
                host.deliver(SubmissionByHandle(request: request, handle: handle, .http(apiRequest)), for: self)
            }
        } catch {
            respond(APIResponse.response(to: route.dialect, error.outcome))
            host.countViolations(self, 1)
        }
    }

    /// Counts a request about a handle against the rate limit ``Rules/control``, unless a site sends it.
    /// - Returns: the time until the next one is allowed, if this one is not; else `nil`.
    private func takeControl() -> Duration? {
        guard circuit?.site == nil else { return nil }
        let wait = control.wait(rules.control, now: .now)
        guard wait == .zero else { return wait }
        control.take(rules.control, now: .now)
        return nil
    }

    private func perform(_ call: PhoneRequest, in dialect: APIRequest.Dialect) throws(Rejection) {
        let onions = host.signedOnions
        guard var request = try call.handleRequest(at: onions) else {
            return respond(try call.response(host.registrationPuzzle, onions: onions))
        }
        request.request = expectAnswer(in: dialect)
        host.perform(request, for: self)
    }

    /// Starts to wait for an outcome.
    /// - Returns: the number of the request.
    private func expectAnswer(in dialect: APIRequest.Dialect) -> UInt32 {
        requests &+= 1
        pending = PendingRequest(requests, dialect, deadline: .now + rules.answerTimeout)
        startTimer(until: .now + rules.answerTimeout)
        return requests
    }

    private static func answer(to stray: APIRoute.NoRoute) -> HTTPResponse {
        switch stray {
        case .notFound:
            APIResponse.error(
                404,
                "not found: this port serves GET /relay, POST /v1/apns/device/TOKEN, /v1/fcm/device/TOKEN and /v1/handle/HANDLE, and /v1/handles"
            )
        case .methodNotAllowed(let allowed):
            APIResponse.error(405, "this path accepts \(allowed) only", headers: [("allow", allowed)])
        }
    }

    package func errorResponse(for fault: HTTPRequestError, on connection: HTTPConnection) -> [UInt8] {
        isClosed = true
        if fault != .timeout, fault != .draining { host.countViolations(self, 1) }
        guard case .notHTTP(0) = fault else { return finalResponse(APIResponse.error(fault.status, fault.text)) }
        // A TNP stream begins with a zero byte, the first byte of a frame length: answer a TNP sender with GOAWAY.
        var frame: [UInt8] = []
        frame.append(GoAway(code: .protocolError, text: "this is the HTTP port; the TNP port is set by listen.tnp"))
        return frame
    }

    package func closed(_ connection: HTTPConnection) {
        stop()
        host.ended(self)
    }

    // MARK: Answers

    package func finished(_ request: UInt32, _ outcome: Outcome) {
        if outcome.kind == .delivered || outcome.kind == .queued { hasSucceeded = true }
        handle(request) { $0.finished(outcome, now: .now) }
    }

    package func parked(_ request: UInt32) { handle(request) { $0.parked() } }

    package func registered(_ request: UInt32, _ handle: Handle) {
        guard let pending, pending.number == request, case .handles(let origin) = pending.dialect else { return }
        self.pending = nil
        respond(APIResponse.registered(handle, for: origin))
    }

    /// Passes an event to the pending request and performs its action. Does nothing if the pending request has another
    /// number; `nil` matches any.
    private func handle(_ request: UInt32?, _ event: (inout PendingRequest) -> PendingRequest.Action) {
        guard var changed = pending, request == nil || request == changed.number else { return }
        let action = event(&changed)
        pending = changed
        switch action {
        case .respond(let outcome): answer(outcome)
        case .wait(let time): startTimer(until: time)
        }
    }

    /// Makes the timer fire at `deadline`, unless it fires earlier. A response does not stop the timer, so that most
    /// requests need not start it again.
    private func startTimer(until deadline: MonotonicTime) {
        if let timerFiresAt, timerFiresAt <= deadline { return }
        timerFiresAt = deadline
        timer.start(after: max(.zero, deadline - .now))
    }

    private func timeReached() {
        timerFiresAt = nil
        guard let pending else { return }
        if pending.deadline <= .now { answer(pending.fallback) } else { startTimer(until: pending.deadline) }
    }

    private func answer(_ outcome: Outcome) {
        guard let dialect = pending?.dialect else { return }
        pending = nil
        respond(APIResponse.response(to: dialect, outcome))
    }

    private func respond(_ response: HTTPResponse) {
        hasAnswered = true
        host.responded(response.status)
        connection.respond(response)
    }

    private func finalResponse(_ response: HTTPResponse) -> [UInt8] {
        host.responded(response.status)
        return response.encoded(keepsAlive: false)
    }

    package func refused(_ request: UInt32, _ refusal: Refusal) {
        if refusal.goAway != nil { connection.drain() }
        guard let outcome = refusal.outcome else {
            if let goAway = refusal.goAway { reject(goAway) }
            return
        }
        handle(request) { $0.refused(outcome, now: .now) }
    }

    // MARK: Closing

    package func isIdle(minimumAge time: Duration) -> Bool {
        !isClosed && connection.isIdle && MonotonicTime.now - since >= time
    }

    /// Does nothing: the delayed response slows the client.
    package func pauseReading(for duration: Duration) {}

    /// Does nothing: HTTP clients solve no puzzles.
    package func announce(_ puzzle: Puzzle) {}

    package func closeIdle(_ text: String) { connection.drain() }

    package func shutDown(retryAfter: UInt32) {
        connection.drain()
        handle(nil) { $0.shutDown(within: rules.shutdownAnswerTimeout, retryAfter: retryAfter, now: .now) }
    }

    package func reject(_ goAway: GoAway) {
        guard !isClosed else { return }
        if pending == nil, !hasAnswered {
            return connection.reject(finalResponse(APIResponse.rejection(goAway)))
        }
        // After a response, the client would take a further one for the response to its next request.
        connection.drain()
        answer(APIResponse.outcome(of: goAway))
    }

    package func evict(_ goAway: GoAway) {
        // After a response, the client would take a further one for the response to its next request.
        connection.evict(connection.isClosed || hasAnswered ? [] : finalResponse(APIResponse.rejection(goAway)))
        stop()
        host.ended(self)
    }

    package func close() {
        stop()
        connection.close()
    }

    private func stop() {
        isClosed = true
        pending = nil
        timer.stop()
    }
}
