// SPDX-License-Identifier: Apache-2.0
package org.tocsin.phone;

/**
 * Why the phone's side could not do something. The message is for a person, and contains no key, no device token and no part
 * of a notification.
 */
public class PhoneException extends Exception {
    private static final long serialVersionUID = 1L;

    PhoneException(String message) {
        super(message);
    }
}
