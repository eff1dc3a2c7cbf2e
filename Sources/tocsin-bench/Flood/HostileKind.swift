// SPDX-License-Identifier: Apache-2.0

/// The kinds of hostile circuits.
enum HostileKind: Int, CaseIterable {
    /// Submits at a hundred times the pace of an honest sender, each time to another well-formed device token.
    case inventedTokens
    /// Submits repeatedly to device tokens that are unregistered or never existed.
    case badTokens
    /// Sends each kind of ``MalformedStream`` in turn.
    case garbage
    /// Opens streams and stalls, in all ways of ``StalledStream``.
    case stalling
    /// Replays one of its delivered envelopes.
    case replaying
    /// Submits to its own device token and never reads a result.
    case neverReading

    /// The title in the report.
    var title: String {
        switch self {
        case .inventedTokens: "(a) invented tokens, 100 × normal pace"
        case .badTokens: "(b) only bad tokens"
        case .garbage: "(c) garbage"
        case .stalling: "(d) open and stall"
        case .replaying: "(e) replay"
        case .neverReading: "(f) never read"
        }
    }

    /// The number of concurrent streams of one circuit.
    var streams: Int { self == .stalling ? 4 : 1 }
}
