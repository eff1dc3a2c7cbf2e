// SPDX-License-Identifier: Apache-2.0

import Settings

/// Whether submissions must be signed with a sender key (PROTOCOL §3, fields 0x11 and 0x12).
package enum SenderKeyMode: String, CaseIterable, Sendable {
    /// Signatures are ignored.
    case off
    /// Trust on first use: the first signed notification that reaches a phone binds its device token to the key.
    case optional
    /// Like `optional`, but unsigned submissions are rejected.
    case required
}

/// The settings of ``Admission``. All except ``deviceTokens`` can change while the node runs.
package struct AdmissionSettings: Sendable, Equatable {
    /// The rate of submissions to one device token.
    package var device = Rate(burst: 20, perMinute: 10)
    /// The rate of submissions from one circuit.
    package var circuit = Rate(burst: 100, perMinute: 60)
    /// The rates of the known sites, by their numbers; in place of ``circuit``.
    package var sites: [UInt32: Rate] = [:]
    /// The rate of submissions for one app.
    package var app = Rate(burst: 3000, perMinute: 12_000)
    /// The rate of all submissions.
    package var node = Rate(burst: 3000, perMinute: 12_000)
    /// The rate of all TNP submissions to device tokens that no push service has accepted yet.
    package var unproven = Rate(burst: 300, perMinute: 120)
    /// The rate of submissions through the HTTP endpoint, whose senders cannot provide proof of work. Separate rates
    /// keep a flood at one endpoint from crowding out the senders at the other.
    package var http = Rate(burst: 1000, perMinute: 3000)
    /// The rate of submissions to unproven device tokens through the HTTP endpoint.
    package var httpUnproven = Rate(burst: 300, perMinute: 120)
    /// The rate of violations that one circuit may commit: bad and dead device tokens, malformed submissions and
    /// invalid proofs.
    package var abuse = Rate(burst: 20, perMinute: 2)
    /// How long a circuit that exceeds ``abuse`` is blocked, in seconds.
    package var abuseBlock = 600
    /// Maximum number of known circuits.
    package var circuits = 100_000
    /// Maximum number of connections from one circuit.
    package var connectionsPerCircuit = 16
    /// Maximum number of known device tokens. A change takes effect after a restart.
    package var deviceTokens = 1_000_000
    /// Days without use after which a proven device token counts as unproven.
    package var provenDays = 180
    /// Days after which the node tries a dead device token again.
    package var deadDays = 30
    /// When and how much proof of work is required.
    package var puzzle = EffortControl.Settings()
    /// Whether submissions must be signed.
    package var senders = SenderKeyMode.optional
    /// Days without use after which a device token is no longer bound to its sender key.
    package var senderForgetDays = 180
    /// Days without a delivered unsigned submission after which a signed one binds the device token.
    package var senderQuietDays = 30

    package init() {}

    /// Reads the settings of admission in `[limits]`, and `[puzzle]` and `[senders]`.
    /// - Parameter hasHTTP: whether the node serves the HTTP API, whose senders cannot sign. By default it then ignores
    ///   signatures: a stranger who signs must not bind the phones of these senders.
    package init(_ limits: TableReader, of root: TableReader, hasHTTP: Bool) {
        device = limits.rate("device", default: device, "Submissions to one device token")
        circuit = limits.rate(
            "circuit", default: circuit,
            "Submissions of one circuit, or of one connection if there are no circuit ids")
        app = limits.rate("app", default: app, "Submissions for one app")
        node = limits.rate("node", default: node, "All submissions")
        unproven = limits.rate(
            "unproven", default: unproven,
            "All TNP submissions to device tokens that no push service has accepted yet")
        http = limits.rate("http", default: http, "All submissions through the HTTP API")
        httpUnproven = limits.rate(
            "http_unproven", default: httpUnproven,
            "All submissions through the HTTP API to device tokens that no push service has accepted yet")
        abuse = limits.rate("abuse", default: abuse, "Errors charged to one circuit")
        abuseBlock = limits.integer(
            "abuse_block", in: 1...86_400, default: abuseBlock,
            "Seconds for which a circuit that exceeds the rate `abuse` is blocked")
        circuits = limits.integer(
            "circuits", in: 1000...10_000_000, default: circuits, "Maximum known circuits")
        connectionsPerCircuit = limits.integer(
            "connections_per_circuit", in: 1...10_000, default: connectionsPerCircuit,
            "Maximum connections of one circuit")
        deviceTokens = limits.integer(
            "device_tokens", in: 1000...100_000_000, default: deviceTokens, "Maximum known device tokens")
        provenDays = limits.integer(
            "proven_days", in: 1...3650, default: provenDays,
            "Days without use after which an accepted device token counts as not accepted yet")
        deadDays = limits.integer(
            "dead_days", in: 1...3650, default: deadDays,
            "Days after which the node asks the push service about a dead device token again")

        let proofs = root.table("puzzle", "Proof of work required from TNP senders.")
        let efforts = 1...Int(UInt32.max)
        let mode = proofs.choice(
            "mode", default: puzzle.mode, "`adaptive`: proof of work is required only under load")
        let minimum = proofs.integer(
            "effort", in: efforts, default: Int(puzzle.minimum),
            "Minimum effort, in hashes; a smaller proof is ignored. The default takes a desktop about 7 ms")
        let maximum = proofs.integer(
            "max_effort", in: efforts, default: max(minimum, Int(puzzle.maximum)),
            "Maximum effort, in hashes; at least `effort`. The default takes a desktop about 7 s")
        if minimum > maximum { proofs.note("max_effort", "must not be less than puzzle.effort") }
        puzzle = EffortControl.Settings(mode: mode, minimum: UInt32(minimum), maximum: UInt32(max(minimum, maximum)))

        let table = root.table("senders", "Sender keys, which sign submissions and bind device tokens.")
        senders = table.choice(
            "mode", default: hasHTTP ? .off : senders,
            "`off`: signatures are ignored. `optional`: trust on first use, the first key that reaches a phone is bound to it. `required`: the same, and unsigned submissions are rejected. With `listen.http`, the default is `off`"
        )
        senderForgetDays = table.integer(
            "forget_days", in: 1...3650, default: senderForgetDays,
            "Days without use after which a binding expires")
        senderQuietDays = table.integer(
            "quiet_days", in: 0...3650, default: senderQuietDays,
            "A device token that unsigned submissions reached within this number of days is not bound")
    }

    /// The settings of a node that decides without the engine. The rates that the nodes share are divided by the number
    /// of nodes, so that together they admit no more than the engine would. Each remains at least 1.
    package func share(of nodes: Int) -> AdmissionSettings {
        var share = self
        for rate in [\.device, \.app, \.unproven, \.http, \.httpUnproven] as [WritableKeyPath<Self, Rate>] {
            let whole = self[keyPath: rate]
            share[keyPath: rate] = Rate(burst: whole.burst / nodes, perMinute: whole.perMinute / nodes)
        }
        return share
    }
}

/// The rates that all nodes of a cluster share, in the order in which the engine's functions expect them. The engine also
/// counts each device token's rate.
package enum SharedBudget: CaseIterable, Sendable {
    case app, unproven, http

    /// The name in the engine.
    /// - Parameter senderProtocol: the endpoint that received the submission.
    package func name(through senderProtocol: Admission.SenderProtocol) -> String {
        switch self {
        case .app: "a"
        case .unproven: senderProtocol == .http ? "b:http_unproven" : "b:unproven"
        case .http: "b:http"
        }
    }

    /// Whether each app has one of its own.
    package var isPerApp: Bool { self == .app }

    /// The rate; `nil` if submissions at this endpoint do not take from it.
    package func rate(in settings: AdmissionSettings, through senderProtocol: Admission.SenderProtocol) -> Rate? {
        switch self {
        case .app: settings.app
        case .unproven: senderProtocol == .http ? settings.httpUnproven : settings.unproven
        case .http: senderProtocol == .http ? settings.http : nil
        }
    }
}
