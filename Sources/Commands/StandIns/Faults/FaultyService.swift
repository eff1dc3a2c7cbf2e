// SPDX-License-Identifier: Apache-2.0

import EventLoop
import HTTP2
import Time

/// A push service's response to a request, and the notification that it delivers.
struct PushAnswer {
    var response: Response
    /// The delivered notification; `nil` if the request was rejected.
    var delivered: ReceivedNotification?
}

/// A push service without faults.
protocol PushService: AnyObject {
    /// The path of requests for access tokens; `nil` if the service has none.
    var tokenPath: String? { get }
    /// The hashes of the provider tokens seen.
    var providerTokensSeen: Set<Int> { get }
    /// Whether the service's 429 has `retry-after`.
    var namesRetryAfter: Bool { get }
    /// What names the device in a request: the device token, or for Web Push the path; `nil` if nothing does.
    func device(of request: ServerRequest) -> String?
    /// Validates a request and answers it.
    /// - Parameter clientName: the common name of the client's certificate.
    func answer(_ request: ServerRequest, clientName: String?) -> PushAnswer
    /// Returns an error in the service's own format, without validating the request.
    func errorResponse(_ error: Faults.ErrorAnswer, to request: ServerRequest) -> Response
}

/// A push service that applies its ``Faults`` and its ``Quota``, and reports which answers were lost because of faults.
final class FaultyService: RequestHandler {
    /// A request whose answer has not been sent whole yet.
    private struct Outstanding {
        let delivered: ReceivedNotification?
        let timer: Timer?
    }

    /// The state of a connection.
    private struct Record {
        var requests = 0
        /// The highest stream with a request that was not dropped because of GOAWAY.
        var highestProcessed: Int32 = 0
        var outstanding: [Int32: Outstanding] = [:]
        var recent = RecentAnswers()
    }

    private let service: any PushService
    private let registry: DeviceRegistry
    private let loop: EventLoop
    private let now: () -> Int64
    private var random: SplitMix64
    private var records: [ObjectIdentifier: Record] = [:]
    var faults = Faults()
    /// How many notifications the service takes.
    var meter = QuotaMeter()
    /// Number of notifications refused by the quota.
    private(set) var overQuota = 0
    /// Number of requests whose answer waits for its latency or, with an observer for answers, has not been sent whole.
    var outstanding: Int { records.values.reduce(0) { $0 + $1.outstanding.count } }
    /// Whether the network to the clients fails, so that recent answers on a connection that ends are lost.
    var isNetworkFailing = false
    /// Number of complete requests received, including those for access tokens.
    private(set) var requests = 0

    /// - Parameters:
    ///   - seed: the seed of random decisions.
    ///   - now: the service's clock, Unix time in seconds.
    init(
        _ service: any PushService, registry: DeviceRegistry, loop: EventLoop, seed: UInt64,
        now: @escaping () -> Int64
    ) {
        self.service = service
        self.registry = registry
        self.loop = loop
        self.now = now
        random = SplitMix64(seed: seed)
    }

    /// The hashes of the provider tokens seen.
    var providerTokensSeen: Set<Int> { service.providerTokensSeen }

    /// Drops a connection, and reports its answers of the last second as lost: they may not have arrived.
    func abort(_ connection: any ServedConnection) {
        for notification in records[ObjectIdentifier(connection)]?.recent.recent(at: .now) ?? [] {
            registry.reportLostAnswer(notification)
        }
        connection.close()
    }

    // MARK: RequestHandler

    func handle(_ request: ServerRequest, on connection: any ServedConnection) {
        requests += 1
        let key = ObjectIdentifier(connection)
        let ordinal = (records[key]?.requests ?? 0) + 1
        let processed = records[key]?.highestProcessed ?? 0
        records[key, default: Record()].requests = ordinal
        let plan = faults.plan(forRequest: ordinal, isTokenRequest: isForToken(request), using: &random)
        if plan.sendsGoAway, !connection.isGoingAway {
            let last = faults.lastStream(newest: connection.newestStream, processed: processed)
            connection.goAway(lastStream: last)
            guard request.stream <= last else { return }
        }
        records[key]?.highestProcessed = max(processed, request.stream)
        perform(plan.fate, of: request, on: connection)
    }

