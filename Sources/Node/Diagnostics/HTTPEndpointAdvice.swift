// SPDX-License-Identifier: Apache-2.0

import Admission
import NodeConfiguration

/// Advice for operators that enable the HTTP API. Senders cannot sign there, and some do not retry.
package enum HTTPEndpointAdvice {
    /// A piece of advice for each setting that makes these senders lose notifications.
    package static func texts(for configuration: Configuration) -> [(key: String, text: String)] {
        guard configuration.listen.servesHTTP else { return [] }
        var texts: [(key: String, text: String)] = []
        func add(_ key: String, _ text: String) { texts.append((key, text)) }
        if configuration.spool == nil {
            add(
                "spool.enabled",
                "is off: Bisq 1 and Haveno do not retry after 503, so these notifications are lost. With"
                    + " spool.enabled = true the node stores them, encrypted, and retries until they are delivered. What"
                    + " a rate limit refuses (429) is lost either way")
        }
        switch configuration.admission.senders {
        case .off: break
        case .optional:
            add(
                "senders.mode",
                "is \"optional\": a sender that signs can bind a phone that no unsigned notification has reached for"
                    + " \(configuration.admission.senderQuietDays) days (senders.quiet_days). Desktops that use"
                    + " listen.http cannot sign, so they could then no longer ring that phone. Set \"off\" while your users"
                    + " have such desktops")
        case .required:
            add(
                "senders.mode",
                "is \"required\", but senders that use the HTTP API cannot sign, so it accepts nothing: remove"
                    + " listen.http, or set \"optional\"")
        }
        return texts
    }
}
