// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/** The frames and messages of TNP/1 (PROTOCOL §1, §2, §4–§6), as values. */
final class Wire {
    private Wire() {}

    /** The protocol version of this client. */
    static final int VERSION = 1;
    /** The largest {@code length} of a frame that the client accepts; a WELCOME with many routes is the largest one. */
    static final int MAXIMUM_NODE_FRAME = 128 * 1024;

    static final int SUBMIT = 0x03;
    static final int REGISTER = 0x10;
    static final int ROTATE = 0x12;
    static final int FORGET = 0x13;
    private static final int HELLO = 0x01;
    private static final int WELCOME = 0x02;
    private static final int RESULT = 0x04;
    private static final int PING = 0x05;
    private static final int PONG = 0x06;
    private static final int PUZZLE = 0x07;
    private static final int GOAWAY = 0x08;
    private static final int REGISTERED = 0x11;
    private static final int AUTH = 0x14;
    private static final int AUTHED = 0x15;
    private static final int FIRST_SKIPPABLE = 0x80;

    /** What a node may send. */
    sealed interface Message {}

    /** The proof of work that a node requires (PROTOCOL §5); effort 0 requires none. */
    record Puzzle(byte[] seed, long effort, long lifetime) implements Message {
        boolean hasSeedOf(Puzzle other) {
            return Arrays.equals(seed, other.seed);
        }
    }

    /** WELCOME: the node's answer to HELLO. */
    record Welcome(
            int features,
            long maxFrame,
            int maxInFlight,
            long idleTimeout,
            long serverTime,
            Puzzle puzzle,
            List<String> routes)
            implements Message {
        private static final int HANDLES = 1 << 4;
        private static final int SITE_KEYS = 1 << 5;

        boolean keepsHandles() {
            return (features & HANDLES) != 0;
        }

        boolean takesSiteKeys() {
            return (features & SITE_KEYS) != 0;
        }
    }

    /** AUTHED: whether the node has accepted the site's key (PROTOCOL §10). */
    record Authenticated(boolean isAccepted, Optional<String> name) implements Message {}

    /** RESULT: the outcome of one submission. */
    record Result(long request, Outcome outcome) implements Message {}

    /** REGISTERED: the answer to a request about a handle. */
    record Registered(long request, Outcome outcome, Optional<Handle> handle) implements Message {}

    /** PING, to be answered with the same bytes. */
    record Ping(byte[] opaque) implements Message {}

    /** GOAWAY: the announcement that a connection ends; {@code retryAfter} is in milliseconds. */
    record GoAway(int code, long retryAfter, String text) implements Message {
        static final int SHUTTING_DOWN = 0;
        static final int IDLE = 4;
        static final int BUSY = 5;
        static final int ABUSE = 6;
        static final int HANDSHAKE_TIMEOUT = 7;

        /** Whether the node answers what it has accepted before it closes the connection. */
        boolean answersInFlight() {
            return code == SHUTTING_DOWN || code == IDLE;
        }

        /** Whether the node would close a new connection for the same reason. */
        boolean isFatal() {
            return code != SHUTTING_DOWN && code != IDLE && code != BUSY && code != HANDSHAKE_TIMEOUT;
        }

        String reason() {
            String sentence = text.isEmpty() ? "GOAWAY with code " + code : text;
            return retryAfter > 0 ? sentence + "; try again in " + (retryAfter + 999) / 1000 + " s" : sentence;
        }
    }

    static byte[] hello(byte[] agent) {
        Bytes.Output output = new Bytes.Output();
        output.append(Bytes.of("TNP"));
        output.append(new byte[] {VERSION, VERSION, (byte) agent.length});
        output.append(agent);
        return output.frame(HELLO);
    }

    /** AUTH: the public key of a site, and its signature. */
    static byte[] auth(Signature signature) {
        Bytes.Output output = new Bytes.Output();
        output.field(0x30, signature.key());
        output.field(0x31, signature.signature());
        return output.frame(AUTH);
    }

    static byte[] ping(byte[] opaque) {
        return small(PING, opaque);
    }

    static byte[] pong(byte[] opaque) {
        return small(PONG, opaque);
    }

    private static byte[] small(int type, byte[] payload) {
        Bytes.Output output = new Bytes.Output();
        output.append(payload);
        return output.frame(type);
    }

