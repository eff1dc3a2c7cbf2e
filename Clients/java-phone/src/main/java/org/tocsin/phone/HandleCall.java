// SPDX-License-Identifier: Apache-2.0
package org.tocsin.phone;

import java.io.ByteArrayOutputStream;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.bouncycastle.crypto.digests.SHA3Digest;

/** REGISTER, ROTATE or FORGET: a signed request of a handle's owner (PROTOCOL §7), for either protocol. Prints without its content. */
public final class HandleCall {
    static final int REGISTER = 0x10;
    private static final int ROTATE = 0x12;
    private static final int FORGET = 0x13;

    private static final int MAGIC = 0x01;
    private static final int DEVICE_TOKEN = 0x02;
    private static final int APP = 0x0A;
    private static final int HANDLE = 0x0B;
    private static final int PROOF = 0x10;
    private static final int OWNER = 0x20;
    private static final int SENDER_KEYS = 0x21;
    private static final int SEQUENCE = 0x22;
    private static final int SIGNATURE = 0x23;

    private static final int MAXIMUM_SENDER_KEYS = 8;
    /** The longest push endpoint. */
    private static final int MAXIMUM_TOKEN = 1024;
    private static final int ONION_ADDRESS = 35;

    private final int type;
    private final PhoneHandle handle;
    /** The fields by tag, with the signature. */
    private final TreeMap<Integer, byte[]> fields;

    private final byte[] digest;

    private HandleCall(
            int type, PhoneHandle handle, TreeMap<Integer, byte[]> fields, long sequence, String host, HandleOwner owner)
            throws PhoneException {
        this.type = type;
        this.handle = handle;
        this.fields = fields;
        fields.put(SEQUENCE, Bytes.number(sequence, 8));
        digest = Crypto.blake2b(null, encode(fields));
        fields.put(
                SIGNATURE,
                owner.sign(Bytes.join(Bytes.of("tnp1-handle"), Bytes.number(type, 1), onionKey(host), digest)));
    }

    /**
     * Asks for a handle for the phone. The same device token, app and owner have the same handle.
     *
     * @param pairing whose platform and device token
     * @param app the name of an app of the node; empty for its first one
     * @param senderKeys the public keys, 32 bytes each and at most 8, that may ring besides the owner's; none: whoever has the
     *     handle
     * @param sequence greater than that of the owner's last request about the handle: Unix time in milliseconds
     * @param host the node's host name: what is signed for one node is worth nothing at another
     * @param owner who may change or end the handle
     * @return the request
     * @throws PhoneException if a value is too long, or the host name is none
     */
    public static HandleCall register(
            PhonePairing pairing, String app, List<byte[]> senderKeys, long sequence, String host, HandleOwner owner)
            throws PhoneException {
        TreeMap<Integer, byte[]> fields = phone(pairing, senderKeys);
        if (!app.isEmpty()) {
            fields.put(APP, Bytes.of(app));
        }
        fields.put(OWNER, owner.publicKey());
        return new HandleCall(REGISTER, null, fields, sequence, host, owner);
    }

    /**
     * Puts the device token of a pairing, and these sender keys, behind a handle.
     *
     * @param handle the handle
     * @param pairing whose platform and device token
     * @param senderKeys as of {@link #register}
     * @param sequence as of {@link #register}
     * @param host as of {@link #register}
     * @param owner as of {@link #register}
     * @return the request
     * @throws PhoneException if a value is too long, or the host name is none
     */
    public static HandleCall rotate(
            PhoneHandle handle,
            PhonePairing pairing,
            List<byte[]> senderKeys,
            long sequence,
            String host,
            HandleOwner owner)
            throws PhoneException {
        TreeMap<Integer, byte[]> fields = phone(pairing, senderKeys);
        fields.put(HANDLE, handle.bytes());
        return new HandleCall(ROTATE, handle, fields, sequence, host, owner);
    }

    /**
     * Ends a handle.
     *
     * @param handle the handle
     * @param sequence as of {@link #register}
     * @param host as of {@link #register}
     * @param owner as of {@link #register}
     * @return the request
     * @throws PhoneException if a value is too long, or the host name is none
     */
    public static HandleCall forget(PhoneHandle handle, long sequence, String host, HandleOwner owner)
            throws PhoneException {
        TreeMap<Integer, byte[]> fields = new TreeMap<>(Collections.singletonMap(HANDLE, handle.bytes()));
        return new HandleCall(FORGET, handle, fields, sequence, host, owner);
    }

