// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * The outcome of one submission (PROTOCOL §4).
 *
 * @param kind what the sender does next
 * @param reason the number of the reason; 0 if none is given
 * @param retryAfter milliseconds to wait before sending again; 0 if unspecified
 * @param providerId the provider's id of the message
 * @param text one sentence for a person, from the node: treat it as foreign text
 * @param goneSince Unix time in milliseconds since which the device token has been gone
 * @param left how many notifications the phone may receive now
 * @param fullIn milliseconds until the phone has its full allowance again
 */
public record Outcome(
        Kind kind,
        int reason,
        long retryAfter,
        Optional<String> providerId,
        Optional<String> text,
        OptionalLong goneSince,
        OptionalLong left,
        OptionalLong fullIn) {

    /** What the sender does next. */
    public enum Kind {
        /** The push service has accepted the notification. */
        DELIVERED,
        /** The node has stored the envelope durably; one more outcome follows. */
        QUEUED,
        /** The sender must never send this envelope again. */
        REJECTED,
        /** The envelope was not accepted; the sender may send it again later. */
        RETRY,
        /** The phone no longer has this device token: forget the pairing. */
        GONE
    }

    private static final Map<Integer, String> REASONS = Map.ofEntries(
            Map.entry(0, "no reason given"),
            Map.entry(100, "malformed submission"),
            Map.entry(101, "unknown magic"),
            Map.entry(102, "invalid device token"),
            Map.entry(103, "invalid iv"),
            Map.entry(104, "invalid ciphertext length"),
            Map.entry(105, "too large for the provider"),
            Map.entry(106, "unsupported field"),
            Map.entry(107, "unknown app"),
            Map.entry(108, "option out of range"),
            Map.entry(200, "device token over its rate"),
            Map.entry(201, "connection or circuit over its rate"),
            Map.entry(202, "node busy"),
            Map.entry(203, "proof of work required"),
            Map.entry(204, "proof of work invalid"),
            Map.entry(205, "sender key required"),
            Map.entry(206, "another sender key is bound to this phone"),
            Map.entry(208, "iv used before with another ciphertext"),
            Map.entry(209, "too many unproven device tokens"),
            Map.entry(210, "too many submissions in flight"),
            Map.entry(300, "platform not configured on this node"),
            Map.entry(301, "provider unreachable"),
            Map.entry(302, "provider throttles"),
            Map.entry(303, "provider rejects the device token"),
            Map.entry(304, "device token no longer registered"),
            Map.entry(305, "provider rejects the node's credentials or topic"),
            Map.entry(306, "provider rejects the payload"),
            Map.entry(307, "ttl expired before delivery"),
            Map.entry(310, "unknown or forgotten handle"),
            Map.entry(311, "not the handle's owner, or an old sequence"),
            Map.entry(312, "not a site's key"),
            Map.entry(313, "passed through too many nodes"),
            Map.entry(400, "node shutting down"),
            Map.entry(401, "internal error of the node"));

    private static final Map<Integer, String> HUNDREDS =
            Map.of(1, "invalid submission", 2, "not admitted", 3, "not delivered", 4, "node error");

    static Outcome of(Kind kind, int reason, String text) {
        return of(kind, reason, 0).withText(text);
    }

    static Outcome of(Kind kind, int reason, long retryAfter) {
        return new Outcome(
                kind,
                reason,
                retryAfter,
                Optional.empty(),
                Optional.empty(),
                OptionalLong.empty(),
                OptionalLong.empty(),
                OptionalLong.empty());
    }

    Outcome withText(String sentence) {
        return new Outcome(kind, reason, retryAfter, providerId, Optional.of(sentence), goneSince, left, fullIn);
    }

    /**
     * Whether the sender should forget the pairing. One by handle survives the device token.
     *
     * @param byHandle whether the sender has used a handle
     * @return whether the phone cannot be rung by this pairing any more
     */
    public boolean endsPairing(boolean byHandle) {
        return kind == Kind.GONE && (!byHandle || reason == 310);
    }

    /**
     * Whether no further outcome follows.
     *
     * @return false for QUEUED
     */
    public boolean isFinal() {
        return kind != Kind.QUEUED;
    }

    /**
     * The node's sentence, or else the meaning of the reason; an unknown reason is read by its hundred.
     *
     * @return one sentence for a person
     */
    public String description() {
        return text.filter(sentence -> !sentence.isEmpty())
                .orElseGet(() -> reason != 0
                        ? REASONS.getOrDefault(reason, HUNDREDS.getOrDefault(reason / 100, "unknown reason"))
                        : switch (kind) {
                            case DELIVERED -> "the push service has accepted it";
                            case QUEUED -> "the node keeps it until it is delivered";
                            case REJECTED, RETRY, GONE -> REASONS.get(0);
                        });
    }
}
