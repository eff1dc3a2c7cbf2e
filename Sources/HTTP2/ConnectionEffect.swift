// SPDX-License-Identifier: Apache-2.0

/// What an answer means for the connection that it came on.
package enum ConnectionEffect: String, Sendable {
    case kept
    /// Nothing new is sent on it; what is under way is still answered.
    case left
    /// The same for every connection to this server.
    case allLeft
}
