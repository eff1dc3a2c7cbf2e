// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

/** A key file cannot be used, or tor does not take the key. The message contains no part of the key. */
final class TorException extends Exception {
    private static final long serialVersionUID = 1L;

    TorException(String message) {
        super(message);
    }
}