    private static TreeMap<Integer, byte[]> phone(PhonePairing pairing, List<byte[]> senderKeys)
            throws PhoneException {
        TreeMap<Integer, byte[]> fields = new TreeMap<>();
        fields.put(MAGIC, Bytes.of(pairing.platform().magic));
        fields.put(DEVICE_TOKEN, Bytes.of(pairing.deviceToken()));
        if (fields.get(DEVICE_TOKEN).length > MAXIMUM_TOKEN) {
            throw new PhoneException("a device token has at most 1024 bytes");
        }
        for (byte[] key : senderKeys) {
            if (key.length != 32 || senderKeys.size() > MAXIMUM_SENDER_KEYS) {
                throw new PhoneException("a handle has at most 8 sender keys of 32 bytes each");
            }
        }
        if (!senderKeys.isEmpty()) {
            fields.put(SENDER_KEYS, Bytes.join(senderKeys.toArray(new byte[0][])));
        }
        return fields;
    }

    private static byte[] encode(Map<Integer, byte[]> fields) {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        for (Map.Entry<Integer, byte[]> field : fields.entrySet()) {
            byte[] value = field.getValue();
            byte[] encoded = Bytes.join(Bytes.number(field.getKey(), 1), Bytes.number(value.length, 2), value);
            output.write(encoded, 0, encoded.length);
        }
        return output.toByteArray();
    }

    /**
     * The public key of an onion (rend-spec-v3, "Encoding onion addresses"), zeros for a host that is none.
     *
     * @throws PhoneException for a host with a port, and for one in {@code .onion} that is no onion address
     */
    static byte[] onionKey(String host) throws PhoneException {
        String[] labels = host.split("\\.");
        if (host.isEmpty() || host.indexOf(':') >= 0 || host.indexOf('/') >= 0) {
            throw new PhoneException("the host name of a node has no port and no path");
        }
        if (labels.length < 2 || !labels[labels.length - 1].equalsIgnoreCase("onion")) {
            return new byte[32];
        }
        byte[] address = Bytes.ofBase32(labels[labels.length - 2]);
        if (address == null || address.length != ONION_ADDRESS || !Arrays.equals(address, onionAddress(address))) {
            throw new PhoneException("not an onion address: a letter is wrong or missing");
        }
        return Arrays.copyOf(address, 32);
    }

    /** The address, with its checksum and version, of the public key at the beginning of these bytes. */
    private static byte[] onionAddress(byte[] address) {
        byte[] key = Arrays.copyOf(address, 32);
        byte[] message = Bytes.join(Bytes.of(".onion checksum"), key, new byte[] {3});
        SHA3Digest digest = new SHA3Digest(256);
        digest.update(message, 0, message.length);
        byte[] checksum = new byte[32];
        digest.doFinal(checksum, 0);
        return Bytes.join(key, Arrays.copyOf(checksum, 2), new byte[] {3});
    }

    /** What a proof of work is for. */
    byte[] digest() {
        return digest;
    }

    boolean isRegistration() {
        return type == REGISTER;
    }

    /**
     * The method of the request over HTTP.
     *
     * @return {@code POST}, {@code PUT} or {@code DELETE}
     */
    public String method() {
        return type == REGISTER ? "POST" : type == ROTATE ? "PUT" : "DELETE";
    }

    /**
     * The path of the request over HTTP.
     *
     * @return a path that begins with a slash
     */
    public String path() {
        return handle == null ? "/v1/handles" : "/v1/handles/" + Bytes.hex(handle.bytes());
    }

    /**
     * The body of the request over HTTP.
     *
     * @param proof what {@link HandleChallenge#solve} found; {@code null} for none
     * @return the fields, as on the wire
     */
    public byte[] body(byte[] proof) {
        TreeMap<Integer, byte[]> all = new TreeMap<>(fields);
        if (proof != null) {
            all.put(PROOF, proof);
        }
        return encode(all);
    }

    /**
     * The request as a frame of TNP.
     *
     * @param request a number, unique among the requests of a connection
     * @param proof what {@link HandleChallenge#solve} found; {@code null} for none
     * @return the frame
     */
    public byte[] frame(int request, byte[] proof) {
        return encode(type, Bytes.join(Bytes.number(request, 4), body(proof)));
    }

    static byte[] encode(int type, byte[] payload) {
        return Bytes.join(Bytes.number(1 + payload.length, 4), Bytes.number(type, 1), payload);
    }

    /** Prints nothing of the content. */
    @Override
    public String toString() {
        return "<HandleCall redacted>";
    }
}
