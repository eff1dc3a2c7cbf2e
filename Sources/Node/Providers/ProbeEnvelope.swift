// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// Envelopes for probes. Their device tokens are invalid, so they ring no phone.
package enum ProbeEnvelope {
    /// Creates an envelope.
    /// - Parameters:
    ///   - magic: the platform and environment to probe.
    ///   - format: the format of the app.
    /// - Returns: `nil` if the platform has no service that can be probed.
    package static func make(_ magic: Magic, format: EnvelopeFormat) throws(Rejection) -> Envelope? {
        guard let deviceToken = magic.service.probeToken?() else { return nil }
        let random = SecureRandom.bytes(64)
        // Random, so that no two probes are the same.
        let (iv, ciphertext) =
            switch format {
            case .pipe: (Base64.encode(Array(random.prefix(12))), Array(random.dropFirst(16).prefix(32)))
            case .sealed: (Array(random.prefix(12)), Array(random.dropFirst(12).prefix(33)))
            }
        return try Envelope(
            magic: magic, deviceToken: deviceToken[...], iv: iv[...], ciphertext: ciphertext[...], ttl: 0,
            sound: false, format: format)
    }
}
