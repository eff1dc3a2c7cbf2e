// SPDX-License-Identifier: Apache-2.0

/// The reason for an outcome (PROTOCOL §4). A reason that this version does not know keeps its number; the
/// hundreds digit gives its class.
public struct Reason: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The reason's number on the wire.
    public let rawValue: UInt16
    /// Creates the reason with this number.
    public init(rawValue: UInt16) { self.rawValue = rawValue }

    /// 0: no reason given.
    public static let none = Reason(rawValue: 0)

    // MARK: Submission (1xx)

    /// 100: the submission is malformed.
    public static let malformed = Reason(rawValue: 100)
    /// 101: the magic is unknown.
    public static let unknownMagic = Reason(rawValue: 101)
    /// 102: the device token has the wrong form.
    public static let deviceTokenFormat = Reason(rawValue: 102)
    /// 103: the iv has the wrong form for the app.
    public static let iv = Reason(rawValue: 103)
    /// 104: the ciphertext has the wrong length for the app.
    public static let ciphertextLength = Reason(rawValue: 104)
    /// 105: the notification exceeds the size that the provider accepts.
    public static let tooLarge = Reason(rawValue: 105)
    /// 106: the node does not support a field of the submission.
    public static let unsupportedField = Reason(rawValue: 106)
    /// 107: the node does not serve the app.
    public static let unknownApp = Reason(rawValue: 107)
    /// 108: an option is out of range.
    public static let optionOutOfRange = Reason(rawValue: 108)

    // MARK: Admission (2xx)

    /// 200: the device token is over its rate limit.
    public static let deviceTokenOverRate = Reason(rawValue: 200)
    /// 201: the connection or circuit is over its rate limit.
    public static let connectionOverRate = Reason(rawValue: 201)
    /// 202: the node is busy.
    public static let nodeBusy = Reason(rawValue: 202)
    /// 203: proof of work is required.
    public static let proofRequired = Reason(rawValue: 203)
    /// 204: the proof of work is invalid, too small or for an old seed.
    public static let proofWrong = Reason(rawValue: 204)
    /// 205: a signature under a sender key is required.
    public static let senderKeyRequired = Reason(rawValue: 205)
    /// 206: the sender key is not the one that is bound to the device token, or the signature is invalid.
    public static let senderKeyMismatch = Reason(rawValue: 206)
    /// 208: the iv was used before with another ciphertext.
    public static let ivReused = Reason(rawValue: 208)
    /// 209: there are too many submissions to device tokens that no push service has accepted yet.
    public static let tooManyUnproven = Reason(rawValue: 209)
    /// 210: the connection has too many submissions in flight.
    public static let tooManyInFlight = Reason(rawValue: 210)

    // MARK: Provider (3xx)

    /// 300: the node does not serve this platform for this app.
    public static let platformNotConfigured = Reason(rawValue: 300)
    /// 301: the provider is unreachable.
    public static let providerUnreachable = Reason(rawValue: 301)
    /// 302: the provider throttles the node.
    public static let providerThrottles = Reason(rawValue: 302)
    /// 303: the provider rejects the device token.
    public static let badDeviceToken = Reason(rawValue: 303)
    /// 304: the device token is no longer registered.
    public static let unregistered = Reason(rawValue: 304)
    /// 305: the provider rejects the node's credentials or topic.
    public static let credentialsRefused = Reason(rawValue: 305)
    /// 306: the provider rejects the payload.
    public static let payloadRefused = Reason(rawValue: 306)
    /// 307: the ttl ran out before delivery.
    public static let ttlRanOut = Reason(rawValue: 307)
    /// 310: the node does not know the handle, or has forgotten it.
    public static let unknownHandle = Reason(rawValue: 310)
    /// 311: the request is not the handle owner's, or has an old sequence.
    public static let notTheOwner = Reason(rawValue: 311)
    /// 312: the sender is not one of the node's sites, or is not allowed to do this.
    public static let notASite = Reason(rawValue: 312)
    /// 313: the envelope has passed too many nodes, or returned to one of them.
    public static let tooManyHops = Reason(rawValue: 313)

    // MARK: Node (4xx)

    /// 400: the node is shutting down.
    public static let shuttingDown = Reason(rawValue: 400)
    /// 401: the node has an internal error.
    public static let internalError = Reason(rawValue: 401)

    /// All reasons that this version knows, each with its name in metrics and its text for a person.
    public static let known: [(reason: Reason, name: String, text: String)] = [
        (.none, "none", "no reason given"),
        (.malformed, "malformed", "the submission is malformed"),
        (.unknownMagic, "unknown_magic", "the magic is not iOS, iOSDev, android or web"),
        (.deviceTokenFormat, "device_token_format", "the device token is malformed"),
        (.iv, "iv", "the iv does not have the form that the app requires"),
        (.ciphertextLength, "ciphertext_length", "the ciphertext does not have a length that the app accepts"),
        (.tooLarge, "too_large", "the notification exceeds the size that the push service accepts"),
        (.unsupportedField, "unsupported_field", "the submission has a field that this node does not support"),
        (.unknownApp, "unknown_app", "this node does not serve an app of that name"),
        (.optionOutOfRange, "option_out_of_range", "an option is out of range"),
        (.deviceTokenOverRate, "device_token_over_rate", "too many notifications to this device"),
        (.connectionOverRate, "connection_over_rate", "too many submissions on this connection or circuit"),
        (.nodeBusy, "node_busy", "the node is busy"),
        (.proofRequired, "proof_needed", "proof of work is required"),
        (.proofWrong, "proof_wrong", "the proof of work is invalid, too small or for an old seed"),
        (.senderKeyRequired, "sender_key_needed", "this device accepts signed submissions only"),
        (.senderKeyMismatch, "not_this_sender_key", "invalid signature, or the device is bound to another sender key"),
        (.ivReused, "iv_reused", "the iv was used before with another ciphertext"),
        (
            .tooManyUnproven, "too_many_unproven",
            "too many submissions to device tokens that no push service has accepted yet"
        ),
        (.tooManyInFlight, "too_many_in_flight", "too many submissions in flight on this connection"),
        (.platformNotConfigured, "platform_not_configured", "this node does not serve this platform for this app"),
        (.providerUnreachable, "provider_unreachable", "the push service is unreachable"),
        (.providerThrottles, "provider_throttles", "the push service is throttling the node"),
        (.badDeviceToken, "bad_device_token", "the push service rejects this device token"),
        (.unregistered, "unregistered", "the app is no longer installed on this device"),
        (.credentialsRefused, "credentials_refused", "the push service rejects the node's credentials or topic"),
        (.payloadRefused, "payload_refused", "the push service rejects the notification"),
        (.ttlRanOut, "ttl_ran_out", "the ttl ran out before delivery"),
        (.unknownHandle, "unknown_handle", "this node does not know this handle, or has forgotten it"),
        (.notTheOwner, "not_the_owner", "the request is not from the handle's owner, or a later one was accepted"),
        (.notASite, "not_a_site", "the sender is not a site that this node knows, or has not the right to do this"),
        (.tooManyHops, "too_many_hops", "the envelope has passed too many nodes, or has come back to one of them"),
        (.shuttingDown, "shutting_down", "the node is shutting down"),
        (.internalError, "internal_error", "the node has an internal error"),
    ]

    /// The name in metrics, e.g. "device_token_over_rate".
    public var name: String { Reason.known.first { $0.reason == self }?.name ?? "reason_\(rawValue)" }

    public var description: String {
        Reason.known.first { $0.reason == self }?.text ?? "reason \(rawValue)"
    }
}
