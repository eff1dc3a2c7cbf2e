// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

/** A text is not a pairing token, or its phone cannot be paired. The message never contains the text. */
public final class PairingException extends Exception {
    private static final long serialVersionUID = 1L;

    PairingException(String message) {
        super(message);
    }
}
