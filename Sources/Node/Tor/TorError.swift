// SPDX-License-Identifier: Apache-2.0

/// A failure of tor or of its control connection, with the remedy where it is known.
package struct TorError: Error, Sendable, CustomStringConvertible {
    /// The message.
    package let description: String

    /// Creates an error.
    /// - Parameter description: the message, without secrets.
    package init(_ description: String) { self.description = description }
}
