// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.SocketChannel;
import java.util.ArrayDeque;
import java.util.Set;

/**
 * A TCP connection to a node, through a SOCKS5 proxy (RFC 1928, RFC 1929) if one is given. The proxy resolves the name,
 * and the password gives the connection a tor circuit of its own ({@code IsolateSOCKSAuth}).
 */
final class Connection {
    /** What a connection reports, on the loop's thread. */
    interface Handler {
        void opened();

        void received(ByteBuffer bytes);

        /** The connection could not be opened, or has ended; nothing follows. */
        void ended(String reason, boolean isProxyUnreachable);
    }

    private enum State {
        CONNECTING,
        GREETING,
        AUTHENTICATING,
        REQUESTING,
        OPEN,
        CLOSED
    }

    /** The reasons for which nobody answers at an address: a node that is only slow or far away fails otherwise. */
    static final Set<String> NOTHING_THERE = Set.of("connection refused", "the name cannot be resolved");

    private static final int READ_SIZE = 64 * 1024;
    private static final String USER = "tocsin";

    private final Loop loop;
    private final NodeAddress node;
    private final NodeAddress proxy;
    private final String password;
    private final Handler handler;
    private final ArrayDeque<ByteBuffer> output = new ArrayDeque<>();
    private final ByteBuffer input = ByteBuffer.allocate(READ_SIZE);
    private final Loop.Timer timeout;
    private State state = State.CONNECTING;
    private SocketChannel channel;
    private SelectionKey key;
    private long unsent;

    /**
     * Starts to connect.
     *
     * @param proxy the SOCKS proxy, or {@code null} to connect directly
     * @param password the password for the proxy
     * @param limit nanoseconds until the connection must be open
     */
    Connection(Loop loop, NodeAddress node, NodeAddress proxy, String password, long limit, Handler handler) {
        this.loop = loop;
        this.node = node;
        this.proxy = proxy;
        this.password = password;
        this.handler = handler;
        String late = "no connection within " + limit / 1_000_000_000 + " s";
        timeout = loop.schedule(limit, () -> end(late, false));
        // Resolving a name blocks, and failures must not be reported before the constructor returns.
        NodeAddress first = proxy != null ? proxy : node;
        Thread resolver = new Thread(
                () -> {
                    InetSocketAddress address = new InetSocketAddress(first.host(), first.port());
                    loop.execute(() -> connect(address));
                },
                "tocsin-resolver");
        resolver.setDaemon(true);
        resolver.start();
    }

    private void connect(InetSocketAddress address) {
        if (state == State.CLOSED) {
            return;
        }
        if (address.isUnresolved()) {
            end("the name cannot be resolved", proxy != null);
            return;
        }
        try {
            channel = SocketChannel.open();
            channel.configureBlocking(false);
            channel.setOption(java.net.StandardSocketOptions.TCP_NODELAY, true);
            key = loop.register(channel, SelectionKey.OP_CONNECT, this);
            if (channel.connect(address)) {
                connected();
            }
        } catch (IOException | UnsupportedOperationException | IllegalArgumentException error) {
            end(reason(error), proxy != null);
        }
    }

    /** The bytes that {@link #write} has taken and the peer's machine has not. */
    long unsent() {
        return unsent;
    }

    void write(byte[] bytes) {
        if (state == State.CLOSED) {
            return;
        }
        output.add(ByteBuffer.wrap(bytes));
        unsent += bytes.length;
        try {
            flush();
        } catch (IOException error) {
            loop.execute(() -> end(reason(error), false));
        }
    }

    /** Closes the connection without a report. */
    void close() {
        state = State.CLOSED;
        timeout.cancel();
        output.clear();
        unsent = 0;
        if (channel != null) {
            try {
                channel.close();
            } catch (IOException error) {
                // Nothing is left to be done with it.
            }
        }
    }

    void ready(SelectionKey ready) {
        try {
            if (state == State.CONNECTING && ready.isConnectable() && channel.finishConnect()) {
                connected();
            }
            if (state != State.CLOSED && ready.isValid() && ready.isWritable()) {
                flush();
            }
            if (state != State.CLOSED && ready.isValid() && ready.isReadable()) {
                read();
            }
        } catch (IOException error) {
            end(reason(error), proxy != null && state == State.CONNECTING);
        }
    }

    private void connected() throws IOException {
        key.interestOps(SelectionKey.OP_READ);
        if (proxy == null) {
            opened();
            return;
        }
        state = State.GREETING;
        // Version 5 and one method: user and password.
        write(new byte[] {5, 1, 2});
    }

