// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.util.Arrays;
import java.util.Optional;

/** The push service of a phone: the first part of a pairing token. */
public enum Magic {
    /** Apple's production environment. */
    IOS("iOS"),
    /** Apple's development environment. */
    IOS_DEV("iOSDev"),
    /** Google's push service. */
    ANDROID("android"),
    /** Web Push: the server that the device token names. */
    WEB("web");

    private final String text;

    Magic(String text) {
        this.text = text;
    }

    /**
     * The text in pairing tokens and on the wire.
     *
     * @return the text, e.g. {@code iOS}
     */
    public String text() {
        return text;
    }

    static Optional<Magic> of(String text) {
        return Arrays.stream(values()).filter(magic -> magic.text.equals(text)).findFirst();
    }
}
