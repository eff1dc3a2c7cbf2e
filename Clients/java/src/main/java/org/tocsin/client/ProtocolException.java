// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

/** The peer sent bytes that are not TNP/1. */
final class ProtocolException extends Exception {
    private static final long serialVersionUID = 1L;

    ProtocolException(String message) {
        super(message);
    }
}