    /** Cuts received bytes into messages. Memory is bounded by {@link #MAXIMUM_NODE_FRAME}. */
    static final class FrameDecoder {
        private byte[] buffer = new byte[4096];
        private int start;
        private int end;

        void append(ByteBuffer received) {
            int count = received.remaining();
            if (buffer.length - end < count) {
                int length = end - start;
                byte[] target = length + count > buffer.length ? new byte[Math.max(2 * buffer.length, length + count)]
                        : buffer;
                System.arraycopy(buffer, start, target, 0, length);
                buffer = target;
                start = 0;
                end = length;
            }
            received.get(buffer, end, count);
            end += count;
        }

        /** The next whole frame that needs attention; empty if there is none yet. */
        Optional<Frame> next() throws ProtocolException {
            if (end - start < 4) {
                return Optional.empty();
            }
            long length = ByteBuffer.wrap(buffer, start, 4).getInt() & 0xFFFFFFFFL;
            if (length == 0) {
                throw new ProtocolException("a frame has length 0");
            }
            if (length > MAXIMUM_NODE_FRAME) {
                throw new ProtocolException("a frame of " + length + " bytes exceeds " + MAXIMUM_NODE_FRAME);
            }
            if (end - start < 4 + length) {
                return Optional.empty();
            }
            int type = buffer[start + 4] & 0xFF;
            Reader payload = new Reader(ByteBuffer.wrap(buffer, start + 5, (int) length - 1));
            start += 4 + (int) length;
            return Optional.of(new Frame(message(type, payload)));
        }
    }

    /** A frame; empty if it needs no reaction. */
    record Frame(Optional<Message> message) {}

    private static Optional<Message> message(int type, Reader payload) throws ProtocolException {
        switch (type) {
            case WELCOME:
                return Optional.of(welcome(payload.of("WELCOME")));
            case RESULT:
                return Optional.of(result(payload.of("RESULT")));
            case PUZZLE:
                Puzzle puzzle = payload.of("PUZZLE").puzzle();
                payload.finish();
                return Optional.of(puzzle);
            case GOAWAY:
                payload.of("GOAWAY");
                return Optional.of(new GoAway(
                        (int) payload.number(2), payload.number(4), payload.text(payload.remaining())));
            case PING, PONG:
                byte[] opaque = payload.of("PING").take(8);
                payload.finish();
                return type == PING ? Optional.of(new Ping(opaque)) : Optional.empty();
            case REGISTERED:
                return Optional.of(registered(payload.of("REGISTERED")));
            case AUTHED:
                return Optional.of(authenticated(payload.of("AUTHED")));
            case HELLO, SUBMIT, REGISTER, ROTATE, FORGET, AUTH:
                throw new ProtocolException("a frame type that only a sender may send");
            default:
                if (type >= FIRST_SKIPPABLE) {
                    return Optional.empty();
                }
                throw new ProtocolException(String.format("unknown frame type 0x%02x", type));
        }
    }

    private static Welcome welcome(Reader reader) throws ProtocolException {
        long version = reader.number(1);
        if (version != VERSION) {
            throw new ProtocolException("WELCOME selects version " + version + ", which HELLO did not offer");
        }
        int features = (int) reader.number(2);
        long maxFrame = reader.number(4);
        int maxInFlight = (int) reader.number(2);
        long idleTimeout = reader.number(4);
        long serverTime = reader.number(8);
        Puzzle puzzle = reader.puzzle();
        long count = reader.number(1);
        List<String> routes = new ArrayList<>();
        for (int index = 0; index < count; index++) {
            routes.add(reader.text((int) reader.number(1)));
        }
        reader.finish();
        return new Welcome(features, maxFrame, maxInFlight, idleTimeout, serverTime, puzzle, List.copyOf(routes));
    }

    private static Authenticated authenticated(Reader reader) throws ProtocolException {
        boolean isAccepted = reader.number(1) == Outcome.Kind.DELIVERED.ordinal();
        reader.number(2);
        Optional<String> name = Optional.empty();
        int previous = -1;
        while (reader.remaining() > 0) {
            int tag = (int) reader.number(1);
            if (tag <= previous) {
                throw new ProtocolException("AUTHED has fields out of order");
            }
            previous = tag;
            Reader value = new Reader(ByteBuffer.wrap(reader.take((int) reader.number(2)))).of("AUTHED");
            if (tag == 0x32) {
                name = Optional.of(value.anyText());
            }
        }
        return new Authenticated(isAccepted, name);
    }

