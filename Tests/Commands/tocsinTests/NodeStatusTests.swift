// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import tocsin

@Suite(.tags(.computing)) struct NodeStatusTests {
    /// What a node answers, with what it has not left out.
    private static let json = """
        {"now":1790000000,"name":"attic","version":"1.1.0","uptime_seconds":90061,"ready":true,"reasons":[],
         "health":{"grade":"bad","summary":"Nothing is delivered on bisq/iOS: InvalidProviderToken","reasons":["one","two"],
          "see":["operations.md#a","operations.md#b"]},
         "connections":{"tnp":3,"http":1},"circuits":4,"in_flight":2,"spool":{"envelopes":17,"bytes":2048},"handles":null,
         "hour":[{"start":0,"delivered":4,"rejected":1,"retry":2,"gone":3},{"start":60,"delivered":5,"rejected":0,"retry":0,"gone":0}],
         "day":[],"refusals":[{"reason":"over its rate","last_hour":7,"total":9},{"reason":"other","last_hour":0,"total":1}],
         "routes":[
          {"name":"bisq/iOS","state":"shut","breaker":"open","last_delivery":1789999940,"shut_since":1789999280,
           "shut_after":"InvalidProviderToken","next_probe_seconds":9,"in_flight":2,"waiting":1},
          {"name":"bisq/iOSDev","state":"suspect","breaker":"closed","last_delivery":null,"shut_since":null,"shut_after":null,
           "in_flight":0,"waiting":0},
          {"name":"bisq/android","state":"working","breaker":"closed","last_delivery":1789999999,"in_flight":0,"waiting":0},
          {"name":"bisq/web","state":"untried","breaker":"closed","last_delivery":null,"in_flight":0,"waiting":0}],
         "tor":{"address":"a.onion","bootstrap_percent":100,"published":true,"onions":[],"restarts":0,"warning":null},
         "machine":[{"name":"disk","used":30,"of":40},{"name":"x","used":1,"of":null}],
         "alarms":[{"time":1789999280,"level":"error","text":"circuit breaker opened","count":3,"set_up":false},
          {"time":1,"level":"warning","text":"spool.enabled is off","count":1,"set_up":true}],"unknown":[1]}
        """

    @Test func `the text says first what users get, then each route`() throws {
        let lines = try NodeStatus(json: Array(Self.json.utf8)).lines
        #expect(
            lines.prefix(4) == [
                "bad: Nothing is delivered on bisq/iOS: InvalidProviderToken", "  one", "  two",
                "  what to do: operations.md#a, operations.md#b",
            ])
        for line in [
            "attic: tocsin 1.1.0, up for 1 day 1 hour, at 2026-09-21 14:13 UTC", "onion      a.onion, published",
            "senders    3 over TNP, 1 over HTTP; 2 in flight",
            "last hour  9 delivered, 1 rejected, 2 to retry, 3 gone", "refused    in the last hour: 7 × over its rate",
            "bisq/iOS      shut after InvalidProviderToken, since 2026-09-21 14:01 UTC, last delivery 1 minute ago, "
                + "2 in flight, 1 queued",
            "bisq/iOSDev   not tried; its credential does not work on another route",
            "bisq/android  working, last delivery 1 second ago", "bisq/web      not tried yet",
            "  2026-09-21 14:01 UTC  error (3 times)  circuit breaker opened", "machine    disk 75 %", "set-up:",
            "  spool.enabled is off",
        ] { #expect(lines.contains(line), "\(line)") }
    }

    @Test func `an answer of another program is an error`() {
        for text in ["", "{}", "[]", "{\"now\":1}"] {
            #expect(throws: (any Error).self) { try NodeStatus(json: Array(text.utf8)) }
        }
    }
}
