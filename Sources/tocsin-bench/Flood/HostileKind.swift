// SPDX-License-Identifier: Apache-2.0

/// What a hostile circuit does.
enum HostileKind: Int, CaseIterable {
    /// A hundred times as fast as an honest sender, each time to another device token of the right form.
    case inventedTokens
    /// To device tokens that are dead or never were, again and again.
    case badTokens
    /// ``MalformedStream``, one kind after the other.
    case garbage
    /// Streams that are opened and then left, by all ways of ``StalledStream``.
    case stalling
    /// An envelope of its own that was delivered, again and again.
    case replaying
    /// To a device token of its own, without ever reading a result.
    case neverReading

    var title: String {
        switch self {
        case .inventedTokens: "(a) invented tokens, 100 × the pace"
        case .badTokens: "(b) only bad tokens"
        case .garbage: "(c) garbage"
        case .stalling: "(d) open and stall"
        case .replaying: "(e) replay"
        case .neverReading: "(f) never read"
        }
    }

    /// Streams that one circuit has open at a time.
    var streams: Int { self == .stalling ? 4 : 1 }
}
