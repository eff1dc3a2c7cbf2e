// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// The configuration of a node that uses the simulated push services. Its paths are relative to their directory.
package struct SimulatedConfiguration {
    let endpoints: SimulatedServices.Endpoints
    /// The name of the state directory.
    let state: String
    /// Where the node listens for TNP.
    let tnp: String
    /// Where the node listens for HTTP, if it does.
    var http: String?
    /// Where the node's admin port is, if it has one.
    var admin: String?
    var circuitIDs = false
    /// The upstream nodes, which the node reaches without tor; if empty, it has credentials of its own.
    var upstream: [Endpoint] = []
    /// The lines of `[tor]`.
    var tor = "managed = false"
    var logLevel = "info"
    /// Further tables, in TOML.
    var additionalTables = ""

    package init(
        endpoints: SimulatedServices.Endpoints, state: String = "state", tnp: String, http: String? = nil,
        admin: String? = nil, upstream: [Endpoint] = [],
        circuitIDs: Bool = false, tor: String = "managed = false", logLevel: String = "info",
        additionalTables: String = ""
    ) {
        self.endpoints = endpoints
        self.state = state
        self.tnp = tnp
        self.http = http
        self.admin = admin
        self.circuitIDs = circuitIDs
        self.upstream = upstream
        self.tor = tor
        self.logLevel = logLevel
        self.additionalTables = additionalTables
    }

    /// Tables with limits that are never reached, for tests and benchmarks of anything but the limits. The text ends
    /// within `[limits]`, so that more of its keys can follow.
    package static let unlimitedRates = unlimitedRates(except: [:])

    /// As ``unlimitedRates``, but with these rates for some keys of `[limits]`.
    package static func unlimitedRates(except limited: [String: (burst: Int, perMinute: Int)]) -> String {
        let keys = ["device", "circuit", "app", "node", "unproven", "http", "http_unproven", "abuse", "control"]
        let rates = keys.map { key in
            let rate = limited[key] ?? (burst: 10_000_000, perMinute: 1_000_000_000)
            return "\(key)_burst = \(rate.burst)\n\(key)_per_minute = \(rate.perMinute)"
        }
        return """
            [puzzle]
            mode = "off"
            [limits]
            \(rates.joined(separator: "\n"))
            connections_per_circuit = 10000
            """
    }

    /// The keys of `[app.web]` for a push server on this machine.
    package static func webPush(at server: Endpoint) -> String {
        guard case .tcp(_, let port) = server else { return "" }
        return """
            contact = "mailto:operator@example.org"
            local_servers = ["localhost:\(port)"]
            trust_file = "ca.pem"
            """
    }

    /// The configuration as TOML.
    package var text: String {
        """
        # A node for the push services simulated by `tocsin simulate`.
        [node]
        state = "\(state)"
        log = "\(logLevel)"

        [listen]
        tnp = "\(tnp)"
        \(http.map { "http = \"\($0)\"" } ?? "")
        \(admin.map { "admin = \"\($0)\"" } ?? "")
        circuit_ids = \(circuitIDs)

        [tor]
        \(tor)

        [[app]]
        name = "bisq"
        format = "pipe"

        \(upstream.isEmpty ? credentials : Self.upstream(upstream))

        \(additionalTables)
        """
    }

    /// The tables of a node with credentials of its own.
    private var credentials: String {
        """
        [app.apns]
        topic = "bisqremote.joachimneumann.com"
        key_file = "apns.p8"
        key_id = "\(SimulatedServices.keyID)"
        team_id = "\(SimulatedServices.teamID)"
        alert = "Bisq notification"

        [app.fcm]
        service_account_file = "service-account.json"
        title = "Bisq"
        body = "Notification"

        [app.web]
        \(Self.webPush(at: endpoints.webPush))

        [apns]
        production = "https://\(endpoints.production)"
        development = "https://\(endpoints.development)"
        trust_file = "ca.pem"

        [fcm]
        endpoint = "https://\(endpoints.fcm)"
        trust_file = "ca.pem"
        """
    }

    /// The table of a node that gives all envelopes to one of these nodes.
    private static func upstream(_ nodes: [Endpoint]) -> String {
        """
        [app.upstream]
        node = [\(nodes.map { "\"\($0)\"" }.joined(separator: ", "))]
        direct = true
        """
    }
}
