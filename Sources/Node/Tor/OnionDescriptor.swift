// SPDX-License-Identifier: Apache-2.0

/// Whether Tor's directories have the onion's descriptor, without which no client can find the onion.
package enum OnionDescriptor: String, Sendable {
    /// tor has not begun to upload it.
    case none
    /// The first upload is in progress, or the first one after a failure.
    case uploading
    /// At least one directory has accepted it.
    case published
    /// No directory accepted it in the last round of uploads.
    case failed
}
