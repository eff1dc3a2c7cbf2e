// SPDX-License-Identifier: Apache-2.0

/// The effect of a response on the connection that carried it.
package enum ConnectionEffect: String, Sendable {
    /// The connection stays in use.
    case keep
    /// The connection takes no new requests; those in flight are still answered.
    case drain
    /// No current connection to this server takes new requests; those in flight are still answered.
    case drainAll
}
