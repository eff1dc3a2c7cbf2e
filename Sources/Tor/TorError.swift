// SPDX-License-Identifier: Apache-2.0

/// What tor does not do as it should: what it said, and what to do where that is known.
package struct TorError: Error, Sendable, CustomStringConvertible {
    /// In words.
    package let description: String

    /// - Parameter description: in words, without secrets.
    package init(_ description: String) { self.description = description }
}
