// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Settings

extension WebPushDelivery {
    /// Checks the node's VAPID key, and shows its public key, which browsers need to subscribe.
    package func findings(
        for app: AppIdentity, after earlier: [(app: AppIdentity, delivery: any AppDelivery)], _ machine: CheckedMachine
    ) -> [Finding] {
        let file = keyFile(in: machine.state)
        do throws(PrivateFileError) {
            guard let key = try VAPIDKey.read(file, subject: contact) else {
                return [Finding(.credentials, file, .ok, "the key for Web Push, which the node makes when it starts")]
            }
            return [Finding(.credentials, file, .ok, "key for Web Push (VAPID); public: \(key.publicKey)")]
                + machine.ownerFindings(file)
        } catch {
            return [Finding(.credentials, file, .failed, "\(error)")]
        }
    }
}
