// SPDX-License-Identifier: Apache-2.0

import NodeConfiguration

/// What the operator of an open HTTP endpoint should know: its senders are the desktops of today, which neither sign nor send
/// again.
package enum HTTPEndpointAdvice {
    /// One sentence for each setting that costs such senders something.
    package static func texts(for configuration: Configuration) -> [(key: String, text: String)] {
        guard configuration.listen.http != nil else { return [] }
        var texts: [(key: String, text: String)] = []
        if configuration.spool == nil {
            texts.append(
                (
                    "spool.enabled",
                    "is off: Bisq 1 and Haveno never send again what is answered 429 or 503, so that it is lost. With spool.enabled"
                        + " = true the node stores it, sealed, and tries until it is delivered"
                ))
        }
        if configuration.admission.senders == .optional {
            texts.append(
                (
                    "senders.mode",
                    "is \"optional\": a sender that signs may bind a phone that no unsigned notification has rung for"
                        + " \(configuration.admission.senderQuietDays) days (senders.quiet_days), and desktops that come by"
                        + " listen.http, which cannot sign, then no longer ring it. Set \"off\" while your users have such desktops"
                ))
        }
        return texts
    }
}
