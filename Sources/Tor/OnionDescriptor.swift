// SPDX-License-Identifier: Apache-2.0

/// Whether the network's directories have the onion's descriptor, without which nobody finds it.
package enum OnionDescriptor: String, Sendable {
    /// tor has not begun to hand it out.
    case none
    /// It is being handed out for the first time, or again after a failure.
    case uploading
    /// The directories that answered have it, as far as they take it.
    case published
    /// No directory took it at the last try.
    case failed
}
