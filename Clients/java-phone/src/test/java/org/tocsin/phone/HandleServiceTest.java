// SPDX-License-Identifier: Apache-2.0
package org.tocsin.phone;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** The phone's requests about handles, at a node that answers from a script. */
class HandleServiceTest {
    private static final String HOST = "127.0.0.1";
    private static final String DIGITS = String.join("", Collections.nCopies(32, "ab"));
    private static final String ACCEPTED = "200 {\"handle\":\"" + DIGITS + "\"}";

    private final PhonePairing phone = PhonePairing.create(Platform.ANDROID, "a device token", "a|b\n");

    /** A node with these answers, one after another; the last one repeats. */
    private static final class Node implements HandleService.Transport {
        private final ArrayDeque<String> answers;
        private final List<String> seen = new ArrayList<>();
        private final List<Integer> lengths = new ArrayList<>();

        Node(String... answers) {
            this.answers = new ArrayDeque<>(Arrays.asList(answers));
        }

        @Override
        public HandleService.Answer send(String host, String method, String path, byte[] body) {
            seen.add(method + " " + path);
            lengths.add(body.length);
            String answer = answers.size() > 1 ? answers.remove() : answers.peek();
            return new HandleService.Answer(Integer.parseInt(answer.substring(0, 3)), Bytes.of(answer.substring(4)));
        }

        HandleService service() {
            return new HandleService(HandleOwner.create(), 0, this);
        }
    }

    private static String refused(int status, String outcome, int reason) {
        return status + " {\"outcome\":\"" + outcome + "\",\"reason\":" + reason + ",\"retryAfterMillis\":0,\"text\":\"why\"}";
    }

    private static String challenge(String onion, long effort) {
        return "200 {\"seed\":\"" + Bytes.hex(new byte[16]) + "\",\"effort\":" + effort + ",\"lifetime\":60,\"onion\":\""
                + onion + "\"}";
    }

    @Test
    void aRegisterWithoutAProofIsSentAgainWithOne() throws Exception {
        Node node = new Node(refused(503, "RETRY", 203), challenge(Bytes.hex(new byte[32]), 50), ACCEPTED);
        PhoneHandle handle = node.service().register(HOST, phone, "", Collections.emptyList());
        assertEquals(PhoneHandle.PREFIX + DIGITS, handle.reveal());
        assertEquals(
                Arrays.asList("POST /v1/handles", "GET /v1/handles/challenge", "POST /v1/handles"), node.seen);
        assertEquals(node.lengths.get(0) + 3 + 16, node.lengths.get(2));
    }

    @Test
    void allHandlesAreRotatedAlsoPastOneThatTheNodeDoesNotKnow() throws Exception {
        Node node = new Node(refused(503, "RETRY", 202), ACCEPTED, refused(410, "GONE", 310), ACCEPTED);
        List<HandleService.Entry> handles = new ArrayList<>();
        for (int number = 1; number <= 3; number++) {
            byte[] bytes = new byte[32];
            Arrays.fill(bytes, (byte) number);
            handles.add(new HandleService.Entry(HOST, new PhoneHandle(bytes), Collections.emptyList()));
        }
        Map<HandleService.Entry, Exception> failures = node.service().rotate(handles, phone);
        assertEquals(1, failures.size());
        assertEquals(
                RefusedException.Outcome.GONE,
                ((RefusedException) failures.values().iterator().next()).outcome());
        assertEquals(4, node.seen.size());
        assertTrue(node.seen.get(0).startsWith("PUT /v1/handles/0101"));
    }

    @Test
    void aHandleThatTheNodeDoesNotKnowIsForgotten() throws Exception {
        HandleService.Entry handle =
                new HandleService.Entry(HOST, PhoneHandle.parse(DIGITS), Collections.emptyList());
        new Node(refused(410, "GONE", 310)).service().forget(handle);
        HandleService other = new Node(refused(400, "REJECTED", 311)).service();
        assertEquals(311, assertThrows(RefusedException.class, () -> other.forget(handle)).reason());
    }

