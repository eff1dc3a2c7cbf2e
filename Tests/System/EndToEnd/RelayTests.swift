// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import Settings
import StandIns
import TNP
import TestSupport
import Testing
import TocsinClient

@testable import AdminPort
@testable import Diagnostics
@testable import NodeConfiguration

/// A node without credentials, which passes envelopes on to a node that has them (PROTOCOL §9).
@Suite(.tags(.node)) struct RelayTests {
    private static let spool = "[spool]\nenabled = true"

    /// The configuration of a node whose only app has this upstream.
    private static func configuration(_ upstream: Endpoint, keys: String = "", more: String = "") -> String {
        """
        [node]
        log = "trace"
        [listen]
        tnp = "unix:tnp.sock"
        http = "unix:http.sock"
        \(SimulatedConfiguration.unlimitedRates)
        patience = 3
        [[app]]
        name = "bisq"
        [app.upstream]
        node = "\(upstream)"
        direct = true
        \(keys)
        \(more)
        """
    }

    /// Starts a node with this upstream.
    private func relay(to upstream: Endpoint, keys: String = "", more: String = "") async throws -> Stage {
        let stage = Stage()
        try FileManager.default.createDirectory(atPath: stage.directory, withIntermediateDirectories: true)
        try await stage.startNode(Self.configuration(upstream, keys: keys, more: more))
        return stage
    }

    private func phone(_ magic: Magic, on stage: Stage) async -> Phone {
        let phone = Phone.new(magic, model: "test")
        await stage.services.register(phone)
        return phone
    }

    /// A request as Bisq 1 sends it.
    private func bisq(_ phone: Phone, _ stage: Stage) throws -> [UInt8] {
        BisqRelayRequest(try stage.envelope(for: phone)).bytes(host: "localhost")
    }

    @Test func `a sender rings each kind of phone through two nodes`() async throws {
        let upstream = Stage()
        try await upstream.start()
        let home = try await relay(to: upstream.socket)
        let client = home.client()
        for magic in Magic.appleAndGoogle {
            let phone = await phone(magic, on: upstream)
            let envelope = try home.envelope(for: phone, title: "for \(magic)")
            let outcome = try await client.submit(envelope, timeout: .seconds(60))
            #expect(outcome.kind == .delivered)
            let received = try #require(await upstream.received(phone.deviceToken).first)
            #expect(outcome.providerID == received.id)
            #expect(try phone.open(received.encrypted).title == "for \(magic)")
            if magic != .android { #expect(received.id == String(decoding: envelope.apnsID, as: UTF8.self)) }
            // A resend rings once, at whichever node it arrives.
            #expect(try await client.submit(envelope, timeout: .seconds(60)).kind == .delivered)
            let direct = upstream.client()
            #expect(try await direct.submit(envelope, timeout: .seconds(60)).kind == .delivered)
            await direct.close()
            #expect(await upstream.received(phone.deviceToken).count == 1)
        }
        await client.close()
        await home.end()
        await upstream.end()
    }

    @Test func `an HTTP request rings through two nodes, and the first node binds the phone at the second`()
        async throws
    {
        let upstream = Stage()
        try await upstream.start()
        let home = try await relay(to: upstream.socket)
        let phone = await phone(.iOS, on: upstream)
        #expect(try await home.ask(bisq(phone, home)).status == 200)
        #expect(await upstream.received(phone.deviceToken).count == 1)
        // The second node knows the key of the first: nobody else rings this phone there.
        let direct = upstream.client()
        let unsigned = try await direct.submit(try upstream.envelope(for: phone), timeout: .seconds(60))
        #expect(unsigned.reason == .senderKeyRequired)
        let stolen = try await direct.submit(
            try upstream.envelope(for: phone), timeout: .seconds(60),
            signedBy: Ed25519.PrivateKey(seed: [UInt8](repeating: 7, count: 32)))
        #expect(stolen.reason == .senderKeyMismatch)
        // The key survives a restart of the first node.
        #expect(await home.stopNode())
        try await home.startNode(Self.configuration(upstream.socket))
        #expect(try await home.ask(bisq(phone, home)).status == 200)
        await direct.close()
        await home.end()
        await upstream.end()
    }

    @Test func `a node is a site of its upstream node, and a wrong key says so`() async throws {
        let key = try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: 3, count: 32)))
        let site = "key = \"\(String(decoding: Base64.encode(key.publicKey), as: UTF8.self))\""
        let upstream = Stage()
        try await upstream.start(
            gates: "[puzzle]\nmode = \"always\"",
            more: "[sites]\nmode = \"required\"\n[[site]]\nname = \"home\"\n\(site)")
        for (seed, isKnown) in [(UInt8(3), true), (4, false)] {
            let home = Stage()
            try FileManager.default.createDirectory(atPath: home.directory, withIntermediateDirectories: true)
            try PrivateFile.create("\(home.directory)/site.key", holding: [UInt8](repeating: seed, count: 32))
            try await home.startNode(Self.configuration(upstream.socket, keys: "site_key = \"site.key\""))
            let phone = await phone(.iOS, on: upstream)
            let client = home.client()
            let outcome = try await client.submit(try home.envelope(for: phone), timeout: .seconds(60))
            #expect((outcome.kind == .delivered) == isKnown, "\(outcome)")
            if !isKnown {
                let failures = await home.snapshot?.upstreams.compactMap(\.failure) ?? []
                #expect(failures.contains { $0.contains("does not know this site key") }, "\(failures)")
            }
            await client.close()
            await home.end()
        }
        await upstream.end()
    }

    @Test func `a node whose site key cannot be read does not start`() async throws {
        let home = Stage()
        try FileManager.default.createDirectory(atPath: home.directory, withIntermediateDirectories: true)
        let error = await #expect(throws: ConfigurationError.self) {
            try await home.startNode(
                Self.configuration(.tcp(host: "127.0.0.1", port: 1), keys: "site_key = \"none.key\""))
        }
        #expect(error?.key?.hasSuffix("upstream.site_key") == true)
        #expect(error?.description.contains("none.key") == true)
        await home.end()
    }

    @Test func `a phone rings by handle through two nodes, also from the spool and across a ROTATE`() async throws {
        let upstream = Stage()
        let endpoints = try await upstream.start()
        let more = "\(Self.spool)\n[handles]\nenabled = true"
        let home = try await relay(to: upstream.socket, more: more)
        let owner = try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: 1, count: 32)))
        var phone = await phone(.iOS, on: upstream)
        var client = home.client()
        let handle = try await client.register(phone.handleRegistration(), owner: owner)
        let pairing = try PairingToken(phone.pairingToken(by: handle))
        let key = Ed25519.PrivateKey(ofSenderFor: pairing)
        func envelope(_ title: String) throws -> Envelope {
            try Sealer(pairing).seal(BisqNotification(kind: .trade, title: title, message: "", sentDate: 1).json)
        }
        #expect(try await client.submit(try envelope("1"), timeout: .seconds(60), signedBy: key).kind == .delivered)
        #expect(await upstream.received(phone.deviceToken).count == 1)
        phone = await upstream.services.giveNewDeviceToken(to: phone)
        #expect(try await client.submit(try envelope("2"), timeout: .seconds(60), signedBy: key).kind == .gone)
        try await client.rotate(handle, to: phone.handleRegistration(), owner: owner)

        // Stored by one process, delivered by the next, and the resend of what it delivered rings no more.
        #expect(await upstream.stopNode())
        let stored = try envelope("3")
        let queued = try await client.submit(
            stored, timeout: .seconds(60), acceptQueued: true, returnsWhenQueued: true, signedBy: key)
        #expect(queued.kind == .queued)
        await client.close()
        #expect(await home.stopNode())
        try await upstream.startNode(upstream.configuration(endpoints))
        try await home.startNode(Self.configuration(upstream.socket, more: more))
        for _ in 0..<6000 where await upstream.received(phone.deviceToken).isEmpty {
            try await Task.sleep(for: .milliseconds(100))
        }
        client = home.client()
        #expect(try await client.submit(stored, timeout: .seconds(60), signedBy: key).kind == .delivered)
        let received = await upstream.received(phone.deviceToken)
        #expect(try received.map { try phone.open($0.encrypted).title } == ["3"])
        // An unmodified Bisq 1 has the handle where it expects a device token.
        let answer = try await home.ask(BisqRelayRequest(try envelope("4")).bytes(host: "localhost"))
        #expect(answer.status == 200)
        #expect(await upstream.received(phone.deviceToken).count == 2)
        await client.close()
        await home.end()
        await upstream.end()
    }

    @Test func `a sender's signature survives, also in the spool`() async throws {
        let upstream = Stage()
        let endpoints = try await upstream.start()
        let home = try await relay(to: upstream.socket, more: Self.spool)
        let phone = await phone(.android, on: upstream)
        #expect(await upstream.stopNode())
        let client = home.client()
        let key = Ed25519.PrivateKey(ofSenderFor: phone.pairing)
        let queued = try await client.submit(
            try home.envelope(for: phone), timeout: .seconds(60), acceptQueued: true, returnsWhenQueued: true,
            signedBy: key)
        #expect(queued.kind == .queued)
        await client.close()
        #expect(await home.stopNode())
        try await upstream.startNode(upstream.configuration(endpoints))
        try await home.startNode(Self.configuration(upstream.socket, more: Self.spool))
        for _ in 0..<6000 where await upstream.received(phone.deviceToken).isEmpty {
            try await Task.sleep(for: .milliseconds(100))
        }
        #expect(await upstream.received(phone.deviceToken).count == 1)
        let direct = upstream.client()
        let unsigned = try await direct.submit(try upstream.envelope(for: phone), timeout: .seconds(60))
        #expect(unsigned.reason == .senderKeyRequired)
        let own = try await direct.submit(try upstream.envelope(for: phone), timeout: .seconds(60), signedBy: key)
        #expect(own.kind == .delivered)
        await direct.close()
        await home.end()
        await upstream.end()
    }

    @Test func `the upstream's answers come back with their meaning`() async throws {
        let upstream = Stage()
        try await upstream.start(limits: "patience = 0")
        let home = try await relay(to: upstream.socket)
        let topic = "bisqremote.joachimneumann.com"
        let states: [(Device?, Outcome.Kind, Reason)] = [
            (nil, .rejected, .badDeviceToken),
            (Device(platform: .apnsProduction, app: topic, state: .unregistered(since: 77)), .gone, .unregistered),
            // The upstream searches Apple's other environment; this node must not do so again.
            (Device(platform: .apnsDevelopment, app: topic), .delivered, .none),
            (Device(platform: .apnsProduction, app: "other"), .rejected, .badDeviceToken),
        ]
        let client = home.client()
        for (device, kind, reason) in states {
            let phone = Phone.new(.iOS, model: "test")
            await upstream.services.set(device, for: phone.pairing.deviceToken)
            let outcome = try await client.submit(try home.envelope(for: phone), timeout: .seconds(60))
            #expect(outcome.kind == kind && outcome.reason == reason)
            if kind == .gone { #expect(outcome.goneSince == 77) }
        }
        await client.close()
        await home.end()
        await upstream.end()
    }

    @Test func `envelopes wait in the spool while the upstream is down, and ring once each`() async throws {
        let upstream = Stage()
        let endpoints = try await upstream.start()
        let home = try await relay(to: upstream.socket, more: Self.spool)
        let phone = await phone(.iOS, on: upstream)
        #expect(await upstream.stopNode())
        let client = home.client()
        for index in 0..<20 {
            let outcome = try await client.submit(
                try home.envelope(for: phone, title: "\(index)"), timeout: .seconds(60), acceptQueued: true,
                returnsWhenQueued: true)
            #expect(outcome.kind == .queued)
        }
        // Without the spool, the sender learns soon that it must try again.
        let refused = try await client.submit(try home.envelope(for: phone), timeout: .seconds(60))
        #expect(refused.kind == .retry && refused.reason == .providerUnreachable)
        try await upstream.startNode(upstream.configuration(endpoints))
        for _ in 0..<6000 where await upstream.received(phone.deviceToken).count < 20 {
            try await Task.sleep(for: .milliseconds(100))
        }
        let received = await upstream.received(phone.deviceToken)
        #expect(received.count == 20 && Set(received.map(\.encrypted)).count == 20)
        await client.close()
        await home.end()
        await upstream.end()
    }

    @Test func `nodes that pass envelopes to each other reject them`() async throws {
        let (first, second) = (Stage(), Stage())
        for (stage, other) in [(first, second), (second, first)] {
            try FileManager.default.createDirectory(atPath: stage.directory, withIntermediateDirectories: true)
            try await stage.startNode(Self.configuration(other.socket))
        }
        let client = first.client()
        let phone = Phone.new(.iOS, model: "test")
        let outcome = try await client.submit(try first.envelope(for: phone), timeout: .seconds(60))
        #expect(outcome.kind == .rejected && outcome.reason == .tooManyHops)
        await client.close()
        await second.end()
        // A node that passes envelopes to itself.
        #expect(await first.stopNode())
        try await first.startNode(Self.configuration(first.socket))
        let again = first.client()
        let own = try await again.submit(try first.envelope(for: phone), timeout: .seconds(60))
        #expect(own.kind == .rejected && own.reason == .tooManyHops)
        await again.close()
        await first.end()
    }

    @Test func `the node solves the upstream's puzzles, and refuses those beyond its limit`() async throws {
        for (effort, kind, reason) in [
            (20_000, Outcome.Kind.delivered, Reason.none), (4_294_967_295, .retry, .nodeBusy),
        ] {
            let upstream = Stage()
            let puzzle = "mode = \"always\"\neffort = \(effort)\nmax_effort = 4294967295"
            try await upstream.start(
                gates: SimulatedConfiguration.unlimitedRates.replacing("mode = \"off\"", with: puzzle))
            let home = try await relay(to: upstream.socket)
            let phone = await phone(.iOS, on: upstream)
            let client = home.client()
            let outcome = try await client.submit(try home.envelope(for: phone), timeout: .seconds(60))
            #expect(outcome.kind == kind && outcome.reason == reason)
            await client.close()
            await home.end()
            await upstream.end()
        }
    }

    @Test func `an upstream that does not speak TNP gets the sender a RETRY`() async throws {
        let upstream = Stage()
        try await upstream.start()
        let home = try await relay(to: upstream.httpSocket)
        let client = home.client()
        let phone = Phone.new(.iOS, model: "test")
        let outcome = try await client.submit(try home.envelope(for: phone), timeout: .seconds(60))
        #expect(outcome.kind == .retry && outcome.reason == .providerUnreachable, "\(outcome)")
        await client.close()
        await home.end()
        await upstream.end()
    }

    @Test func `a second node takes over while the first one is down`() async throws {
        let (down, upstream) = (Stage(), Stage())
        try await upstream.start()
        let home = Stage()
        try FileManager.default.createDirectory(atPath: home.directory, withIntermediateDirectories: true)
        let text = Self.configuration(upstream.socket)
        try await home.startNode(
            text.replacing("node = \"\(upstream.socket)\"", with: "node = [\"\(down.socket)\", \"\(upstream.socket)\"]")
        )
        let client = home.client()
        for number in 0..<3 {
            let phone = await phone(.android, on: upstream)
            let outcome = try await client.submit(try home.envelope(for: phone), timeout: .seconds(60))
            #expect(outcome.kind == .delivered, "\(number)")
        }
        #expect(await home.snapshot?.upstreams.map(\.isReachable) == [false, true])
        #expect(await home.snapshot?.routes.allSatisfy { $0.breaker == "closed" } == true)
        await client.close()
        await home.end()
        await upstream.end()
        await down.end()
    }

    @Test func `one sender's invented device tokens do not stop the others`() async throws {
        let upstream = Stage()
        try await upstream.start()
        let home = try await relay(to: upstream.socket)
        let client = home.client()
        for _ in 0..<12 {
            // Google answers so about the token of a web app, which anybody can invent.
            let phone = Phone.new(.android, model: "test")
            await upstream.services.set(
                Device(
                    platform: .fcm, app: "bisqnotifications",
                    state: .answers(status: 401, reason: "THIRD_PARTY_AUTH_ERROR", retryAfter: nil)),
                for: phone.deviceToken)
            let outcome = try await client.submit(try home.envelope(for: phone), timeout: .seconds(60))
            #expect(outcome.kind == .retry)
        }
        let honest = await phone(.android, on: upstream)
        let outcome = try await client.submit(try home.envelope(for: honest), timeout: .seconds(60))
        #expect(outcome.kind == .delivered)
        await client.close()
        await home.end()
        await upstream.end()
    }

    @Test func `check, dashboard and metrics show the upstream`() async throws {
        let upstream = Stage()
        try await upstream.start()
        let home = try await relay(to: upstream.socket)
        func check(_ keys: String = "") async throws -> [Finding] {
            let text = Self.configuration(upstream.socket, keys: keys)
            var configuration = try Configuration(text: text, file: "\(home.directory)/check.toml")
            configuration.decideTor(path: "")
            let check = NodeCheck(configuration, searchPath: "", on: EventLoop(name: "check"))
            return await check.upstreams(through: .tcp(host: "127.0.0.1", port: 1))
        }
        let good = try await check()
        #expect(good.map(\.grade) == [.ok] && good[0].text.hasPrefix("the node answers and serves bisq on iOS"))
        let wrong = try await check("app = \"other\"")
        #expect(wrong.map(\.grade) == [.failed] && wrong[0].text.contains("not other: set app"))
        #expect(await home.snapshot?.upstreams.map(\.isReachable) == [nil])
        let phone = await phone(.iOS, on: upstream)
        let client = home.client()
        #expect(try await client.submit(try home.envelope(for: phone), timeout: .seconds(60)).kind == .delivered)
        let shown = try #require(await home.snapshot?.upstreams.first)
        #expect(shown.node == "\(upstream.socket)" && shown.connections == 1 && shown.isReachable == true)
        try await Task.sleep(for: .milliseconds(1500))
        let metrics = await home.metrics
        let labels = "{app=\"bisq\",node=\"\(upstream.socket)\"}"
        #expect(metrics.contains("tocsin_upstream_connections\(labels) 1\n"))
        #expect(metrics.contains("tocsin_upstream_reachable\(labels) 1\n"))
        #expect(metrics.contains("provider=\"upstream-apns\""))
        #expect(await upstream.stopNode())
        let refused = try await client.submit(try home.envelope(for: phone), timeout: .seconds(60))
        #expect(refused.kind == .retry)
        #expect(await home.snapshot?.upstreams.first?.isReachable == false)
        #expect(try await check().map(\.grade) == [.failed])
        await client.close()
        await home.end()
        await upstream.end()
    }

    @Test func `an app with another name at the upstream is renamed, and this node signs for its senders`() async throws
    {
        let upstream = Stage()
        try await upstream.start(more: Stage.profile(.bisqConnect))
        for (name, reason) in [("bisq", Reason.none), ("unknown", .credentialsRefused)] {
            let home = try await relay(to: upstream.socket, keys: "app = \"\(name)\"")
            let phone = await phone(.iOS, on: upstream)
            let client = home.client()
            let outcome = try await client.submit(
                try home.envelope(for: phone), timeout: .seconds(60),
                signedBy: Ed25519.PrivateKey(ofSenderFor: phone.pairing))
            #expect(outcome.reason == reason)
            await client.close()
            await home.end()
        }
        await upstream.end()
    }
}
