// SPDX-License-Identifier: Apache-2.0
package org.tocsin.phone;

import java.util.Arrays;

/**
 * One request of a handle's owner over TNP, for a node without an HTTP endpoint: takes the bytes that arrive, returns those to
 * send. The app has the connection.
 */
public final class HandleExchange {
    private static final int HELLO = 0x01;
    private static final int WELCOME = 0x02;
    private static final int PUZZLE = 0x07;
    private static final int GOAWAY = 0x08;
    private static final int REGISTERED = 0x11;

    private static final int MAXIMUM_FRAME = 131_072;
    private static final int MOST_REQUESTS = 4;
    private static final int FEATURES_AT = 1;
    private static final int PUZZLE_AT = 21;
    private static final int KEEPS_HANDLES = 1 << 4;

    private final HandleCall call;
    private byte[] received = {};
    private HandleChallenge challenge;
    private int requests;
    private PhoneHandle handle;

    /**
     * Starts an exchange.
     *
     * @param call the request
     */
    public HandleExchange(HandleCall call) {
        this.call = call;
    }

    /**
     * The first bytes to send: HELLO, without an agent.
     *
     * @return the frame
     */
    public byte[] start() {
        return HandleCall.encode(HELLO, Bytes.join(Bytes.of("TNP"), new byte[] {1, 1, 0}));
    }

    /**
     * The handle, once the node has accepted the request.
     *
     * @return {@code null} until then
     */
    public PhoneHandle handle() {
        return handle;
    }

    /**
     * Takes bytes that have arrived. It may search for a proof of work, which takes seconds on a slow phone.
     *
     * @param bytes an array that holds them
     * @param count how many
     * @return the bytes to send
     * @throws PhoneException if the node refuses ({@link RefusedException}), or does not speak TNP
     */
    public byte[] receive(byte[] bytes, int count) throws PhoneException {
        received = Bytes.join(received, Arrays.copyOf(bytes, count));
        byte[] output = {};
        while (handle == null && received.length >= 5) {
            long length = Bytes.number(received, 0, 4);
            if (length < 1 || length > MAXIMUM_FRAME) {
                throw new PhoneException("the peer does not speak TNP");
            }
            int end = 4 + (int) length;
            if (received.length < end) {
                break;
            }
            byte[] payload = Arrays.copyOfRange(received, 5, end);
            int type = received[4] & 0xFF;
            received = Arrays.copyOfRange(received, end, received.length);
            output = Bytes.join(output, handle(type, payload));
        }
        return output;
    }

    private byte[] handle(int type, byte[] payload) throws PhoneException {
        switch (type) {
            case WELCOME:
                if (requests > 0) {
                    throw new PhoneException("a second WELCOME");
                }
                if (payload.length < PUZZLE_AT + HandleChallenge.LENGTH) {
                    throw new PhoneException("WELCOME is too short");
                }
                if ((payload[FEATURES_AT + 1] & KEEPS_HANDLES) == 0) {
                    throw new PhoneException("this node keeps no handles");
                }
                challenge = HandleChallenge.ofPuzzle(payload, PUZZLE_AT);
                return request();
            case PUZZLE:
                if (payload.length != HandleChallenge.LENGTH) {
                    throw new PhoneException("PUZZLE is too short");
                }
                challenge = HandleChallenge.ofPuzzle(payload, 0);
                return new byte[0];
            case REGISTERED:
                return registered(payload);
            case GOAWAY:
                throw new PhoneException("the node has ended the connection");
            default:
                return new byte[0];
        }
    }

    private byte[] request() throws PhoneException {
        if (requests >= MOST_REQUESTS) {
            throw new PhoneException("the node asks for proof after proof");
        }
        requests++;
        boolean needsProof = call.isRegistration() && challenge.effort() > 0;
        return call.frame(requests, needsProof ? challenge.solve(call) : null);
    }

    private byte[] registered(byte[] payload) throws PhoneException {
        // request u32, outcome u8, reason u16, retry_after u32, and the field 0x0B with the handle
        if (payload.length < 11) {
            throw new PhoneException("REGISTERED is too short");
        }
        if (payload[4] == 0) {
            if (payload.length < 46 || payload[11] != 0x0B) {
                throw new PhoneException("REGISTERED has no handle");
            }
            handle = new PhoneHandle(Arrays.copyOfRange(payload, 14, 46));
            return new byte[0];
        }
        int reason = (int) Bytes.number(payload, 5, 2);
        RefusedException refused = new RefusedException(
                payload[4] == 3
                        ? RefusedException.Outcome.RETRY
                        : payload[4] == 4 ? RefusedException.Outcome.GONE : RefusedException.Outcome.REJECTED,
                reason,
                Bytes.number(payload, 7, 4),
                "reason " + reason + " of the protocol");
        // A PUZZLE has come before.
        if (!refused.needsProof() || requests == 0 || requests >= MOST_REQUESTS) {
            throw refused;
        }
        return request();
    }
}
