import Admission
import EventLoop
import HTTP1
import TNP

/// A connection of a desktop of today at the HTTP door: each request becomes a submission, its outcome the answer. No
/// request waits for its answer longer than a bound: who gets none drops every notification that comes meanwhile.
final class HTTPSender: SenderConnection, HTTPConnection.Host {
    protocol Host: SenderHost {
        /// Finds the app of a request.
        var door: HTTPDoor { get }
        /// A request has its answer, of this status.
        func responded(_ status: Int)
    }

    /// What does not change while the connection lasts.
    struct Rules {
        var circuitIDs: Bool
        var http: HTTPLimits
        var answerTimeout: Duration
    }

    /// What lies in the spool safely is answered after so long, as no later outcome could be told anyway.
    private static let storedPatience = Duration.seconds(5)

    private var connection: HTTPConnection!
    private unowned let host: any Host
    private let rules: Rules
    private var underWay: (number: UInt32, dialect: DoorRequest.Dialect, deadline: MonotonicTime, isStored: Bool)?
    private var requests: UInt32 = 0
    private var timer: Timer!
    private var proxyLine = ProxyLineDecoder()
    private let since = MonotonicTime.now
    private(set) var lastRead = MonotonicTime.now

    let number: UInt64
    let door = Admission.Door.http
    var circuit: CircuitID?
    private(set) var isOver = false
    private(set) var hasServed = false
    let isAskedForMore = false

    init(_ stream: ByteStream, number: UInt64, rules: Rules, host: any Host) {
        self.number = number
        self.rules = rules
        self.host = host
        timer = Timer(on: stream.loop) { [unowned self] in timeReached() }
        connection = HTTPConnection(
            stream, limits: rules.http, host: self,
            prelude: rules.circuitIDs ? { [unowned self] in introduced(by: $0) } : nil)
    }

    /// Takes tor's PROXY line.
    private func introduced(by bytes: RawSpan) -> HTTPConnection.Prelude {
        do throws(ProtocolError) {
            let (id, taken) = try proxyLine.append(bytes)
            guard let id else { return .more }
            guard let goAway = host.comes(self, from: id) else { return .done(taken: taken) }
            return .refused(farewell: DoorAnswer.farewell(goAway).encoded(keepsAlive: false))
        } catch {
            return .refused(farewell: DoorAnswer.fault(400, error.text).encoded(keepsAlive: false))
        }
    }

    // MARK: Requests

    func handle(_ request: HTTPRequest, on connection: HTTPConnection) {
        lastRead = .now
        host.greeted(self)
        let route: DoorRoute
        do throws(DoorRoute.Stray) {
            route = try DoorRoute(request)
        } catch {
            respond(Self.answer(to: error))
            return host.charge(self, faults: 1)
        }
        do throws(Rejection) {
            let (envelope, app) = try host.door.envelope(of: try route.door())
            requests &+= 1
            underWay = (requests, route.dialect, .now + rules.answerTimeout, isStored: false)
            timer.start(after: rules.answerTimeout)
            host.deliver(
                Submission(request: requests, envelope: envelope, acceptQueued: true), app: app.name,
                format: app.format, for: self)
        } catch {
            respond(DoorAnswer.response(to: route.dialect, error.outcome))
            host.charge(self, faults: 1)
        }
    }

    private static func answer(to stray: DoorRoute.Stray) -> HTTPResponse {
        switch stray {
        case .notFound:
            DoorAnswer.fault(
                404, "there is nothing here: GET /relay, POST /v1/apns/device/TOKEN and /v1/fcm/device/TOKEN are served"
            )
        case .methodNotAllowed(let allowed):
            DoorAnswer.fault(405, "this path takes \(allowed) only", headers: [("allow", allowed)])
        }
    }

    func farewell(for fault: HTTPFault, on connection: HTTPConnection) -> [UInt8] {
        isOver = true
        host.responded(fault.status)
        if fault != .timeout { host.charge(self, faults: 1) }
        guard case .notHTTP(0) = fault else {
            return DoorAnswer.fault(fault.status, fault.text).encoded(keepsAlive: false)
        }
        // The length of a first frame of TNP begins with a zero: who speaks it is told in it.
        var frame: [UInt8] = []
        frame.append(
            GoAway(code: .protocolError, text: "this port speaks HTTP; the node speaks TNP on another, see listen.tnp"))
        return frame
    }

    func ended(_ connection: HTTPConnection) {
        isOver = true
        underWay = nil
        timer.stop()
        host.ended(self)
    }

    // MARK: Answers

    func finished(_ request: UInt32, _ outcome: Outcome) {
        if outcome.kind == .delivered { hasServed = true }
        guard let underWay, request == underWay.number else { return }
        guard outcome.isFinal else {
            self.underWay?.isStored = true
            return timer.start(after: max(.zero, min(Self.storedPatience, underWay.deadline - .now)))
        }
        answer(outcome)
    }

    private func timeReached() {
        guard let underWay else { return }
        answer(
            underWay.isStored
                ? Outcome(.queued)
                : .retry(.providerUnreachable, after: 60_000, text: "the push service has not answered in time"))
    }

    private func answer(_ outcome: Outcome) {
        guard let dialect = underWay?.dialect else { return }
        underWay = nil
        timer.stop()
        respond(DoorAnswer.response(to: dialect, outcome))
    }

    private func respond(_ response: HTTPResponse) {
        host.responded(response.status)
        connection.respond(response)
    }

    func refused(_ request: UInt32, _ refusal: Refusal) {
        if refusal.goAway != nil { connection.leave() }
        if let outcome = refusal.outcome { return finished(request, outcome) }
        if let goAway = refusal.goAway { sendAway(goAway) }
    }

    // MARK: The end

    func isIdle(for time: Duration) -> Bool { connection.isIdle && MonotonicTime.now - since >= time }

    /// Its senders ask once and go.
    func rest(for duration: Duration) {}

    /// They solve none.
    func announce(_ puzzle: Puzzle) {}

    func letGo(_ text: String) { connection.leave() }

    func shutDown(retryAfter: UInt32) { connection.leave() }

    func sendAway(_ goAway: GoAway) {
        guard !isOver else { return }
        let farewell = DoorAnswer.farewell(goAway)
        guard underWay != nil else { return connection.sendAway(farewell.encoded(keepsAlive: false)) }
        underWay = nil
        timer.stop()
        connection.leave()
        respond(farewell)
    }

    func close() {
        isOver = true
        underWay = nil
        timer.stop()
        connection.close()
    }
}
