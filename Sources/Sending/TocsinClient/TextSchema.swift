// SPDX-License-Identifier: Apache-2.0

/// The fields that the phones' app reads in the clear text of a notification.
public enum TextSchema: String, Sendable, CaseIterable {
    /// What the Bisq apps read: Bisq Connect's fields for a pairing key in Base64, Bisq 1's for any other.
    case bisq
    /// What an app of one's own reads: the same fields for every phone, over Apple, Google and Web Push.
    case tocsin
}
