// SPDX-License-Identifier: Apache-2.0

/// The outcome of an envelope: the type that travels back through the node to the sender, and the content of RESULT
/// (PROTOCOL §4).
public struct Outcome: Equatable, Sendable {
    /// The kind of outcome, which determines what the sender does next.
    public enum Kind: UInt8, Sendable, CaseIterable {
        /// The push service has accepted the notification.
        case delivered = 0
        /// The node has stored the envelope durably; one more outcome follows.
        case queued = 1
        /// The node or the provider rejects the envelope permanently; the sender must never send it again.
        case rejected = 2
        /// The envelope was not accepted; the sender sends it again later.
        case retry = 3
        /// The phone no longer has this device token, or the node does not know the handle. For what the sender does,
        /// see ``Outcome/endsPairing(byHandle:)``.
        case gone = 4

        /// The name in logs and metrics, e.g. "delivered".
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

    /// The kind of outcome.
    public var kind: Kind
    /// The reason for the outcome.
    public var reason: Reason
    /// Milliseconds that the sender waits before it sends again; 0 if unspecified.
    public var retryAfter: UInt32
    /// The provider's id of the message.
    package var messageID: MessageID? {
        get { uuid.map { MessageID($0) } ?? rare?.content.id }
        set {
            uuid = newValue?.uuid
            let other = uuid == nil ? newValue : nil
            if rare != nil || other != nil { setRare { $0.id = other } }
        }
    }
    /// The provider's id of the message, as text.
    public var providerID: String? {
        get { messageID?.text }
        set { messageID = newValue.map { MessageID($0) } }
    }
    /// One sentence for a person.
    public var text: String? {
        get { rare?.content.text }
        set { setRare { $0.text = newValue } }
    }
    /// One sentence for a person: ``text``, or a standard sentence if there is none.
    public var sentence: String {
        switch (kind, reason) {
        case _ where text != nil: text ?? ""
        case (.delivered, .none): "the push service has accepted it"
        case (.queued, .none): "the node keeps it until it is delivered"
        default: reason.description
        }
    }
    /// The Unix time in milliseconds since which the device token has been gone.
    public var goneSince: UInt64? {
        get { rare?.content.goneSince }
        set { setRare { $0.goneSince = newValue } }
    }
    /// The number of submissions that this device token has left now.
    public var left: UInt32?
    /// Milliseconds until this device token has its full allowance again.
    public var fullIn: UInt32?
    /// Whether the provider does not know the device token. Reason 303 alone does not imply this, because it also covers
    /// the token of another app. RESULT does not carry this flag.
    public var isTokenUnknown = false

    /// ``messageID`` if it is a UUID, as Apple's ids are.
    private var uuid: MessageID.UUID?
    /// The fields that few outcomes have; `nil` if this one has none of them. They are in one object, so that a copy of
    /// the usual outcome counts no reference.
    private var rare: Rare?

    private final class Rare: Sendable, Equatable {
        struct Content: Equatable {
            /// ``messageID`` if it is not a UUID.
            var id: MessageID?
            var text: String?
            var goneSince: UInt64?
        }

        let content: Content

        init(_ content: Content) { self.content = content }

        static func == (one: Rare, other: Rare) -> Bool { one.content == other.content }
    }

    private mutating func setRare(_ change: (inout Rare.Content) -> Void) {
        var content = rare?.content ?? Rare.Content()
        change(&content)
        rare = content == Rare.Content() ? nil : Rare(content)
    }

    /// Creates an outcome.
    public init(
        _ kind: Kind, reason: Reason = .none, retryAfter: UInt32 = 0, providerID: String? = nil, text: String? = nil,
        goneSince: UInt64? = nil, left: UInt32? = nil, fullIn: UInt32? = nil
    ) {
        self.kind = kind
        self.reason = reason
        self.retryAfter = retryAfter
        self.left = left
        self.fullIn = fullIn
        messageID = providerID.map { MessageID($0) }
        if text != nil || goneSince != nil { setRare { ($0.text, $0.goneSince) = (text, goneSince) } }
    }

