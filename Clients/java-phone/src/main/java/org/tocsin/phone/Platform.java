// SPDX-License-Identifier: Apache-2.0
package org.tocsin.phone;

/** How notifications reach the phone. */
public enum Platform {
    /** Apple's production environment: TestFlight and App Store. */
    IOS("iOS"),
    /** Apple's development environment: builds from Xcode. */
    IOS_DEV("iOSDev"),
    /** Google's Firebase Cloud Messaging. */
    ANDROID("android"),
    /** Web Push (RFC 8030): a distributor of UnifiedPush. */
    WEB("web");

    final String magic;

    Platform(String magic) {
        this.magic = magic;
    }

    /** Whether notifications are sealed for keys of a receiver, whose public halves the pairing token has. */
    boolean hasReceiver() {
        return this == WEB;
    }

    static Platform of(String magic) throws PhoneException {
        for (Platform platform : values()) {
            if (platform.magic.equals(magic)) {
                return platform;
            }
        }
        throw new PhoneException("not a pairing token: it begins with none of iOS, iOSDev, android and web");
    }
}
