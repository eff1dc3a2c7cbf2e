// SPDX-License-Identifier: Apache-2.0

/// Whether an admitted envelope has reached a push service.
public enum ProviderContact: Sendable {
    /// The node has sent it to a push service, or may have.
    case contacted
    /// The node has sent it to no push service: it rejected the envelope itself or held it back.
    case notContacted
    /// The node has sent it to no push service, because it had no room for the envelope.
    case noCapacity
}