    private void opened() {
        state = State.OPEN;
        timeout.cancel();
        handler.opened();
    }

    private void end(String reason, boolean isProxyUnreachable) {
        if (state != State.CLOSED) {
            close();
            handler.ended(reason, isProxyUnreachable);
        }
    }

    private void flush() throws IOException {
        if (channel == null || key == null || !channel.isConnected()) {
            return;
        }
        while (!output.isEmpty()) {
            ByteBuffer[] buffers = output.stream().limit(64).toArray(ByteBuffer[]::new);
            long written = channel.write(buffers);
            unsent -= written;
            while (!output.isEmpty() && !output.peek().hasRemaining()) {
                output.poll();
            }
            if (written == 0) {
                break;
            }
        }
        key.interestOps(output.isEmpty() ? SelectionKey.OP_READ : SelectionKey.OP_READ | SelectionKey.OP_WRITE);
    }

    private void read() throws IOException {
        if (channel.read(input) < 0) {
            end(state == State.OPEN ? "the node closed the connection" : "the SOCKS proxy closed the connection", false);
            return;
        }
        input.flip();
        while (input.hasRemaining() && state != State.OPEN && state != State.CLOSED) {
            input.mark();
            if (!shakeHands()) {
                input.reset();
                break;
            }
        }
        if (state == State.OPEN && input.hasRemaining()) {
            handler.received(input);
        }
        input.compact();
    }

    /** Takes the next message of the SOCKS handshake; false if it is not complete yet. */
    private boolean shakeHands() {
        return switch (state) {
            case GREETING -> greeted();
            case AUTHENTICATING -> authenticated();
            default -> connectedByProxy();
        };
    }

    private boolean greeted() {
        if (input.remaining() < 2) {
            return false;
        }
        if (input.get() != 5 || input.get() != 2) {
            end("the SOCKS proxy does not accept user and password", false);
            return true;
        }
        state = State.AUTHENTICATING;
        byte[] user = Bytes.of(USER);
        byte[] secret = Bytes.of(password);
        write(Bytes.join(
                new byte[] {1, (byte) user.length}, user, new byte[] {(byte) secret.length}, secret));
        return true;
    }

    private boolean authenticated() {
        if (input.remaining() < 2) {
            return false;
        }
        input.get();
        if (input.get() != 0) {
            end("the SOCKS proxy rejected user and password", false);
            return true;
        }
        state = State.REQUESTING;
        byte[] name = Bytes.of(node.host());
        write(Bytes.join(
                new byte[] {5, 1, 0, 3, (byte) name.length}, name, Bytes.number(node.port(), 2)));
        return true;
    }

    private boolean connectedByProxy() {
        if (input.remaining() < 5) {
            return false;
        }
        input.get();
        int reply = input.get() & 0xFF;
        input.get();
        int type = input.get();
        // An IPv4 address, a name with its length, or an IPv6 address; then the port.
        int rest = type == 1 ? 6 : type == 4 ? 18 : type == 3 ? 3 + (input.get(input.position()) & 0xFF) : -1;
        if (reply != 0 || rest < 0) {
            end("the SOCKS proxy answered: " + text(reply), false);
            return true;
        }
        if (input.remaining() < rest) {
            return false;
        }
        input.position(input.position() + rest);
        opened();
        return true;
    }

    /** The meaning of a reply (RFC 1928 §6, and tor's extended errors, proposal 304). */
    private static String text(int reply) {
        return switch (reply) {
            case 1 -> "general failure";
            case 2 -> "not allowed";
            case 3 -> "network unreachable";
            case 4 -> "host unreachable";
            case 5 -> "connection refused";
            case 6 -> "time to live expired";
            case 7, 8 -> "not supported";
            case 0xF0 -> "the onion service's descriptor cannot be found";
            case 0xF1 -> "the onion service's descriptor is invalid";
            case 0xF2 -> "the onion service cannot be reached";
            case 0xF3 -> "the onion service's rendezvous failed";
            case 0xF4 -> "the onion service requires a key";
            case 0xF5 -> "the onion service's key is wrong";
            case 0xF6 -> "the onion address is invalid";
            case 0xF7 -> "the onion service's introduction timed out";
            default -> "reply " + reply;
        };
    }

    private static String reason(Exception error) {
        String text = error.getMessage();
        if (text == null || text.isEmpty()) {
            return "the connection failed";
        }
        return text.substring(0, 1).toLowerCase(java.util.Locale.ROOT) + text.substring(1);
    }
}
