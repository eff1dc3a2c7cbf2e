// SPDX-License-Identifier: Apache-2.0

/// Why an outcome is what it is (PROTOCOL §4). Numbers that this version does not know are kept as they came and are
/// read by their hundred.
public struct Reason: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    public let rawValue: UInt16
    public init(rawValue: UInt16) { self.rawValue = rawValue }

    public static let none = Reason(rawValue: 0)

    // 1xx: the submission is wrong.
    public static let malformed = Reason(rawValue: 100)
    public static let unknownMagic = Reason(rawValue: 101)
    public static let deviceTokenFormat = Reason(rawValue: 102)
    public static let iv = Reason(rawValue: 103)
    public static let ciphertextLength = Reason(rawValue: 104)
    public static let tooLarge = Reason(rawValue: 105)
    public static let unsupportedField = Reason(rawValue: 106)
    public static let unknownApp = Reason(rawValue: 107)
    public static let optionOutOfRange = Reason(rawValue: 108)

    // 2xx: admission.
    public static let deviceTokenOverRate = Reason(rawValue: 200)
    public static let connectionOverRate = Reason(rawValue: 201)
    public static let nodeBusy = Reason(rawValue: 202)
    public static let proofNeeded = Reason(rawValue: 203)
    public static let proofWrong = Reason(rawValue: 204)
    public static let senderKeyNeeded = Reason(rawValue: 205)
    public static let notThisSenderKey = Reason(rawValue: 206)
    public static let ivReused = Reason(rawValue: 208)
    public static let tooManyUnproven = Reason(rawValue: 209)
    public static let tooManyInFlight = Reason(rawValue: 210)

    // 3xx: the provider.
    public static let platformNotConfigured = Reason(rawValue: 300)
    public static let providerUnreachable = Reason(rawValue: 301)
    public static let providerThrottles = Reason(rawValue: 302)
    public static let badDeviceToken = Reason(rawValue: 303)
    public static let unregistered = Reason(rawValue: 304)
    public static let credentialsRefused = Reason(rawValue: 305)
    public static let payloadRefused = Reason(rawValue: 306)
    public static let ttlRanOut = Reason(rawValue: 307)

    // 4xx: the node.
    public static let shuttingDown = Reason(rawValue: 400)
    public static let internalError = Reason(rawValue: 401)

    /// Every reason that this version knows, with its name for machines and its words for a person.
    public static let known: [(reason: Reason, name: String, text: String)] = [
        (.none, "none", "nothing to say"),
        (.malformed, "malformed", "the submission is malformed"),
        (.unknownMagic, "unknown_magic", "the magic is none of iOS, iOSDev and android"),
        (.deviceTokenFormat, "device_token_format", "the device token does not have the form of one"),
        (.iv, "iv", "the iv does not have the form that the app needs"),
        (.ciphertextLength, "ciphertext_length", "the ciphertext's length is not one that the app's phones open"),
        (.tooLarge, "too_large", "the notification would be larger than the provider takes"),
        (.unsupportedField, "unsupported_field", "the submission has a field that this node does not know"),
        (.unknownApp, "unknown_app", "this node serves no app of that name"),
        (.optionOutOfRange, "option_out_of_range", "an option is out of its range"),
        (.deviceTokenOverRate, "device_token_over_rate", "too many notifications to this device"),
        (.connectionOverRate, "connection_over_rate", "too many submissions on this connection or circuit"),
        (.nodeBusy, "node_busy", "the node is busy"),
        (.proofNeeded, "proof_needed", "a proof of work is needed"),
        (.proofWrong, "proof_wrong", "the proof of work is wrong, too small or for an old seed"),
        (.senderKeyNeeded, "sender_key_needed", "this phone is rung by signed submissions only"),
        (.notThisSenderKey, "not_this_sender_key", "another sender key rings this phone"),
        (.ivReused, "iv_reused", "the iv was used before with another ciphertext"),
        (.tooManyUnproven, "too_many_unproven", "too many submissions to devices that this node has never reached"),
        (.tooManyInFlight, "too_many_in_flight", "too many submissions in flight on this connection"),
        (.platformNotConfigured, "platform_not_configured", "this node does not serve this platform for this app"),
        (.providerUnreachable, "provider_unreachable", "the push service cannot be reached"),
        (.providerThrottles, "provider_throttles", "the push service asks to slow down"),
        (.badDeviceToken, "bad_device_token", "the push service does not know this device token"),
        (.unregistered, "unregistered", "the app is no longer installed on this device"),
        (.credentialsRefused, "credentials_refused", "the push service refuses the node's credentials or topic"),
        (.payloadRefused, "payload_refused", "the push service refuses the notification"),
        (.ttlRanOut, "ttl_ran_out", "its time ran out before it could be delivered"),
        (.shuttingDown, "shutting_down", "the node is shutting down"),
        (.internalError, "internal_error", "the node has an internal error"),
    ]

    /// For metrics, e.g. "device_token_over_rate".
    public var name: String { Reason.known.first { $0.reason == self }?.name ?? "reason_\(rawValue)" }

    public var description: String {
        Reason.known.first { $0.reason == self }?.text ?? "reason \(rawValue)"
    }
}
