// SPDX-License-Identifier: Apache-2.0

/// How one push server deviates from the RFCs. Google's, Mozilla's and Apple's push servers, ntfy and NextPush need no
/// rules: ``WebPushAnswers/table`` is enough for them.
struct PushServerRules: Sendable {
    /// The end of the servers' names.
    let suffix: String
    /// Header fields for a notification that is to be delivered now or never.
    let fieldsForNow: [(name: StaticString, value: String)]
    /// Answers that mean something else than elsewhere.
    let answers: [WebPushAnswers.Row]

    /// All servers with rules of their own.
    static let table = [
        // Microsoft, "Push notification service request and response headers": notifications are cached unless the header
        // forbids it, which contradicts a TTL of 0; 406 says that the sender is over its rate.
        PushServerRules(
            suffix: ".notify.windows.com", fieldsForNow: [("x-wns-cache-policy", "no-cache")],
            answers: [WebPushAnswers.Row(statuses: 406...406, answer: "over-rate", disposition: .quotaExceeded)])
    ]

    /// The rules of a server; `nil` if it has none.
    static func of(_ host: String) -> PushServerRules? { table.first { host.hasSuffix($0.suffix) } }
}
