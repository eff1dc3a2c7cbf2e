// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.util.List;

/** REGISTER, ROTATE or FORGET: what the owner of a handle asks of the node (PROTOCOL §11). */
final class HandleRequest {
    /** The largest number of sender keys of a handle. */
    static final int MAXIMUM_SENDER_KEYS = 8;

    private static final int PROOF_TAG = 0x10;

    private final int type;
    /** The fields that the owner signs, below and above the place of the proof. */
    private final byte[] before;

    private final byte[] after;
    private final byte[] hash;
    private final byte[] signature;

    private HandleRequest(int type, Bytes.Output before, Bytes.Output after, HandleOwner owner, String host) {
        this.type = type;
        this.before = before.bytes();
        this.after = after.bytes();
        hash = Crypto.blake2b(null, this.before, this.after);
        signature = owner.sign(message(type, OnionAddress.signed(host), hash)).signature();
    }

    private static byte[] message(int type, byte[] onion, byte[] hash) {
        return Bytes.join(Bytes.of("tnp1-handle"), new byte[] {(byte) type}, onion, hash);
    }

    static HandleRequest register(
            PairingToken phone,
            String app,
            List<byte[]> senderKeys,
            long sequence,
            HandleOwner owner,
            String host) {
        Bytes.Output before = phone(phone);
        if (!app.isEmpty()) {
            before.field(0x0A, Bytes.of(app));
        }
        Bytes.Output after = new Bytes.Output();
        after.field(0x20, owner.sign(new byte[0]).key());
        return new HandleRequest(Wire.REGISTER, before, rest(after, senderKeys, sequence), owner, host);
    }

    static HandleRequest rotate(
            Handle handle,
            PairingToken phone,
            List<byte[]> senderKeys,
            long sequence,
            HandleOwner owner,
            String host) {
        Bytes.Output before = phone(phone);
        before.field(0x0B, handle.bytes());
        return new HandleRequest(Wire.ROTATE, before, rest(new Bytes.Output(), senderKeys, sequence), owner, host);
    }

    static HandleRequest forget(Handle handle, long sequence, HandleOwner owner, String host) {
        Bytes.Output before = new Bytes.Output();
        before.field(0x0B, handle.bytes());
        return new HandleRequest(Wire.FORGET, before, rest(new Bytes.Output(), List.of(), sequence), owner, host);
    }

    private static Bytes.Output phone(PairingToken phone) {
        if (phone.handle().isPresent()) {
            throw new IllegalArgumentException("a pairing with a handle does not name the device token");
        }
        Bytes.Output output = new Bytes.Output();
        output.field(0x01, Bytes.of(phone.magic().text()));
        output.field(0x02, Bytes.of(phone.deviceToken()));
        return output;
    }

    private static Bytes.Output rest(Bytes.Output output, List<byte[]> senderKeys, long sequence) {
        if (senderKeys.size() > MAXIMUM_SENDER_KEYS || senderKeys.stream().anyMatch(key -> key.length != 32)) {
            throw new IllegalArgumentException("a handle has at most 8 sender keys of 32 bytes each");
        }
        if (!senderKeys.isEmpty()) {
            output.field(0x21, Bytes.join(senderKeys.toArray(byte[][]::new)));
        }
        output.field(0x22, Bytes.number(sequence, 8));
        return output;
    }

    /** What the owner signs, and what a proof of work is for. */
    byte[] hash() {
        return hash;
    }

    /** Whether the node may require a proof of work. */
    boolean mayNeedProof() {
        return type == Wire.REGISTER;
    }

    /** The frame with this request number; {@code proof} is {@code null} for none. */
    byte[] encode(long request, Proof proof) {
        Bytes.Output output = new Bytes.Output();
        output.append(Bytes.number(request, 4));
        output.append(before);
        if (proof != null) {
            output.field(PROOF_TAG, proof.encoded());
        }
        output.append(after);
        output.field(0x23, signature);
        return output.frame(type);
    }
}
