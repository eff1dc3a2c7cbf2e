// SPDX-License-Identifier: Apache-2.0

import Admission
import NodeConfiguration

/// Advice for operators that enable the HTTP API. Its senders (today's desktops) neither sign nor retry.
package enum HTTPEndpointAdvice {
    /// A piece of advice for each setting that makes such senders lose notifications.
    package static func texts(for configuration: Configuration) -> [(key: String, text: String)] {
        guard configuration.listen.http != nil else { return [] }
        var texts: [(key: String, text: String)] = []
        if configuration.spool == nil {
            texts.append(
                (
                    "spool.enabled",
                    "is off: Bisq 1 and Haveno do not retry after 429 or 503, so these notifications are lost. With"
                        + " spool.enabled = true the node stores them, encrypted, and retries until they are delivered"
                ))
        }
        if configuration.admission.senders == .optional {
            texts.append(
                (
                    "senders.mode",
                    "is \"optional\": a sender that signs can bind a phone that no unsigned notification has reached for"
                        + " \(configuration.admission.senderQuietDays) days (senders.quiet_days). Desktops that use"
                        + " listen.http cannot sign, so they could then no longer ring that phone. Set \"off\" while your users"
                        + " have such desktops"
                ))
        }
        return texts
    }
}
