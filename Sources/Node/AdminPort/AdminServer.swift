// SPDX-License-Identifier: Apache-2.0

import EventLoop
import HTTP1
import NodeConfiguration
import Prometheus

/// The HTTP server of the admin port: dashboard, event stream, metrics and health. Runs on the node's loop.
package final class AdminServer: HTTPConnection.Delegate {
    /// What gives the server the node's state, on the loop.
    package protocol Source: AnyObject {
        /// The current state of the node.
        func snapshot() -> NodeSnapshot
        /// The metrics in the Prometheus text format.
        func metricsText() -> [UInt8]
        /// Whether the node runs; false as soon as it begins to stop.
        var isAlive: Bool { get }
    }

    /// Maximum number of connections. A further one replaces the oldest idle connection, or else the oldest that is not
    /// ``trusted``; if there is none, the new connection is closed.
    static let maximumConnections = 32
    /// Maximum number of event streams. A request for a further one gets 503.
    static let maximumStreams = 8
    /// The time between two events.
    static let interval = Duration.seconds(1)

    private let loop: EventLoop
    private unowned let source: any Source
    private var token: AdminToken?
    private var listener: Listener?
    /// The address on which the server listens, with the actual port.
    package private(set) var endpoint: Endpoint
    /// All connections, oldest first.
    private var connections: [HTTPConnection] = []
    /// The connections of which the gate has admitted a request other than `/healthz`.
    private var trusted: Set<ObjectIdentifier> = []
    /// The connections that receive events.
    private var streams: [HTTPConnection] = []
    /// Sends the next event; `nil` while there are no streams.
    private var timer: Timer?

    /// Starts listening.
    /// - Parameters:
    ///   - token: what clients must give; `nil` if only this machine can reach the endpoint.
    ///   - source: not retained; must live until ``close()``.
    /// - Throws: `ListenError`.
    package init(
        at endpoint: Endpoint, token: AdminToken? = nil, on loop: EventLoop, source: any Source
    ) throws(ListenError) {
        self.endpoint = endpoint
        self.loop = loop
        self.source = source
        self.token = token
        // Owner only: an external tor may be in the group that can connect to the sockets for senders.
        let listener = try Listener(endpoint, on: loop, mode: 0o600) { [unowned self] stream in accept(stream) }
        self.listener = listener
        self.endpoint = listener.endpoint
    }

    private var gate: AdminGate {
        if let token { return AdminGate(access: .holders(of: token)) }
        return if case .unix = endpoint { AdminGate(access: .socket) } else { AdminGate(access: .thisMachine) }
    }

    /// Requires this token from now on. If it is another one, closes all connections.
    package func use(_ token: AdminToken?) {
        guard token != self.token else { return }
        self.token = token
        for connection in connections { connection.close() }
        (connections, streams, trusted) = ([], [], [])
    }

    /// Stops listening and closes all connections. Must be called before the server is released.
    package func close() {
        listener = nil
        timer = nil
        for connection in connections { connection.close() }
        (connections, streams, trusted) = ([], [], [])
    }

    // MARK: Connections

    private func accept(_ stream: ByteStream) {
        if connections.count >= Self.maximumConnections {
            // Strangers who hold connections open must not keep out the clients that have the token.
            let stranger = connections.first { !trusted.contains(ObjectIdentifier($0)) }
            guard let least = connections.first(where: \.isIdle) ?? stranger else { return stream.close() }
            least.close()
            forget(least)
        }
        // No request to the admin port has a body.
        var limits = HTTPLimits.standard
        (limits.target, limits.body) = (1024, 0)
        connections.append(HTTPConnection(stream, limits: limits, host: self))
    }

    /// Removes a closed connection.
    package func closed(_ connection: HTTPConnection) { forget(connection) }

    private func forget(_ connection: HTTPConnection) {
        connections.removeAll { $0 === connection }
        streams.removeAll { $0 === connection }
        trusted.remove(ObjectIdentifier(connection))
    }

    /// The response to a malformed request, after which the connection closes.
    package func errorResponse(for fault: HTTPRequestError, on connection: HTTPConnection) -> [UInt8] {
        Self.text(fault.status, fault.text).encoded(keepsAlive: false)
    }

    // MARK: Answers

    /// Answers a request.
    package func handle(_ request: HTTPRequest, on connection: HTTPConnection) {
        do throws(AdminGate.Refusal) {
            let route = try gate.route(of: request)
            // Strangers may request `/healthz` too.
            if route != .health { trusted.insert(ObjectIdentifier(connection)) }
            guard route != .events else { return stream(to: connection) }
            connection.respond(answer(route))
        } catch {
            var response = Self.text(error.status, error.text)
            switch error {
            case .method: response.headers.append((name: "Allow", value: "GET, HEAD"))
            case .token:
                response.headers.append((name: "WWW-Authenticate", value: #"Basic realm="Tocsin", charset="UTF-8""#))
            case .host, .origin, .unknown: break
            }
            connection.respond(response)
        }
    }

    private func answer(_ route: AdminGate.Route) -> HTTPResponse {
        switch route {
        case .page, .events: Self.response(200, "text/html; charset=utf-8", DashboardPage(source.snapshot()).document)
        case .metrics: Self.response(200, PrometheusRegistry.contentType, source.metricsText())
        case .health: health
        case .readiness: Self.json(StatusJSON.readiness(source.snapshot()))
        case .status: Self.json((200, StatusJSON.status(source.snapshot())))
        case .style: Self.response(200, "text/css; charset=utf-8", Array(DashboardFiles.style.utf8))
        case .script: Self.response(200, "text/javascript; charset=utf-8", Array(DashboardFiles.script.utf8))
        }
    }

    private var health: HTTPResponse {
        Self.json(source.isAlive ? (200, #"{"status":"ok"}"#) : (503, #"{"status":"stopping"}"#))
    }

    private static func json(_ answer: (status: Int, body: String)) -> HTTPResponse {
        response(answer.status, "application/json", Array("\(answer.body)\n".utf8))
    }

    private static func text(_ status: Int, _ text: String) -> HTTPResponse {
        response(status, "text/plain; charset=utf-8", Array("\(text)\n".utf8))
    }

    private static func response(_ status: Int, _ type: String, _ body: [UInt8]) -> HTTPResponse {
        HTTPResponse(status: status, headers: [("Content-Type", type)] + AdminGate.headers, body: body)
    }

    // MARK: Events

    private func stream(to connection: HTTPConnection) {
        guard streams.count < Self.maximumStreams else {
            var response = Self.text(503, "\(Self.maximumStreams) dashboards are already open: close one of them.")
            response.headers.append((name: "Retry-After", value: "10"))
            return connection.respond(response)
        }
        connection.stream(Self.response(200, "text/event-stream", event))
        // A response to HEAD ends after the header.
        guard !connection.isClosed else { return }
        streams.append(connection)
        if timer == nil { scheduleEvent() }
    }

    private var event: [UInt8] { DashboardPage(source.snapshot()).event }

    private func scheduleEvent() {
        let timer = timer ?? Timer(on: loop) { [unowned self] in sendEvents() }
        timer.start(after: Self.interval)
        self.timer = timer
    }

    private func sendEvents() {
        streams.removeAll(where: \.isClosed)
        guard !streams.isEmpty else {
            timer = nil
            return
        }
        // Rendered once for all streams.
        let event = event
        for connection in streams { connection.send(event) }
        scheduleEvent()
    }
}
