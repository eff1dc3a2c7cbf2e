// SPDX-License-Identifier: Apache-2.0

/// Whether sender keys are asked for (PROTOCOL §3, fields 0x11 and 0x12).
package enum SenderKeyMode: String, CaseIterable, Sendable {
    /// Signatures are not looked at.
    case off
    /// A device token is bound to the key of the first signed notification that reaches its phone.
    case optional
    /// The same, and nothing is taken unsigned.
    case required
}

/// What ``Admission`` goes by; all of it may change while the node runs.
package struct AdmissionSettings: Sendable, Equatable {
    /// Submissions to one device token.
    package var device = Rate(burst: 20, perMinute: 10)
    /// Submissions of one circuit.
    package var circuit = Rate(burst: 100, perMinute: 60)
    /// Submissions for one app.
    package var app = Rate(burst: 3000, perMinute: 12_000)
    /// Submissions in all.
    package var node = Rate(burst: 3000, perMinute: 12_000)
    /// Submissions to device tokens that no push service has accepted yet, in all.
    package var unproven = Rate(burst: 300, perMinute: 120)
    /// Submissions through the HTTP endpoint, whose senders cannot be asked for proof of work; those of them to unproven device
    /// tokens have a rate of their own, too. So neither who floods the one endpoint nor who floods the other keeps out those
    /// who come through the other.
    package var http = Rate(burst: 1000, perMinute: 3000)
    package var httpUnproven = Rate(burst: 300, perMinute: 120)
    /// What one circuit may do wrong: bad and dead device tokens, submissions and proofs that are wrong.
    package var abuse = Rate(burst: 20, perMinute: 2)
    /// Seconds for which a circuit that has done more is not listened to.
    package var abuseBlock = 600
    /// Circuits that are known at a time.
    package var circuits = 100_000
    /// Connections of one circuit.
    package var connectionsPerCircuit = 16
    /// Device tokens that are known at a time. A new number counts from the node's next start.
    package var deviceTokens = 1_000_000
    /// Days without use after which a good device token is forgotten.
    package var provenDays = 180
    /// Days after which a dead device token is asked about anew.
    package var deadDays = 30
    package var puzzle = EffortControl.Settings()
    package var senders = SenderKeyMode.optional
    /// Days without use after which a device token is no longer bound to its sender key.
    package var senderForgetDays = 180
    /// Days without an unsigned submission delivered after which a signed one binds the device token.
    package var senderQuietDays = 30

    /// The defaults.
    package init() {}
}
