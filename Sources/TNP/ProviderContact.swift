// SPDX-License-Identifier: Apache-2.0

/// How far an envelope has come that was admitted.
public enum ProviderContact: Sendable {
    /// A push service has been asked, or may have been.
    case asked
    /// None has: the node itself refused it, or held it back.
    case notAsked
    /// The same, for want of room in the node.
    case noRoom
}
