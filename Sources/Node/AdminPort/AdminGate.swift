// SPDX-License-Identifier: Apache-2.0

import EventLoop
import HTTP1
import NodeConfiguration

/// Decides which requests the admin port answers: without a token only those from this machine, and none that a foreign web
/// page in the operator's browser has made.
struct AdminGate: Sendable {
    /// The resources of the admin port, with their paths.
    enum Route: String, CaseIterable, Sendable {
        case page = "/"
        case events = "/events"
        case metrics = "/metrics"
        case health = "/healthz"
        case readiness = "/readyz"
        case status = "/status.json"
        case style = "/dashboard.css"
        case script = "/dashboard.js"
    }

    /// The reason why a request is refused.
    enum Refusal: Error, Equatable {
        /// The Host field does not name this machine.
        case host
        /// The request does not have the token.
        case token
        /// A page of another origin made the request.
        case origin
        /// The method is neither GET nor HEAD.
        case method
        /// There is no such path.
        case unknown

        var status: Int {
            switch self {
            case .token: 401
            case .host, .origin: 403
            case .method: 405
            case .unknown: 404
            }
        }

        /// The problem and its remedy, for the body of the response.
        var text: String {
            switch self {
            case .host:
                "This port accepts only the host names localhost, 127.0.0.1 and [::1], to prevent DNS rebinding. From "
                    + "another machine, open a tunnel, for instance ssh -L 7079:127.0.0.1:7079 YOUR-SERVER, and go to "
                    + "http://localhost:7079/."
            case .token:
                "This port asks for the token in the file of listen.admin_token_file: as a bearer token, or as the "
                    + "password with any user name."
            case .origin:
                "This port refuses requests from pages of other origins. Type the address into the browser, or use a "
                    + "bookmark."
            case .method: "This port is read-only: use GET or HEAD."
            case .unknown: "Not found. The dashboard is at /."
            }
        }
    }

    /// Whose requests are answered.
    enum Access: Sendable {
        /// Those at a unix socket. The Host field is not checked: a web page cannot reach a unix socket.
        case socket
        /// Those whose Host field names this machine.
        case thisMachine
        /// Those that have the token. The Host field is not checked: a browser does not send the token to another
        /// origin. `/healthz` needs no token.
        case holders(of: AdminToken)
    }

    let access: Access

    /// Checks a request and returns the resource it names.
    /// - Throws: ``Refusal``.
    func route(of request: HTTPRequest) throws(Refusal) -> Route {
        let host = request.header("host")
        let path = request.target.prefix { $0 != UInt8(ascii: "?") }
        let route = Route(rawValue: String(decoding: path, as: UTF8.self))
        switch access {
        case .socket: break
        case .thisMachine:
            // A health check may be made with HTTP/1.0, which has no Host; a browser always sends one.
            let isHealthCheck = host == nil && (route == .health || route == .readiness)
            guard isHealthCheck || host.map(Self.isThisMachine) ?? false else { throw .host }
        case .holders(let token):
            guard route == .health || token.isGiven(by: request.header("authorization")) else { throw .token }
        }
        guard isOwn(request, host: host) else { throw .origin }
        guard request.method == "GET" || request.method == "HEAD" else { throw .method }
        guard let route else { throw .unknown }
        return route
    }

    private static func isThisMachine(_ host: String) -> Bool {
        let host = host.lowercased()
        guard let endpoint = Endpoint(host) ?? Endpoint(host + ":80"), case .tcp = endpoint else { return false }
        return endpoint.isLocal
    }

    /// Whether the dashboard itself or no page at all made the request.
    private func isOwn(_ request: HTTPRequest, host: String?) -> Bool {
        // A field may occur more than once; every occurrence must be valid.
        request.headers.allSatisfy { name, value in
            switch name {
            case "sec-fetch-site": value == "same-origin" || value == "none"
            case "origin": host.map { value == "http://\($0)" || value == "https://\($0)" } ?? false
            default: true
            }
        }
    }

    /// Header fields of every response: the page loads nothing from other origins, cannot be framed and is not cached.
    static let headers: [(String, String)] = [
        (
            "Content-Security-Policy",
            "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
                + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
        // Protects responses from other pages in browsers that do not send Sec-Fetch-Site.
        ("Cross-Origin-Resource-Policy", "same-origin"),
    ]
}
