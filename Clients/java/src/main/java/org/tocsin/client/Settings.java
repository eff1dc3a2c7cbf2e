// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * The settings of a client, with their defaults. Times are in nanoseconds. A builder changes its own; a client has a copy
 * that nobody changes.
 */
final class Settings implements Cloneable {
    /** The nodes, the preferred one first. */
    List<NodeAddress> nodes = new ArrayList<>();
    /** Tor's SOCKS port; {@code null} to connect directly. */
    NodeAddress proxy = new NodeAddress("127.0.0.1", 9050);

    long workLimit = TimeUnit.SECONDS.toNanos(60);
    long patience = TimeUnit.MINUTES.toNanos(10);
    long connectTimeout = TimeUnit.SECONDS.toNanos(60);
    byte[] agent = {};
    /** Whether each phone has a tor circuit of its own. */
    boolean isIsolated = true;
    /** The key of a site that the nodes' operators know; empty for any other sender. */
    Optional<SiteKey> siteKey = Optional.empty();
    /** What the phones' app reads. */
    Schema schema = Schema.BISQ;
    /** Runs the callbacks and completes the futures. */
    Executor executor = ForkJoinPool.commonPool();
    /** Receives the steps of the work; {@code null} if nobody does. */
    Consumer<Progress> onProgress;
    /** Receives the pairings of phones that are gone; {@code null} if nobody does. */
    Consumer<PairingToken> onGone;

    /** A copy, for a client. */
    Settings copy() {
        try {
            Settings copy = (Settings) clone();
            copy.nodes = List.copyOf(nodes);
            return copy;
        } catch (CloneNotSupportedException impossible) {
            throw new AssertionError(impossible);
        }
    }
}
