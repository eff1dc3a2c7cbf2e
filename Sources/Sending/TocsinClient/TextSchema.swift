// SPDX-License-Identifier: Apache-2.0

/// Which fields a notification's clear text has: what the phones' app reads.
public enum TextSchema: String, Sendable, CaseIterable {
    /// What today's Bisq apps read: Bisq Connect's fields for a pairing key in Base64, Bisq 1's for any other.
    case bisq
    /// What an app of one's own reads: the same fields for every phone, over Apple, Google and Web Push.
    case tocsin
}
