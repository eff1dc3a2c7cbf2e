// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Providers
import Settings
import TestSupport
import Testing

@testable import Admission
@testable import Delivery
@testable import Logging
@testable import NodeConfiguration
@testable import TocsinNode

/// Settings that a running node cannot change, with the keys reported for them.
private let fixed: [(String, [String])] = [
    ("[node]\nstate = \"/elsewhere\"", ["node.state"]),
    ("[node]\nlog_format = \"json\"", ["node.log_format"]),
    ("[listen]\ntnp = \"127.0.0.1:7178\"", ["listen"]),
    ("[listen]\ncircuit_ids = true", ["listen"]),
    ("[listen]\nhttp = \"127.0.0.1:7080\"", ["listen"]),
    ("[spool]\nenabled = true", ["spool"]),
    ("[limits]\nreplay_window = 60", ["limits.replay_window"]),
    ("[limits]\nreplay_entries = 1000", ["limits.replay_entries"]),
    ("[limits]\ndevice_tokens = 5000", ["limits.device_tokens"]),
    (
        "[node]\nstate = \"/elsewhere\"\nlog_format = \"json\"\n[limits]\nreplay_window = 60\nreplay_entries = 1000",
        ["node.state", "node.log_format", "limits.replay_window", "limits.replay_entries"]
    ),
]

@Suite(.tags(.sockets)) struct ReloadTests {
    @Test(arguments: fixed)
    func `a key that requires a restart is named and keeps its old value`(_ text: String, _ keys: [String]) throws {
        let old = try configuration()
        let new = try configuration(text)
        #expect(new.keysRequiringRestart(comparedTo: old) == keys)
        let merged = old.reloaded(from: new)
        #expect(merged.keysRequiringRestart(comparedTo: old) == [])
        #expect(merged.state == old.state)
        #expect(merged.logFormat == old.logFormat)
        #expect(merged.listen == old.listen)
        #expect(merged.spool == old.spool)
        #expect(merged.limits.replayWindow == old.limits.replayWindow)
        #expect(merged.limits.replayEntries == old.limits.replayEntries)
        #expect(merged.admission.deviceTokens == old.admission.deviceTokens)
        // The next start applies the change.
        #expect(merged.keysRequiringRestart(comparedTo: new) == keys)
    }

    @Test func `a change of the spool's settings requires a restart`() throws {
        let old = try configuration("[spool]\nenabled = true")
        for text in ["key_file = \"/keys/spool.key\"", "max_bytes = 65536"] {
            let new = try configuration("[spool]\nenabled = true\n\(text)")
            #expect(new.keysRequiringRestart(comparedTo: old) == ["spool"])
            #expect(old.reloaded(from: new).spool == old.spool)
        }
        let off = try configuration()
        #expect(off.keysRequiringRestart(comparedTo: old) == ["spool"])
        #expect(old.reloaded(from: off).spool == old.spool)
    }

    @Test func `an unchanged file requires no restart`() throws {
        let text = "[node]\nstate = \"/elsewhere\"\n[spool]\nenabled = true\n[limits]\nreplay_window = 60"
        let old = try configuration(text)
        #expect(try configuration(text).keysRequiringRestart(comparedTo: old) == [])
    }

    @Test func `a new log level takes effect at once`() throws {
        let merged = try configuration().reloaded(from: configuration("[node]\nlog = \"debug\""))
        #expect(merged.logLevel.rawValue == "debug")
    }

    @Test func `new limits take effect at once`() throws {
        typealias Limits = Configuration.Limits
        let limits: [(key: String, value: (Limits) -> Int)] = [
            (key: "in_flight", value: { $0.inFlight }),
            (key: "total_in_flight", value: { $0.totalInFlight }),
            (key: "handshake_timeout", value: { $0.handshakeTimeout }),
            (key: "idle_timeout", value: { $0.idleTimeout }),
            (key: "shutdown_timeout", value: { $0.shutdownTimeout }),
            (key: "attempts", value: { $0.attempts }),
            (key: "patience", value: { $0.patience }),
        ]
        let old = try configuration()
        for (key, value) in limits {
            let new = try configuration("[limits]\n\(key) = 17")
            #expect(new.keysRequiringRestart(comparedTo: old) == [], "\(key)")
            #expect(value(old.reloaded(from: new).limits) == 17, "\(key)")
        }
    }

    @Test func `delivery gets the new limits and keeps the old replay window`() throws {
        let new = try configuration(
            "[limits]\ntotal_in_flight = 17\nattempts = 7\npatience = 9\nreplay_window = 60\nreplay_entries = 1000")
        let merged = try configuration().reloaded(from: new).dispatchLimits
        #expect(merged.totalInFlight == 17)
        #expect(merged.retry.attempts == 7)
        #expect(merged.retry.patience == .seconds(9))
        #expect(merged.replaySeconds == 600)
        #expect(merged.replayEntries == 200_000)
    }

    @Test func `new apps, push services and proxies take effect at once`() throws {
        let old = try configuration()
        let new = try configuration(
            """
            [apns]
            production = "https://127.0.0.1:8443"
            max_connections = 3
            [fcm]
            endpoint = "https://fcm.example"
            [outbound]
            proxy = "http://127.0.0.1:3128"
            [[app]]
            name = "connect"
            format = "sealed"
            [app.fcm]
            service_account_file = "/keys/connect.json"
            [app.apns]
            topic = "a.b"
            certificate_file = "/keys/push.p12"
            """)
        #expect(new.keysRequiringRestart(comparedTo: old) == [])
        let merged = old.reloaded(from: new)
        #expect(merged.apps.map(\.name) == ["connect", "bisq"])
        let apple = try #require(merged.apps[0].delivery(APNsDelivery.self)).service
        #expect(apple.production.authority == "127.0.0.1:8443")
        #expect(apple.connections == 1...3)
        #expect(merged.apps[1].delivery(FCMDelivery.self)?.service.url.authority == "fcm.example")
        #expect(merged.outboundProxy == Proxy.http(Endpoint.tcp(host: "127.0.0.1", port: 3128)))
    }

    /// A configuration with these lines and one app.
    private func configuration(_ text: String = "") throws -> Configuration {
        let app = "[[app]]\nname = \"bisq\"\n[app.fcm]\nservice_account_file = \"firebase.json\"\n"
        return try Configuration(text: "\(text)\n\(app)", file: "/etc/tocsin/tocsin.toml")
    }
}
