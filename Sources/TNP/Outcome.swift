// SPDX-License-Identifier: Apache-2.0

/// What came of an envelope: the one type that travels back through the node, and what RESULT carries (PROTOCOL §4).
public struct Outcome: Equatable, Sendable {
    /// What the sender is to do.
    public enum Kind: UInt8, Sendable, CaseIterable {
        /// Apple or Google has accepted it.
        case delivered = 0
        /// Stored durably; one more outcome follows.
        case queued = 1
        /// Never to be sent again.
        case rejected = 2
        /// Not taken: to be sent again later.
        case retry = 3
        /// The phone no longer has this device token.
        case gone = 4

        /// For logs and metrics, e.g. "delivered".
        public var name: String {
            switch self {
            case .delivered: "delivered"
            case .queued: "queued"
            case .rejected: "rejected"
            case .retry: "retry"
            case .gone: "gone"
            }
        }
    }

    public var kind: Kind
    public var reason: Reason
    /// Milliseconds after which to send again; 0 where it says nothing.
    public var retryAfter: UInt32
    /// The provider's id of the message.
    public var providerID: String?
    /// One sentence for a person.
    public var text: String?
    /// Since when the device token is gone, Unix time in milliseconds.
    public var goneSince: UInt64?
    /// Submissions left to this device token now.
    public var left: UInt32?
    /// Milliseconds until its allowance is full again.
    public var fullIn: UInt32?
    /// Whether the provider knows no such device token. Reason 303 alone does not say so: it also covers the token of
    /// another app. Not part of RESULT.
    public var isTokenUnknown = false

    /// - Parameters: as the properties of the same names.
    public init(
        _ kind: Kind, reason: Reason = .none, retryAfter: UInt32 = 0, providerID: String? = nil, text: String? = nil,
        goneSince: UInt64? = nil, left: UInt32? = nil, fullIn: UInt32? = nil
    ) {
        self.kind = kind
        self.reason = reason
        self.retryAfter = retryAfter
        self.providerID = providerID
        self.text = text
        self.goneSince = goneSince
        self.left = left
        self.fullIn = fullIn
    }

    /// Accepted by the provider, under its id of the message.
    public static func delivered(id: String? = nil) -> Outcome { Outcome(.delivered, providerID: id) }
    /// Refused for good.
    public static func rejected(_ reason: Reason, text: String? = nil) -> Outcome {
        Outcome(.rejected, reason: reason, text: text)
    }
    /// Not taken; `after` counts in milliseconds.
    public static func retry(_ reason: Reason, after: UInt32, text: String? = nil) -> Outcome {
        Outcome(.retry, reason: reason, retryAfter: after, text: text)
    }
    /// The device token is dead, since this Unix time in milliseconds where it is known.
    public static func gone(since: UInt64?) -> Outcome { Outcome(.gone, reason: .unregistered, goneSince: since) }

    /// Whether nothing more follows for the submission.
    public var isFinal: Bool { kind != .queued }
}

/// RESULT: the outcome of one submission (PROTOCOL §4).
public struct SubmissionResult: Equatable, Sendable {
    /// The number that the sender gave the submission.
    public var request: UInt32
    public var outcome: Outcome

    /// - Parameters: as the properties of the same names.
    public init(request: UInt32, outcome: Outcome) {
        self.request = request
        self.outcome = outcome
    }

    private enum Tag {
        static let providerID: UInt8 = 0x01
        static let text: UInt8 = 0x02
        static let goneSince: UInt8 = 0x03
        static let left: UInt8 = 0x04
        static let fullIn: UInt8 = 0x05
    }

    init(payload: Bytes) throws(ProtocolError) {
        var reader = ByteReader(payload, of: "RESULT")
        request = try reader.number()
        guard let kind = Outcome.Kind(rawValue: try reader.number()) else {
            throw .malformed("RESULT has an unknown outcome")
        }
        let reason = Reason(rawValue: try reader.number())
        outcome = Outcome(kind, reason: reason, retryAfter: try reader.number())
        var fields = FieldReader(reader)
        while let (tag, value) = try fields.next() {
            switch tag {
            case Tag.providerID: outcome.providerID = String(decoding: value, as: UTF8.self)
            case Tag.text: outcome.text = String(decoding: value, as: UTF8.self)
            case Tag.goneSince: outcome.goneSince = try Self.number(value)
            case Tag.left: outcome.left = try Self.number(value)
            case Tag.fullIn: outcome.fullIn = try Self.number(value)
            default: break
            }
        }
    }

    private static func number<Number: FixedWidthInteger>(_ value: Bytes) throws(ProtocolError) -> Number {
        guard let number: Number = value.number() else { throw .malformed("RESULT has a number of the wrong width") }
        return number
    }

    /// Bytes of ``Outcome/providerID`` and ``Outcome/text`` that RESULT carries at most, so that it fits into the smallest
    /// `max_frame`. A longer id is left out, a longer text is cut.
    public static let (longestProviderID, longestText) = (256, 512)

    func encode(into output: inout [UInt8]) {
        output.appendFrame(.result) {
            $0.append(bigEndian: request)
            $0.append(outcome.kind.rawValue)
            $0.append(bigEndian: outcome.reason.rawValue)
            $0.append(bigEndian: outcome.retryAfter)
            if let providerID = outcome.providerID, providerID.utf8.count <= Self.longestProviderID {
                $0.appendField(Tag.providerID, providerID.utf8)
            }
            if let text = outcome.text { $0.appendField(Tag.text, text.utf8Prefix(Self.longestText)) }
            if let goneSince = outcome.goneSince { $0.appendField(Tag.goneSince, number: goneSince) }
            if let left = outcome.left { $0.appendField(Tag.left, number: left) }
            if let fullIn = outcome.fullIn { $0.appendField(Tag.fullIn, number: fullIn) }
        }
    }
}

extension String {
    /// As many of the first characters as have at most `limit` bytes of UTF-8.
    func utf8Prefix(_ limit: Int) -> Substring.UTF8View {
        guard utf8.count > limit else { return self[...].utf8 }
        var end = utf8.index(startIndex, offsetBy: limit)
        while end.samePosition(in: unicodeScalars) == nil { end = utf8.index(before: end) }
        return self[..<end].utf8
    }
}
