// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// An address that the node cannot listen on, with its configuration key.
package struct PortError: Error, Sendable, CustomStringConvertible {
    /// The configuration key, e.g. `listen.tnp`.
    package let key: String
    /// The address, and why it cannot be used.
    package let failure: ListenError

    package var description: String {
        let advice =
            failure.isInUse
            ? "; another process listens there (ss -ltnp shows which): stop it, or choose another address" : ""
        return "\(key): \(failure)\(advice)"
    }

    /// Runs `body` and adds the key to the error that it throws.
    static func naming<Result>(_ key: String, _ body: () throws(ListenError) -> Result) throws(PortError) -> Result {
        do {
            return try body()
        } catch {
            throw PortError(key: key, failure: error)
        }
    }
}
