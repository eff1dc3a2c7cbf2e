// SPDX-License-Identifier: Apache-2.0

import EventLoop
import HTTP1

/// Which requests the admin port answers. It has no password: whoever reaches it may read. So it has to be sure that it is
/// asked by somebody on this machine, and not by a page of the web that the operator's browser shows.
struct AdminGate: Sendable {
    /// What there is.
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

    /// Why a request is not answered.
    enum Refusal: Error, Equatable {
        /// It names another host than this machine.
        case host
        /// A page of another origin asks.
        case origin
        case method
        case unknown

        var status: Int {
            switch self {
            case .host, .origin: 403
            case .method: 405
            case .unknown: 404
            }
        }

        /// What it is and what to do.
        var text: String {
            switch self {
            case .host:
                "This port answers only under the names localhost, 127.0.0.1 and [::1], so that no page of the web can "
                    + "read it by DNS rebinding. From elsewhere, open a tunnel, for instance "
                    + "ssh -L 7079:127.0.0.1:7079 YOUR-SERVER, and go to http://localhost:7079/."
            case .origin:
                "This port answers no page of another origin. Type the address into the browser, or use a bookmark."
            case .method: "This port only shows; ask with GET or HEAD."
            case .unknown: "There is nothing here. Go to /."
            }
        }
    }

    /// Whether it serves a unix socket: there the name of the host says nothing, and no browser comes by itself.
    let servesSocket: Bool

    /// - Throws: ``Refusal``.
    func route(of request: HTTPRequest) throws(Refusal) -> Route {
        let host = request.header("host")
        guard servesSocket || host.map(Self.isThisMachine) ?? false else { throw .host }
        guard isOwn(request, host: host) else { throw .origin }
        guard request.method == "GET" || request.method == "HEAD" else { throw .method }
        let path = request.target.prefix { $0 != UInt8(ascii: "?") }
        guard let route = Route(rawValue: String(decoding: path, as: UTF8.self)) else { throw .unknown }
        return route
    }

    private static func isThisMachine(_ host: String) -> Bool {
        let host = host.lowercased()
        guard let endpoint = Endpoint(host) ?? Endpoint(host + ":80"), case .tcp = endpoint else { return false }
        return endpoint.isLocal
    }

    /// Whether nobody but the dashboard itself, or no page at all, asks.
    private func isOwn(_ request: HTTPRequest, host: String?) -> Bool {
        // Each of them may come more than once, and all have to be right.
        request.headers.allSatisfy { name, value in
            switch name {
            case "sec-fetch-site": value == "same-origin" || value == "none"
            case "origin": host.map { value == "http://\($0)" || value == "https://\($0)" } ?? false
            default: true
            }
        }
    }

    /// Fields of every answer: the page may load nothing from elsewhere, nobody may frame it, nothing is kept.
    static let headers: [(String, String)] = [
        (
            "Content-Security-Policy",
            "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
                + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
        // What is read here is not for other pages, also where a browser does not send Sec-Fetch-Site.
        ("Cross-Origin-Resource-Policy", "same-origin"),
    ]
}
