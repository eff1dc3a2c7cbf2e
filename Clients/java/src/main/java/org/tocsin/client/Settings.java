// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.util.List;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/**
 * The settings of a client. Times are in nanoseconds.
 *
 * @param nodes the nodes, the preferred one first
 * @param proxy tor's SOCKS port; {@code null} to connect directly
 * @param siteKey the key of a site that the nodes' operators know; empty for any other sender
 * @param executor runs the callbacks and completes the futures
 */
record Settings(
        List<NodeAddress> nodes,
        NodeAddress proxy,
        long workLimit,
        long patience,
        long connectTimeout,
        byte[] agent,
        boolean isIsolated,
        Optional<SiteKey> siteKey,
        Executor executor,
        Consumer<Progress> onProgress,
        Consumer<PairingToken> onGone) {}