    private static Registered registered(Reader reader) throws ProtocolException {
        long request = reader.number(4);
        int kind = (int) reader.number(1);
        if (kind >= Outcome.Kind.values().length || kind == Outcome.Kind.QUEUED.ordinal()) {
            throw new ProtocolException("REGISTERED has an unknown outcome");
        }
        Outcome outcome = Outcome.of(Outcome.Kind.values()[kind], (int) reader.number(2), reader.number(4));
        Optional<Handle> handle = Optional.empty();
        int previous = -1;
        while (reader.remaining() > 0) {
            int tag = (int) reader.number(1);
            if (tag <= previous) {
                throw new ProtocolException("REGISTERED has fields out of order");
            }
            previous = tag;
            byte[] value = reader.take((int) reader.number(2));
            if (tag == 0x0B) {
                if (value.length != 32) {
                    throw new ProtocolException("REGISTERED has a handle that is not 32 bytes long");
                }
                handle = Optional.of(Handle.of(value));
            }
        }
        return new Registered(request, outcome, handle);
    }

    private static Result result(Reader reader) throws ProtocolException {
        long request = reader.number(4);
        int kind = (int) reader.number(1);
        if (kind >= Outcome.Kind.values().length) {
            throw new ProtocolException("RESULT has an unknown outcome");
        }
        int reason = (int) reader.number(2);
        long retryAfter = reader.number(4);
        Optional<String> providerId = Optional.empty();
        Optional<String> text = Optional.empty();
        OptionalLong[] numbers = {OptionalLong.empty(), OptionalLong.empty(), OptionalLong.empty()};
        int previous = -1;
        while (reader.remaining() > 0) {
            int tag = (int) reader.number(1);
            if (tag <= previous) {
                throw new ProtocolException("RESULT has fields out of order");
            }
            previous = tag;
            Reader value = new Reader(ByteBuffer.wrap(reader.take((int) reader.number(2)))).of("RESULT");
            switch (tag) {
                case 0x01 -> providerId = Optional.of(value.anyText());
                case 0x02 -> text = Optional.of(value.anyText());
                case 0x03, 0x04, 0x05 -> {
                    numbers[tag - 0x03] = OptionalLong.of(value.number(tag == 0x03 ? 8 : 4));
                    value.finish();
                }
                default -> {}
            }
        }
        return new Result(
                request,
                new Outcome(
                        Outcome.Kind.values()[kind],
                        reason,
                        retryAfter,
                        providerId,
                        text,
                        numbers[0],
                        numbers[1],
                        numbers[2]));
    }

    /** Reads the parts of a payload in order. */
    private static final class Reader {
        private final ByteBuffer rest;
        private String name = "a frame";

        Reader(ByteBuffer payload) {
            rest = payload;
        }

        Reader of(String message) {
            name = message;
            return this;
        }

        int remaining() {
            return rest.remaining();
        }

        byte[] take(int count) throws ProtocolException {
            if (count > rest.remaining()) {
                throw new ProtocolException(name + " is too short");
            }
            byte[] taken = new byte[count];
            rest.get(taken);
            return taken;
        }

        long number(int width) throws ProtocolException {
            long number = 0;
            for (byte part : take(width)) {
                number = number << 8 | part & 0xFF;
            }
            return number;
        }

        String text(int count) throws ProtocolException {
            try {
                return StandardCharsets.UTF_8
                        .newDecoder()
                        .decode(ByteBuffer.wrap(take(count)))
                        .toString();
            } catch (CharacterCodingException error) {
                throw new ProtocolException(name + " has text that is not UTF-8");
            }
        }

        /** The rest as text, with replacement characters for what is not UTF-8. */
        String anyText() throws ProtocolException {
            return new String(take(remaining()), StandardCharsets.UTF_8);
        }

        Puzzle puzzle() throws ProtocolException {
            return new Puzzle(take(16), number(4), number(4));
        }

        void finish() throws ProtocolException {
            if (rest.hasRemaining()) {
                throw new ProtocolException(name + " is too long");
            }
        }
    }
}
