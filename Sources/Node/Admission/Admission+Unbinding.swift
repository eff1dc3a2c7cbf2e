// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

extension Admission {
    /// The hashes that may identify a device token in an operator's request, which does not name the platform: the hash
    /// as an Apple token, then that as a Google token or a push endpoint.
    package static func hashes(of deviceToken: [UInt8], app: String, under hash: KeyedHash) -> [UInt64] {
        [Magic.iOS, .android].map { name(of: DeviceIdentity(deviceToken[...], of: $0), app: app, under: hash) }
    }

    /// The keyed hash of a phone's device token.
    package func name(of phone: HandleRequest.Registration, app: String) -> UInt64 {
        Self.name(of: phone.phone, app: app, under: hash)
    }

    /// Unbinds a phone from the owner of its handle, who has ended the handle.
    /// - Returns: the keyed hashes of the device token and of the owner's key.
    package mutating func unbind(
        _ phone: HandleRequest.Registration, app: String, from owner: [UInt8]
    ) -> (token: UInt64, sender: UInt64) {
        let token = name(of: phone, app: app)
        let sender = sender(owner[...], of: token)
        if tokens[token]?.sender == sender { change(token) { $0.unbind() } }
        return (token, sender)
    }

    /// Unbinds these device tokens from their sender keys. The next signed submission that is delivered to one binds it
    /// again.
    /// - Parameter names: the results of ``hashes(of:app:under:)``.
    /// - Returns: how many device tokens were bound.
    package mutating func unbind(_ names: [UInt64]) -> Int {
        names.count { name in
            guard name != 0, let record = tokens[name], record.binding != 0 else { return false }
            change(name) { $0.unbind() }
            return record.sender != 0
        }
    }
}
