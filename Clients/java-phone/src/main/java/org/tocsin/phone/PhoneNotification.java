// SPDX-License-Identifier: Apache-2.0
package org.tocsin.phone;

import java.util.Map;

/** What a desktop tells the phone's user: the clear text of a notification. Keys that it does not know are ignored. */
public final class PhoneNotification {
    /** The type of a notification with which the desktop has paired: the app stores the pairing. */
    public static final String SETUP_CONFIRMATION = "SETUP_CONFIRMATION";
    /** The type of a notification with which the desktop has unpaired: the app deletes the pairing and its notifications. */
    public static final String ERASE = "ERASE";

    private final Map<String, Object> fields;

    private PhoneNotification(Map<String, Object> fields) {
        this.fields = fields;
    }

    /**
     * Reads a clear text.
     *
     * @param clearText what {@link PhonePairing#open} returned
     * @return the notification
     * @throws PhoneException if it is none
     */
    public static PhoneNotification parse(byte[] clearText) throws PhoneException {
        Map<String, Object> fields = Json.object(clearText);
        if (!(fields.get("version") instanceof Long)
                || !(fields.get("type") instanceof String)
                || !(fields.get("title") instanceof String)
                || !(fields.get("message") instanceof String)
                || !(fields.get("sentDate") instanceof Long)) {
            throw new PhoneException("the notification lacks version, type, title, message or sentDate");
        }
        return new PhoneNotification(fields);
    }

    private String text(String name) {
        Object value = fields.get(name);
        return value instanceof String ? (String) value : "";
    }

    /**
     * The version of the text's fields; 1 today. A higher one adds fields, and changes none of these.
     *
     * @return the version
     */
    public long version() {
        return (Long) fields.get("version");
    }

    /**
     * What the notification is about: {@link #SETUP_CONFIRMATION}, {@link #ERASE}, OFFER, TRADE, DISPUTE, PRICE, MARKET,
     * FINANCIAL, or one of a later version, which the app shows like any other.
     *
     * @return the type
     */
    public String type() {
        return text("type");
    }

    /**
     * What the phone shows as its title.
     *
     * @return the title
     */
    public String title() {
        return text("title");
    }

    /**
     * What the phone shows below the title.
     *
     * @return the message
     */
    public String message() {
        return text("message");
    }

    /**
     * When the desktop sent the notification.
     *
     * @return Unix time in milliseconds
     */
    public long sentDate() {
        return (Long) fields.get("sentDate");
    }

    /**
     * The short id of the trade or offer.
     *
     * @return empty if there is none
     */
    public String tradeId() {
        return text("txId");
    }

    /**
     * What the user has to do.
     *
     * @return empty if nothing
     */
    public String actionRequired() {
        return text("actionRequired");
    }

    /** Prints nothing of the content. */
    @Override
    public String toString() {
        return "<PhoneNotification redacted>";
    }
}
