// SPDX-License-Identifier: Apache-2.0

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
    /// Days without use after which a proven device token is forgotten.
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

    /// The default settings.
    package init() {}

    /// The settings of one of this many nodes, which do not know of each other's submissions: the rates that they would
    /// share are divided, so that together they admit no more than one node with these settings.
    package func share(of nodes: Int) -> AdmissionSettings {
        var share = self
        for rate in [\.device, \.app, \.unproven, \.http, \.httpUnproven] as [WritableKeyPath<Self, Rate>] {
            let whole = self[keyPath: rate]
            share[keyPath: rate] = Rate(burst: whole.burst / nodes, perMinute: whole.perMinute / nodes)
        }
        return share
    }
}
