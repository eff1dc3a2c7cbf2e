// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.util.HexFormat;

/**
 * A notification from a desktop to its phone, encoded with the order and escapes of Bisq's desktop. Prints without its
 * content.
 *
 * @param type the subject
 * @param title the title that the phone shows
 * @param message the text that the phone shows
 * @param tradeId the short id of the trade or offer; may be empty
 * @param actionRequired what the user has to do; empty if nothing. Bisq Connect has no field for it
 * @param sentDate Unix time in milliseconds
 */
public record BisqNotification(
        NotificationType type, String title, String message, String tradeId, String actionRequired, long sentDate) {
    /**
     * Creates a notification that is sent now.
     *
     * @param type the subject
     * @param title the title that the phone shows
     * @param message the text that the phone shows
     */
    public BisqNotification(NotificationType type, String title, String message) {
        this(type, title, message, "", "", System.currentTimeMillis());
    }

    byte[] encode(EnvelopeFormat format, Schema schema) {
        return Bytes.of(
                format == EnvelopeFormat.PIPE || schema == Schema.TOCSIN
                        ? json()
                        : connectJson(HexFormat.of().formatHex(Crypto.random(16))));
    }

    /**
     * The clear text for Bisq 1's apps and for apps of one's own.
     *
     * @return JSON with the fields and the order of Bisq 1
     */
    public String json() {
        return "{\"sentDate\":" + sentDate + ",\"txId\":\"" + escaped(tradeId) + "\",\"title\":\"" + escaped(title)
                + "\",\"message\":\"" + escaped(message) + "\",\"type\":\"" + type
                + "\",\"actionRequired\":\"" + escaped(actionRequired) + "\",\"version\":1}";
    }

    /**
     * The clear text for Bisq Connect.
     *
     * @param id an id of the notification; an Android phone replaces an earlier one with the same id
     * @return JSON with the fields of Bisq Connect
     */
    public String connectJson(String id) {
        return "{\"id\":\"" + escaped(id) + "\",\"title\":\"" + escaped(title) + "\",\"message\":\"" + escaped(message)
                + "\",\"category\":\"" + type.category + "\""
                + (tradeId.isEmpty() ? "" : ",\"tradeId\":\"" + escaped(tradeId) + "\"") + "}";
    }

    /** Escapes a JSON string as Gson does by default. */
    private static String escaped(String text) {
        StringBuilder output = new StringBuilder();
        for (int index = 0; index < text.length(); index++) {
            char c = text.charAt(index);
            switch (c) {
                case '"', '\\' -> output.append('\\').append(c);
                case '\n' -> output.append("\\n");
                case '\r' -> output.append("\\r");
                case '\t' -> output.append("\\t");
                case '\b' -> output.append("\\b");
                case '\f' -> output.append("\\f");
                case '\'', '<', '>', '&', '=', '\u2028', '\u2029' -> output.append(String.format("\\u%04x", (int) c));
                default -> output.append(c < 0x20 ? String.format("\\u%04x", (int) c) : Character.toString(c));
            }
        }
        return output.toString();
    }

    /** Prints nothing of the content. */
    @Override
    public String toString() {
        return "<BisqNotification redacted>";
    }
}
