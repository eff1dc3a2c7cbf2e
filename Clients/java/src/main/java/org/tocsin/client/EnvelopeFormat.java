// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

/** The envelope format that a phone's app decrypts. */
public enum EnvelopeFormat {
    /** AES-256-CBC (Bisq 1, Haveno). */
    PIPE,
    /** AES-256-GCM (Bisq Connect). */
    SEALED
}
