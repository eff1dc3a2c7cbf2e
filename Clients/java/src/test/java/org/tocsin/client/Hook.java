// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;

/** The test hook for Tests/Conformance/run.py: takes commands as lines of JSON and reports each outcome as a line. */
public final class Hook {
    private Hook() {}

    /**
     * Runs until the end of standard input.
     *
     * @param arguments none
     * @throws IOException if standard input cannot be read
     */
    public static void main(String[] arguments) throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Object> options = Json.object(Json.parse(input.readLine()));
        TocsinClient.Builder builder = TocsinClient.builder()
                .workLimit(seconds(options.get("work_limit")))
                .patience(seconds(options.getOrDefault("patience", 600.0)))
                .connectTimeout(seconds(options.get("connect_timeout")));
        Json.list(options.get("nodes")).forEach(node -> builder.node((String) node));
        if (options.get("socks") == null) {
            builder.direct();
        } else {
            builder.socks(NodeAddress.parse((String) options.get("socks")));
        }
        if (Boolean.FALSE.equals(options.get("is_isolated"))) {
            builder.sharedCircuit();
        }
        TocsinClient client = builder.build();
        Map<Integer, CompletableFuture<Outcome>> futures = new HashMap<>();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Map<String, Object> command = Json.object(Json.parse(line));
            if (command.containsKey("submit")) {
                submit(client, command, futures);
            } else if (command.containsKey("cancel")) {
                futures.get(number(command.get("cancel"))).cancel(false);
            } else if (command.containsKey("close")) {
                client.close();
            }
        }
        System.exit(0);
    }

    private static void submit(
            TocsinClient client, Map<String, Object> command, Map<Integer, CompletableFuture<Outcome>> futures) {
        int id = number(command.get("submit"));
        try {
            Envelope envelope = new Envelope(
                    Magic.of((String) command.get("magic")).orElseThrow(),
                    (String) command.get("device_token"),
                    HexFormat.of().parseHex((String) command.get("iv")),
                    HexFormat.of().parseHex((String) command.get("ciphertext")),
                    command.get("format").equals("pipe") ? EnvelopeFormat.PIPE : EnvelopeFormat.SEALED,
                    Envelope.Options.DEFAULT.withApp((String) command.getOrDefault("app", "")));
            TocsinClient.Submission submission =
                    new TocsinClient.Submission(envelope).timeout(seconds(command.get("timeout")));
            if (command.containsKey("pairing")) {
                submission.signedFor(PairingToken.parse((String) command.get("pairing")));
            }
            if (Boolean.TRUE.equals(command.get("accept_queued"))) {
                submission.acceptQueued(Boolean.TRUE.equals(command.get("returns_when_queued")));
            }
            CompletableFuture<Outcome> future = client.submit(submission);
            futures.put(id, future);
            future.whenComplete((outcome, error) -> report(id, outcome, error));
        } catch (RejectionException error) {
            print("{\"id\":" + id + ",\"error\":\"rejected\",\"reason\":" + error.reason() + "}");
        } catch (PairingException error) {
            throw new IllegalArgumentException(error);
        }
    }

    private static void report(int id, Outcome outcome, Throwable error) {
        if (outcome != null) {
            print("{\"id\":" + id + ",\"outcome\":\"" + outcome.kind().name().toLowerCase(java.util.Locale.ROOT)
                    + "\",\"reason\":" + outcome.reason() + ",\"retry_after\":" + outcome.retryAfter() + ",\"text\":"
                    + text(outcome.text()) + ",\"provider_id\":" + text(outcome.providerId()) + "}");
        } else if (error instanceof CancellationException) {
            print("{\"id\":" + id + ",\"error\":\"cancelled\"}");
        } else {
            SubmissionException failure = (SubmissionException) error;
            String name =
                    switch (failure.kind()) {
                        case NODE_UNREACHABLE -> "unreachable";
                        case PROXY_UNREACHABLE -> "proxy_unreachable";
                        case NO_RESULT -> "no_result";
                        case NO_WELCOME -> "no_welcome";
                        case REFUSED -> "refused";
                        case QUEUE_FULL -> "queue_full";
                        case CLOSED -> "closed";
                    };
            print("{\"id\":" + id + ",\"error\":\"" + name + "\",\"text\":" + Json.quoted(failure.getMessage()) + "}");
        }
    }

    private static String text(Optional<String> text) {
        return text.map(Json::quoted).orElse("null");
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static int number(Object value) {
        return ((Double) value).intValue();
    }

    private static Duration seconds(Object value) {
        return Duration.ofMillis(Math.round((Double) value * 1000));
    }
}
