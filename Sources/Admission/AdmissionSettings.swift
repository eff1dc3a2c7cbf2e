// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// Whether sender keys are asked for (PROTOCOL §3, fields 0x11 and 0x12).
public enum SenderKeyMode: String, CaseIterable, Sendable {
    /// Signatures are not looked at.
    case off
    /// A device token is bound to the key of the first signed notification that reaches its phone.
    case optional
    /// The same, and nothing is taken unsigned.
    case required
}

/// What ``Admission`` goes by; all of it may change while the node runs.
public struct AdmissionSettings: Sendable, Equatable {
    /// Submissions to one device token.
    public var device = Rate(burst: 20, perMinute: 10)
    /// Submissions of one circuit.
    public var circuit = Rate(burst: 100, perMinute: 60)
    /// Submissions for one app.
    public var app = Rate(burst: 3000, perMinute: 12_000)
    /// Submissions in all.
    public var node = Rate(burst: 3000, perMinute: 12_000)
    /// Submissions to device tokens that no push service has accepted yet, in all.
    public var unproven = Rate(burst: 300, perMinute: 120)
    /// Submissions through the HTTP endpoint, whose senders cannot be asked for proof of work; those of them to unproven device
    /// tokens have a rate of their own, too. So neither who floods the one endpoint nor who floods the other keeps out those
    /// who come through the other.
    public var http = Rate(burst: 1000, perMinute: 3000)
    public var httpUnproven = Rate(burst: 300, perMinute: 120)
    /// What one circuit may do wrong: bad and dead device tokens, submissions and proofs that are wrong.
    public var abuse = Rate(burst: 20, perMinute: 2)
    /// Seconds for which a circuit that has done more is not listened to.
    public var abuseBlock = 600
    /// Circuits that are known at a time.
    public var circuits = 100_000
    /// Connections of one circuit.
    public var connectionsPerCircuit = 16
    /// Device tokens that are known at a time. A new number counts from the node's next start.
    public var deviceTokens = 1_000_000
    /// Days without use after which a good device token is forgotten.
    public var provenDays = 180
    /// Days after which a dead device token is asked about anew.
    public var deadDays = 30
    public var puzzle = EffortControl.Settings()
    public var senders = SenderKeyMode.optional
    /// Days without use after which a device token is no longer bound to its sender key.
    public var senderForgetDays = 180
    /// Days without an unsigned submission delivered after which a signed one binds the device token.
    public var senderQuietDays = 30

    /// The defaults.
    public init() {}
}

/// Both clocks at one moment.
public struct ClockReading: Sendable {
    public let monotonic: MonotonicTime
    /// Unix time in seconds.
    public let unix: Int64

    /// - Parameters: as the properties of the same names.
    public init(monotonic: MonotonicTime, unix: Int64) {
        self.monotonic = monotonic
        self.unix = unix
    }

    /// Days since 1970-01-01.
    var day: UInt16 { UInt16(clamping: unix / 86_400) }
    /// Unix time in milliseconds.
    var milliseconds: UInt64 { UInt64(max(0, unix)) * 1000 }
}