    func streamClosed(_ stream: Int32, code: UInt32, on connection: any ServedConnection) {
        let key = ObjectIdentifier(connection)
        guard let delivered = records[key]?.outstanding.removeValue(forKey: stream)?.delivered else { return }
        if code == 0 {
            records[key]?.recent.append(delivered, at: .now)
            registry.reportAnswer(delivered)
        } else {
            registry.reportLostAnswer(delivered)
        }
    }

    func connectionEnded(_ connection: any ServedConnection) {
        guard let record = records.removeValue(forKey: ObjectIdentifier(connection)) else { return }
        if isNetworkFailing {
            for notification in record.recent.recent(at: .now, within: RecentAnswers.maximumWindow) {
                registry.reportLostAnswer(notification)
            }
        }
        for outstanding in record.outstanding.values {
            if let delivered = outstanding.delivered { registry.reportLostAnswer(delivered) }
        }
    }

    // MARK: Fates

    private func isForToken(_ request: ServerRequest) -> Bool {
        guard let tokenPath = service.tokenPath, let path = request.headers[":path"] else { return false }
        return path.elementsEqual(tokenPath.utf8)
    }

    private func perform(_ fate: FaultPlan.Fate, of request: ServerRequest, on connection: any ServedConnection) {
        switch fate {
        case .answered(let time):
            switch decision(on: request) {
            case .taken(let wait):
                let answer = process(request, on: connection)
                respond(to: request.stream, answer, after: time + wait, on: connection)
            case .refused(let wait):
                overQuota += 1
                let seconds = max(1, Int(wait.milliseconds / 1000) + 1)
                let error = Faults.ErrorAnswer(
                    perMille: 1000, status: 429, retryAfter: service.namesRetryAfter ? seconds : nil)
                respond(
                    to: request.stream, PushAnswer(response: service.errorResponse(error, to: request)), after: time,
                    on: connection)
            }
        case .refused(let error, let time):
            let answer = PushAnswer(response: service.errorResponse(error, to: request))
            respond(to: request.stream, answer, after: time, on: connection)
        case .stalled:
            processUnanswered(request, on: connection)
        case .reset(let code, let isProcessed):
            if isProcessed { processUnanswered(request, on: connection) }
            connection.reset(request.stream, code: code)
        case .swallowed: connection.swallow()
        case .closed(let isProcessed):
            if isProcessed { processUnanswered(request, on: connection) }
            abort(connection)
        }
    }

    private func decision(on request: ServerRequest) -> QuotaMeter.Decision {
        guard !isForToken(request), let device = service.device(of: request) else { return .taken(after: .zero) }
        return meter.decide(on: device, at: .now)
    }

    private func process(_ request: ServerRequest, on connection: any ServedConnection) -> PushAnswer {
        var answer = service.answer(request, clientName: connection.clientCommonName)
        answer.delivered?.stream = request.stream
        if let delivered = answer.delivered {
            registry.deliver(delivered)
        } else if !isForToken(request), let observer = registry.refusalObserver {
            observer(answer.response.status, service.device(of: request) ?? "")
        }
        return answer
    }

    private func processUnanswered(_ request: ServerRequest, on connection: any ServedConnection) {
        if let delivered = process(request, on: connection).delivered { registry.reportLostAnswer(delivered) }
    }

    private func respond(
        to stream: Int32, _ answer: PushAnswer, after time: Duration, on connection: any ServedConnection
    ) {
        let delivered = registry.reportsAnswers ? answer.delivered : nil
        var timer: Timer?
        if time > .zero {
            timer = Timer(on: loop) { [unowned self, weak connection] in
                if let connection { send(answer.response, to: stream, on: connection) }
            }
            timer?.start(after: time)
        }
        // Kept until the stream is closed, because the answer has been sent only then.
        if delivered != nil || timer != nil {
            records[ObjectIdentifier(connection)]?.outstanding[stream] = Outstanding(
                delivered: delivered, timer: timer)
        }
        if timer == nil { send(answer.response, to: stream, on: connection) }
    }

    private func send(_ response: Response, to stream: Int32, on connection: any ServedConnection) {
        var response = response
        response.headers.append("date", HTTPDate.text(now() &+ faults.dateSkew))
        connection.respond(to: stream, response)
    }
}
