// SPDX-License-Identifier: Apache-2.0

/// The kinds of hostile circuits.
enum HostileKind: Int, CaseIterable {
    /// Submits at a hundred times the pace of an honest sender, each time to another well-formed device token that was
    /// never issued.
    case inventedTokens
    /// Submits repeatedly to device tokens that are unregistered or never existed.
    case badTokens
    /// Sends each kind of ``MalformedStream`` in turn.
    case garbage
    /// Opens streams and stalls, in all ways of ``StalledStream``.
    case stalling
    /// Replays one envelope that was delivered before.
    case replaying
    /// Submits to a phone of its own and never reads a result.
    case neverReading
    /// Submits to a phone of its own, just below the rate limit of a circuit, but above that of a phone.
    case ownPhones
    /// Sends requests for invented device tokens to the HTTP endpoint.
    case http
    /// Submits to invented device tokens as fast as it computes the required proofs of work. Takes a new circuit after
    /// 20 submissions, or after RETRY or an error.
    case working

    /// The title in the report.
    var title: String {
        switch self {
        case .inventedTokens: "(a) invented tokens, 100 × normal pace"
        case .badTokens: "(b) only bad tokens"
        case .garbage: "(c) garbage"
        case .stalling: "(d) open and stall"
        case .replaying: "(e) replay"
        case .neverReading: "(f) never read"
        case .ownPhones: "(g) own phones, below the limits"
        case .http: "(h) invented tokens over HTTP"
        case .working: "(i) invented tokens, with proofs"
        }
    }

    /// The most phones that the circuits of a kind have together; beyond that, circuits share phones. The node admits
    /// few new phones at a time (`limits.unproven_burst`).
    static let maximumPhones = 60

    /// The number of concurrent streams of one circuit.
    var streams: Int { self == .stalling ? 4 : 1 }
}
