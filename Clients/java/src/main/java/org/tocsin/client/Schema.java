// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

/** Which fields a notification's clear text has: what the phones' app reads. */
public enum Schema {
    /** What today's Bisq apps read: Bisq Connect's fields for a pairing key in Base64, Bisq 1's for any other. */
    BISQ,
    /** What an app of one's own reads: the same fields for every phone, over Apple, Google and Web Push. */
    TOCSIN;

    /**
     * Whether the app deletes its pairing at ERASE: Bisq Connect does not.
     *
     * @param format the format that the app decrypts
     * @return whether it does
     */
    boolean supportsErase(EnvelopeFormat format) {
        return this == TOCSIN || format == EnvelopeFormat.PIPE;
    }
}
