// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

/** The subject of a notification. */
public enum NotificationType {
    /** The desktop confirms the pairing. */
    SETUP_CONFIRMATION("general"),
    /** The notification is about an offer. */
    OFFER("offer_update"),
    /** The notification is about a trade. */
    TRADE("trade_update"),
    /** The notification is about a dispute. */
    DISPUTE("trade_update"),
    /** The notification is about a price. */
    PRICE("general"),
    /** The notification is about the market. */
    MARKET("general"),
    /** The notification is about a financial matter. */
    FINANCIAL("general"),
    /** The phone's app deletes its pairing and all notifications. */
    ERASE("general");

    /** The category that Bisq Connect has for it. */
    final String category;

    NotificationType(String category) {
        this.category = category;
    }
}
