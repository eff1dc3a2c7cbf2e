// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// A port that the node cannot listen on, with the key of the configuration that names it.
package struct PortError: Error, Sendable, CustomStringConvertible {
    /// E.g. `listen.tnp`.
    package let key: String
    /// Where and why.
    package let failure: ListenError

    package var description: String {
        let advice =
            failure.reason == "Address already in use"
            ? "; another process listens there (ss -ltnp shows which): end it, or choose another address" : ""
        return "\(key): \(failure)\(advice)"
    }

    /// Names the key in what `body` throws.
    static func naming<Result>(_ key: String, _ body: () throws(ListenError) -> Result) throws(PortError) -> Result {
        do {
            return try body()
        } catch {
            throw PortError(key: key, failure: error)
        }
    }
}
