// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

/**
 * The host and port of a node or a proxy.
 *
 * @param host a name or an address; an onion address is left to the proxy to resolve
 * @param port from 1 to 65535
 */
public record NodeAddress(String host, int port) {
    /** Checks the parts. */
    public NodeAddress {
        if (host.isEmpty() || host.length() > 255 || port < 1 || port > 65535) {
            throw new IllegalArgumentException("an address has a host and a port from 1 to 65535");
        }
        if (OnionAddress.isOnion(host) && !OnionAddress.isValid(OnionAddress.label(host))) {
            throw new IllegalArgumentException(host + " is not an onion address: before .onion, it has 56 letters and digits,"
                    + " which include a checksum. Copy the whole address");
        }
    }

    /**
     * Parses {@code host:port} or {@code [IPv6]:port}.
     *
     * @param text the text
     * @return the address
     * @throws IllegalArgumentException if the text is not an address
     */
    public static NodeAddress parse(String text) {
        int colon = text.lastIndexOf(':');
        String host = text.substring(0, Math.max(0, colon));
        if (host.startsWith("[") && host.endsWith("]")) {
            host = host.substring(1, host.length() - 1);
        }
        String port = text.substring(colon + 1);
        if (colon < 0 || port.isEmpty() || port.length() > 5 || !port.chars().allMatch(c -> c >= '0' && c <= '9')) {
            throw new IllegalArgumentException("not an address like ADDRESS.onion:7077: " + text);
        }
        return new NodeAddress(host, Integer.parseInt(port));
    }

    /** The address as it is parsed. */
    @Override
    public String toString() {
        return (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
    }
}
