// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

/** An envelope breaks a rule of the protocol (PROTOCOL §3), so the node would reject it. */
public final class RejectionException extends Exception {
    private static final long serialVersionUID = 1L;

    /** The number of the reason in RESULT. */
    private final int reason;

    RejectionException(int reason, String message) {
        super(message);
        this.reason = reason;
    }

    /**
     * The number of the reason in RESULT (PROTOCOL §4).
     *
     * @return the number, e.g. 104
     */
    public int reason() {
        return reason;
    }
}
