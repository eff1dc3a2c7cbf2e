// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

/** The node did not accept a request about a handle. */
public final class HandleException extends Exception {
    private static final long serialVersionUID = 1L;

    private final transient Outcome outcome;

    HandleException(Outcome outcome) {
        super(outcome.description());
        this.outcome = outcome;
    }

    /**
     * The node's answer.
     *
     * @return its outcome
     */
    public Outcome outcome() {
        return outcome;
    }
}