    @Test
    void anAnswerOfAnythingElseIsAnError() {
        String zeros = Bytes.hex(new byte[32]);
        for (String answer : new String[] {"404 not found", "200 {}", "500 ", "502 <html>", "400 {\"outcome\":\"MAYBE\"}"}) {
            HandleService service = new Node(answer).service();
            assertThrows(PhoneException.class, () -> service.register(HOST, phone, "", Collections.emptyList()));
        }
        for (String answer : new String[] {challenge(DIGITS, 1), challenge(zeros, 1L << 31), "503 "}) {
            Node node = new Node(refused(503, "RETRY", 203), answer);
            assertThrows(
                    PhoneException.class, () -> node.service().register(HOST, phone, "", Collections.emptyList()));
            assertEquals(2, node.seen.size());
        }
        HandleService unreachable = new HandleService(HandleOwner.create(), 0, (host, method, path, body) -> {
            throw new IOException("no tor");
        });
        assertThrows(IOException.class, () -> unreachable.register(HOST, phone, "", Collections.emptyList()));
    }

    @Test
    void aNodeThatIsFullIsAskedAgainAndOneThatAsksForAnHourIsNot() throws Exception {
        Node full = new Node("503 {\"status\":503,\"error\":\"too many connections\"}", "429 <html>", ACCEPTED);
        full.service().register(HOST, phone, "", Collections.emptyList());
        assertEquals(3, full.seen.size());
        Node hour = new Node("503 {\"outcome\":\"RETRY\",\"reason\":202,\"retryAfterMillis\":3600000,\"text\":\"x\"}");
        assertThrows(
                RefusedException.class, () -> hour.service().register(HOST, phone, "", Collections.emptyList()));
        assertEquals(1, hour.seen.size());
    }

    @Test
    void aHostileNodeGetsNoEndlessWork() throws Exception {
        byte[] welcome = new byte[45];
        welcome[2] = 1 << 4;
        welcome[40] = 1;
        HandleCall call = HandleCall.register(phone, "", Collections.emptyList(), 1, HOST, HandleOwner.create());
        byte[] frame = HandleCall.encode(0x02, welcome);
        HandleExchange twice = new HandleExchange(call);
        twice.receive(frame, frame.length);
        assertThrows(PhoneException.class, () -> twice.receive(frame, frame.length));
        byte[] again = HandleCall.encode(0x11, new byte[] {0, 0, 0, 1, 3, 0, (byte) 203, 0, 0, 0, 0});
        HandleExchange endless = new HandleExchange(call);
        endless.receive(frame, frame.length);
        assertThrows(PhoneException.class, () -> {
            for (int count = 0; count < 5; count++) {
                endless.receive(again, again.length);
            }
        });
        assertThrows(RefusedException.class, () -> new HandleExchange(call).receive(again, again.length));
    }

    @Test
    void hostsAreCheckedBeforeSomethingIsSignedForThem() throws Exception {
        String onion = "bisqpushv56wo32w2dv7xacvvcrnow6gud5vkvftwsgevczmspzvqgad.onion";
        assertEquals(32, HandleCall.onionKey(onion).length);
        for (String wrong : new String[] {"", onion + ":80", "abc.onion", onion.replace("qgad", "qgae"), "\u0013.onion"}) {
            assertThrows(PhoneException.class, () -> HandleCall.onionKey(wrong));
        }
    }

    @Test
    void secretsAreNotPrinted() throws Exception {
        for (Object value : new Object[] {
            phone, PhoneHandle.parse(DIGITS), HandleOwner.create(), WebPushReceiver.create(),
            HandleCall.forget(PhoneHandle.parse(DIGITS), 1, "x", HandleOwner.create())
        }) {
            assertTrue(value.toString().endsWith(" redacted>"));
        }
        assertTrue(phone.reveal().startsWith("android|a b |"));
        assertEquals(phone.reveal(), PhonePairing.parse(phone.reveal()).reveal());
    }
}