    /// Returns DELIVERED with the provider's id of the message.
    public static func delivered(id: String? = nil) -> Outcome { Outcome(.delivered, providerID: id) }
    /// Returns REJECTED with a reason.
    public static func rejected(_ reason: Reason, text: String? = nil) -> Outcome {
        Outcome(.rejected, reason: reason, text: text)
    }
    /// Returns RETRY with a reason; `after` is in milliseconds.
    public static func retry(_ reason: Reason, after: UInt32, text: String? = nil) -> Outcome {
        Outcome(.retry, reason: reason, retryAfter: after, text: text)
    }
    /// Returns GONE with reason 304; `since` is a Unix time in milliseconds, or `nil` if unknown.
    public static func gone(since: UInt64?) -> Outcome { Outcome(.gone, reason: .unregistered, goneSince: since) }

    /// Whether the sender should forget the pairing. A pairing by handle survives the device token: the phone's owner can
    /// put another one behind the handle.
    /// - Parameter byHandle: whether the sender has used a handle.
    public func endsPairing(byHandle: Bool) -> Bool { kind == .gone && (!byHandle || reason == .unknownHandle) }

    /// Whether the outcome says more than its kind, its reason and the provider's id.
    package var hasDetails: Bool {
        retryAfter != 0 || text != nil || goneSince != nil || left != nil || fullIn != nil || isTokenUnknown
    }

    /// Whether no further outcome follows for the submission.
    public var isFinal: Bool { kind != .queued }
}

/// RESULT: the outcome of one submission (PROTOCOL §4).
public struct SubmissionResult: Equatable, Sendable {
    /// The number that the sender gave the submission.
    public var request: UInt32
    /// The outcome of the submission.
    public var outcome: Outcome

    /// Creates a RESULT.
    public init(request: UInt32, outcome: Outcome) {
        self.request = request
        self.outcome = outcome
    }

    /// The tags of the fields: 0x01 to 0x05, in this order.
    private enum Tag: UInt8 {
        case providerID = 0x01
        case text, goneSince, left, fullIn
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
            switch Tag(rawValue: tag) {
            case .providerID: outcome.providerID = String(decoding: value, as: UTF8.self)
            case .text: outcome.text = String(decoding: value, as: UTF8.self)
            case .goneSince: outcome.goneSince = try Self.number(value)
            case .left: outcome.left = try Self.number(value)
            case .fullIn: outcome.fullIn = try Self.number(value)
            case nil: break
            }
        }
    }

    private static func number<Number: FixedWidthInteger>(_ value: Bytes) throws(ProtocolError) -> Number {
        guard let number: Number = value.number() else { throw .malformed("RESULT has a number of the wrong width") }
        return number
    }

    /// The largest lengths of ``Outcome/providerID`` and ``Outcome/text`` in RESULT, in bytes (PROTOCOL §4). RESULT
    /// omits a longer id and truncates a longer text.
    public static let (maximumProviderIDLength, maximumTextLength) = (MessageID.maximumLength, 512)

    func encode(into output: inout [UInt8]) {
        output.appendFrame(.result) {
            $0.append(bigEndian: request)
            $0.append(outcome.kind.rawValue)
            $0.append(bigEndian: outcome.reason.rawValue)
            $0.append(bigEndian: outcome.retryAfter)
            if let id = outcome.messageID, id.count <= Self.maximumProviderIDLength {
                $0.append(Tag.providerID.rawValue)
                $0.append(bigEndian: UInt16(id.count))
                id.append(to: &$0)
            }
            if let text = outcome.text { $0.appendField(Tag.text, text.utf8Prefix(Self.maximumTextLength)) }
            if let goneSince = outcome.goneSince { $0.appendField(Tag.goneSince, number: goneSince) }
            if let left = outcome.left { $0.appendField(Tag.left, number: left) }
            if let fullIn = outcome.fullIn { $0.appendField(Tag.fullIn, number: fullIn) }
        }
    }
}

extension String {
    /// Returns the longest prefix of whole code points that has at most `limit` bytes of UTF-8.
    package func utf8Prefix(_ limit: Int) -> Substring.UTF8View {
        guard utf8.count > limit else { return self[...].utf8 }
        var end = utf8.index(startIndex, offsetBy: limit)
        while end.samePosition(in: unicodeScalars) == nil { end = utf8.index(before: end) }
        return self[..<end].utf8
    }
}
