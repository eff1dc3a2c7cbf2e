// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Foundation
import StandIns
import TNP
import TestSupport
import Testing
import TocsinClient

@testable import Time

/// Known problems of other gateways (pushy#865, APNSwift#93, sygnal#104 and many more), each as a rule for this node:
/// tested with a real node, real HTTP/2 and TLS, and stand-ins that misbehave.
@Suite(.tags(.node)) struct NodeDeliveryTests {
    private func submit(
        _ count: Int, to phone: Phone, by client: TocsinClient, on stage: Stage, named name: String = "n",
        acceptQueued: Bool = false
    ) async -> [Outcome?] {
        await withTaskGroup(of: Outcome?.self, returning: [Outcome?].self) { group in
            for index in 0..<count {
                group.addTask {
                    guard let envelope = try? stage.envelope(for: phone, title: "\(name) \(index)") else { return nil }
                    return try? await client.submit(envelope, timeout: .seconds(60), acceptQueued: acceptQueued)
                }
            }
            var outcomes: [Outcome?] = []
            for await outcome in group { outcomes.append(outcome) }
            return outcomes
        }
    }

    private func phone(_ magic: Magic, on stage: Stage) async -> Phone {
        let phone = Phone.new(magic, model: "test")
        await stage.services.register(phone)
        return phone
    }

    private func allDelivered(_ outcomes: [Outcome?]) -> Bool { outcomes.allSatisfy { $0?.kind == .delivered } }

    // MARK: Connections

    @Test(arguments: [false, true])
    func `GOAWAY and refused streams lose nothing and repeat nothing`(_ isEarly: Bool) async throws {
        let stage = Stage()
        try await stage.start()
        var faults = Faults()
        faults.goAwayEvery = 20
        faults.goAwayIsEarly = isEarly
        faults.resetPerMille = 50
        faults.resetCodes = [7]
        let phones = (await phone(.iOS, on: stage), await phone(.android, on: stage))
        for platform in [Device.Platform.apnsProduction, .fcm] { try await stage.services.set(faults, on: platform) }
        let client = stage.client()
        async let apple = submit(300, to: phones.0, by: client, on: stage)
        async let google = submit(100, to: phones.1, by: client, on: stage)
        #expect(allDelivered(await apple))
        #expect(allDelivered(await google))
        let received = await stage.services.received
        #expect(received.count == 400)
        #expect(Set(received.map(\.encrypted)).count == 400)
        #expect(await stage.services.connectionsAccepted(.apnsProduction) > 3)
        await client.close()
        await stage.end()
    }

    @Test func `a refused stream for the access token is retried, and senders see no error`() async throws {
        for _ in 0..<4 {
            let stage = Stage()
            try await stage.start()
            let phone = await phone(.android, on: stage)
            var faults = Faults()
            faults.resetPerMille = 500
            faults.resetCodes = [7]
            try await stage.services.set(faults, on: .fcm)
            let client = stage.client()
            #expect(allDelivered(await submit(10, to: phone, by: client, on: stage)))
            await client.close()
            await stage.end()
        }
    }

    @Test func `a black-holed connection is detected and replaced, and each envelope rings once`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = await phone(.iOS, on: stage)
        let client = stage.client()
        #expect(allDelivered(await submit(1, to: phone, by: client, on: stage, named: "before")))
        var hole = Faults()
        hole.isBlackHole = true
        try await stage.services.set(hole, on: .apnsProduction)
        // The open connection remains a black hole; new connections are served.
        try await stage.services.set(Faults(), on: .apnsProduction)
        #expect(allDelivered(await submit(5, to: phone, by: client, on: stage)))
        #expect(await stage.services.connectionsAccepted(.apnsProduction) == 2)
        // The black hole delivered nothing: each envelope was sent again and rang the phone once.
        #expect(await stage.services.received.count == 6)
        await client.close()
        await stage.end()
    }

    /// Connections that fail after 100 of 150 envelopes: the kind of failure.
    @Test(arguments: ["silent", "stall"])
    func `envelopes on a failed connection are delivered over the next one`(_ fault: String) async throws {
        let stage = Stage()
        try await stage.start()
        let phone = await phone(.iOS, on: stage)
        var faults = Faults()
        if fault == "silent" { faults.silentAfter = 100 } else { faults.stallsAfter = 100 }
        try await stage.services.set(faults, on: .apnsProduction)
        let client = stage.client()
        let outcomes = await submit(150, to: phone, by: client, on: stage)
        #expect(allDelivered(outcomes), "\(outcomes.count { $0?.kind == .retry }) RETRY")
        #expect(stage.log.count(of: "breaker=open") == 0)
        await client.close()
        await stage.end()
    }

    @Test func `the pool grows if SETTINGS allows only one stream, and all envelopes are delivered`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = await phone(.iOS, on: stage)
        let client = stage.client()
        #expect(allDelivered(await submit(1, to: phone, by: client, on: stage, named: "before")))
        var cut = Faults()
        cut.concurrentStreams = 1
        cut.latency = .fixed(20)
        try await stage.services.set(cut, on: .apnsProduction)
        #expect(allDelivered(await submit(200, to: phone, by: client, on: stage)))
        let grown = await stage.services.connections(.apnsProduction)
        #expect(grown > 1 && grown <= 8)
        try await stage.services.set(Faults(), on: .apnsProduction)
        #expect(allDelivered(await submit(200, to: phone, by: client, on: stage, named: "after")))
        #expect(await stage.services.received.count == 401)
        await client.close()
        await stage.end()
    }

    @Test func `a request of unknown outcome is replayed once with the same apns-id and collapse id`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = await phone(.iOS, on: stage)
        var faults = Faults()
        faults.resetPerMille = 300
        faults.resetCodes = [2]
        try await stage.services.set(faults, on: .apnsProduction)
        let client = stage.client()
        // A few at a time: the resets of a batch come before its other answers, and eight in a row open the breaker.
        var outcomes: [Outcome?] = []
        for batch in 1...10 { outcomes += await submit(6, to: phone, by: client, on: stage, named: "\(batch)") }
        // Nine of a hundred are reset twice: their senders get RETRY, because delivery is uncertain.
        #expect(outcomes.allSatisfy { $0?.kind == .delivered || $0?.reason == .providerUnreachable })
        #expect(outcomes.contains { $0?.kind == .delivered })
        let received = await stage.services.received
        let requests = await stage.services.requests(.apnsProduction)
        #expect(requests <= 120)
        // About nine of sixty are reset after Apple has accepted them.
        #expect(Dictionary(grouping: received, by: \.encrypted).values.contains { $0.count == 2 })
        for copies in Dictionary(grouping: received, by: \.encrypted).values {
            #expect(copies.count <= 2)
            #expect(Set(copies.map(\.id)).count == 1 && Set(copies.map(\.collapseID)).count == 1)
        }
        await client.close()
        await stage.end()
    }

    // MARK: Provider tokens

    @Test func `10 000 concurrent first requests mint one provider token and one access token`() async throws {
        let stage = Stage()
        try await stage.start()
        let phones = (await phone(.iOS, on: stage), await phone(.android, on: stage))
        let clients = (0..<10).map { _ in stage.client() }
        await withTaskGroup { group in
            for (index, client) in clients.enumerated() {
                let phone = index % 2 == 0 ? phones.0 : phones.1
                group.addTask {
                    let outcomes = await submit(1000, to: phone, by: client, on: stage, named: "\(index)")
                    #expect(allDelivered(outcomes))
                }
            }
        }
        #expect(await stage.services.providerTokensSeen(.apnsProduction) == 1)
        #expect(await stage.services.accessTokensIssued == 1)
        for client in clients { await client.close() }
        await stage.end()
    }

    @Test func `a restart keeps the provider token`() async throws {
        let stage = Stage()
        let endpoints = try await stage.start()
        let phone = await phone(.iOS, on: stage)
        for name in ["first", "second"] {
            let client = stage.client()
            #expect(allDelivered(await submit(1, to: phone, by: client, on: stage, named: name)))
            await client.close()
            _ = await stage.stopNode()
            if name == "first" { try await stage.startNode(stage.configuration(endpoints)) }
        }
        #expect(await stage.services.providerTokensSeen(.apnsProduction) == 1)
        let files = try FileManager.default.contentsOfDirectory(atPath: "\(stage.directory)/state")
        let file = try #require(files.first { $0.hasSuffix(".token") })
        let attributes = try FileManager.default.attributesOfItem(atPath: "\(stage.directory)/state/\(file)")
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        await stage.end()
    }

    @Test func `the log names a wrong clock and how far it is off`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = await phone(.iOS, on: stage)
        let client = stage.client()
        #expect(allDelivered(await submit(1, to: phone, by: client, on: stage, named: "before")))
        await stage.services.moveClock(by: 7200)
        let outcomes = await submit(1, to: phone, by: client, on: stage)
        #expect(outcomes.first??.reason == .credentialsRefused)
        let alarm = stage.log.lines.first { $0.contains("ExpiredProviderToken") }
        #expect(alarm?.contains("this machine's clock is 7") == true)
        #expect(alarm?.contains("behind the provider's") == true)
        // The node does not send the next envelope, and reports a retry-after.
        let next = await submit(1, to: phone, by: client, on: stage, named: "next").first ?? nil
        #expect(next?.kind == .retry && next?.reason == .credentialsRefused)
        #expect((30_000...80_000).contains(next?.retryAfter ?? 0))
        await client.close()
        await stage.end()
    }

    @Test func `an access token that Google rejects is renewed once, and the request is replayed`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = await phone(.android, on: stage)
        let client = stage.client()
        #expect(allDelivered(await submit(1, to: phone, by: client, on: stage, named: "before")))
        // One second later the access token expires for Google, while the node's clock still says that it is valid.
        await stage.services.moveClock(by: 3599)
        try await Task.sleep(for: .milliseconds(1100))
        #expect(allDelivered(await submit(1, to: phone, by: client, on: stage)))
        #expect(await stage.services.accessTokensIssued == 2)
        await client.close()
        await stage.end()
    }

    // MARK: Device tokens

    @Test func `a device token of the other environment is delivered there, and the node remembers it`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = Phone.new(.iOS, model: "test")
        await stage.services.set(
            Device(platform: .apnsDevelopment, app: "bisqremote.joachimneumann.com"), for: phone.pairing.deviceToken)
        let client = stage.client()
        let first = await submit(1, to: phone, by: client, on: stage, named: "first").first ?? nil
        #expect(first?.kind == .delivered && first?.text?.contains("other environment") == true)
        #expect(await stage.services.requests(.apnsProduction) == 1)
        #expect(allDelivered(await submit(5, to: phone, by: client, on: stage)))
        #expect(await stage.services.requests(.apnsProduction) == 1)
        #expect(await stage.services.requests(.apnsDevelopment) == 6)
        await client.close()
        await stage.end()
    }

    @Test func `a token unknown in both environments is tried once in each, then answered from memory`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = Phone.new(.iOS, model: "test")
        let client = stage.client()
        for name in ["first", "second", "third"] {
            let outcome = await submit(1, to: phone, by: client, on: stage, named: name).first ?? nil
            #expect(outcome?.kind == .rejected && outcome?.reason == .badDeviceToken)
        }
        #expect(await stage.services.requests(.apnsProduction) == 1)
        #expect(await stage.services.requests(.apnsDevelopment) == 1)
        await client.close()
        await stage.end()
    }

    @Test func `a surge of token refusals raises an alarm, and no phone is reported as gone`() async throws {
        let stage = Stage()
        try await stage.start()
        let client = stage.client()
        var reasons: [Reason] = []
        for index in 0..<40 {
            let foreign = Phone.new(.iOSDev, model: "test")
            // As if the configuration had another app's topic.
            await stage.services.set(
                Device(platform: .apnsDevelopment, app: "another.app"), for: foreign.pairing.deviceToken)
            let outcomes = await submit(1, to: foreign, by: client, on: stage, named: "\(index)")
            if let outcome = outcomes.first ?? nil { reasons.append(outcome.reason) }
        }
        #expect(reasons.first == .badDeviceToken)
        #expect(reasons.suffix(20).allSatisfy { $0 == .credentialsRefused })
        #expect(stage.log.count(of: "rejects most device tokens") == 1)
        // During the surge the node does not report a phone as gone.
        let gone = Phone.new(.iOSDev, model: "test")
        await stage.services.set(
            Device(
                platform: .apnsDevelopment, app: "bisqremote.joachimneumann.com", state: .unregistered(since: 5)),
            for: gone.pairing.deviceToken)
        let outcome = await submit(1, to: gone, by: client, on: stage, named: "gone").first ?? nil
        #expect(outcome?.kind == .retry)
        await client.close()
        await stage.end()
    }

    @Test func `a 410 older than the last delivery is believed only after a second 410`() async throws {
        let stage = Stage()
        try await stage.start(limits: "patience = 0")
        let phone = await phone(.iOS, on: stage)
        let client = stage.client()
        #expect(allDelivered(await submit(1, to: phone, by: client, on: stage, named: "alive")))
        await stage.services.set(
            Device(
                platform: .apnsProduction, app: "bisqremote.joachimneumann.com", state: .unregistered(since: 1000)),
            for: phone.pairing.deviceToken)
        let first = await submit(1, to: phone, by: client, on: stage, named: "first").first ?? nil
        #expect(first?.kind == .retry)
        let second = await submit(1, to: phone, by: client, on: stage, named: "second").first ?? nil
        #expect(second?.kind == .gone && second?.goneSince == 1000)
        await client.close()
        await stage.end()
    }

    // MARK: Bulkheads

    @Test func `a black hole at one push service does not delay the others`() async throws {
        let stage = Stage()
        try await stage.start()
        let phones = (
            await phone(.iOS, on: stage), await phone(.iOSDev, on: stage), await phone(.android, on: stage)
        )
        var hole = Faults()
        hole.isBlackHole = true
        try await stage.services.set(hole, on: .apnsProduction)
        let clients = (0..<3).map { _ in stage.client() }
        let stuck = Task { await submit(50, to: phones.0, by: clients[0], on: stage, named: "stuck") }
        #expect(allDelivered(await submit(50, to: phones.1, by: clients[1], on: stage, named: "dev")))
        #expect(allDelivered(await submit(50, to: phones.2, by: clients[2], on: stage, named: "google")))
        // All this happened while the stuck envelopes had no outcome.
        #expect(await stage.services.received.count == 100)
        let outcomes = await stuck.value
        #expect(outcomes.allSatisfy { $0?.kind == .retry && $0?.reason == .providerUnreachable })
        #expect(outcomes.allSatisfy { ($0?.retryAfter ?? 0) > 0 })
        // The breaker is open: the next envelope gets its outcome at once.
        #expect(stage.log.count(of: "breaker=open") >= 1)
        let next = await submit(1, to: phones.0, by: clients[0], on: stage, named: "next").first ?? nil
        #expect(next?.reason == .providerUnreachable)
        for client in clients { await client.close() }
        await stage.end()
    }

    @Test func `the sender gets Google's Retry-After`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = await phone(.android, on: stage)
        var faults = Faults()
        faults.errors = [Faults.ErrorAnswer(perMille: 1000, status: 503, reason: "UNAVAILABLE", retryAfter: 90)]
        try await stage.services.set(faults, on: .fcm)
        let client = stage.client()
        let outcomes = await submit(12, to: phone, by: client, on: stage)
        #expect(outcomes.allSatisfy { $0?.kind == .retry && $0?.reason == .providerUnreachable })
        #expect(outcomes.contains { $0?.retryAfter == 90_000 })
        await client.close()
        await stage.end()
    }

    @Test func `TooManyRequests pauses that device only`() async throws {
        let stage = Stage()
        try await stage.start()
        let busy = Phone.new(.iOS, model: "test")
        await stage.services.set(
            Device(
                platform: .apnsProduction, app: "bisqremote.joachimneumann.com",
                state: .answers(status: 429, reason: "TooManyRequests", retryAfter: 40)),
            for: busy.pairing.deviceToken)
        let other = await phone(.iOS, on: stage)
        let client = stage.client()
        let first = await submit(1, to: busy, by: client, on: stage, named: "first").first ?? nil
        #expect(first?.reason == .providerThrottles && first?.retryAfter == 40_000)
        let requestsBefore = await stage.services.requests(.apnsProduction)
        let second = await submit(1, to: busy, by: client, on: stage, named: "second").first ?? nil
        #expect(second?.reason == .providerThrottles && (30_000...40_000).contains(second?.retryAfter ?? 0))
        #expect(await stage.services.requests(.apnsProduction) == requestsBefore)
        #expect(allDelivered(await submit(20, to: other, by: client, on: stage)))
        await client.close()
        await stage.end()
    }

    @Test func `an overloaded node answers busy, and accepts envelopes again when it has room`() async throws {
        let stage = Stage()
        try await stage.start(limits: "total_in_flight = 10")
        let phone = await phone(.iOS, on: stage)
        var slow = Faults()
        slow.latency = .fixed(500)
        try await stage.services.set(slow, on: .apnsProduction)
        let client = stage.client()
        let outcomes = await submit(60, to: phone, by: client, on: stage)
        let taken = outcomes.count { $0?.kind == .delivered }
        // A lane uses at most half of the limit, plus one.
        #expect(taken >= 5 && taken <= 10)
        #expect(outcomes.count { $0?.reason == .nodeBusy && ($0?.retryAfter ?? 0) > 0 } == 60 - taken)
        #expect(allDelivered(await submit(5, to: phone, by: client, on: stage, named: "after")))
        #expect(await stage.services.received.count == taken + 5)
        await client.close()
        await stage.end()
    }

    // MARK: Duplicates

    @Test func `a resend in flight joins the first, a later one gets the same outcome`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = await phone(.iOS, on: stage)
        var slow = Faults()
        slow.latency = .fixed(300)
        try await stage.services.set(slow, on: .apnsProduction)
        let envelope = try stage.envelope(for: phone)
        let clients = (0..<4).map { _ in stage.client() }
        let outcomes = await withTaskGroup(of: Outcome?.self, returning: [Outcome?].self) { group in
            for client in clients { group.addTask { try? await client.submit(envelope, timeout: .seconds(60)) } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(allDelivered(outcomes))
        let later = try await clients[0].submit(envelope, timeout: .seconds(60))
        #expect(later.kind == .delivered && later.providerID == outcomes.first??.providerID)
        #expect(await stage.services.requests(.apnsProduction) == 1)
        // A final rejection is repeated without another request.
        let unregistered = Phone.new(.android, model: "test")
        let refused = try stage.envelope(for: unregistered)
        for _ in 0..<3 {
            let outcome = try await clients[0].submit(refused, timeout: .seconds(60))
            #expect(outcome.reason == .badDeviceToken)
        }
        // One of the two requests was for an access token.
        #expect(await stage.services.requests(.fcm) == 2)
        for client in clients { await client.close() }
        await stage.end()
    }

    @Test func `a reused iv with another ciphertext is rejected`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = await phone(.iOS, on: stage)
        let first = try stage.envelope(for: phone, title: "first")
        let second = try Envelope(
            magic: .iOS, deviceToken: first.deviceToken, iv: first.iv,
            ciphertext: Array(first.ciphertext.reversed())[...], format: .pipe)
        let client = stage.client()
        #expect(try await client.submit(first, timeout: .seconds(60)).kind == .delivered)
        let outcome = try await client.submit(second, timeout: .seconds(60))
        #expect(outcome.kind == .rejected && outcome.reason == .ivReused)
        #expect(await stage.services.received.count == 1)
        await client.close()
        await stage.end()
    }

    // MARK: Time

    @Test func `a notification whose ttl expires in the node is rejected and never delivered`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = await phone(.iOS, on: stage)
        var faults = Faults()
        faults.errors = [Faults.ErrorAnswer(perMille: 1000, status: 500)]
        try await stage.services.set(faults, on: .apnsProduction)
        let envelope = try Sealer(phone.pairing).seal(
            BisqNotification(kind: .price, title: "t", message: "m", sentDate: 1).json, ttl: 2)
        let client = stage.client()
        let outcome = try await client.submit(envelope, timeout: .seconds(60))
        #expect(outcome.kind == .rejected && outcome.reason == .ttlRanOut)
        try await stage.services.set(Faults(), on: .apnsProduction)
        try await Task.sleep(for: .seconds(1))
        #expect(await stage.services.received.isEmpty)
        await client.close()
        await stage.end()
    }

    @Test func `the node itself retries a push service that has recovered`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = await phone(.iOS, on: stage)
        var faults = Faults()
        faults.errors = [Faults.ErrorAnswer(perMille: 1000, status: 500)]
        try await stage.services.set(faults, on: .apnsProduction)
        let client = stage.client()
        let outcomes = Task { await submit(3, to: phone, by: client, on: stage) }
        try await Task.sleep(for: .milliseconds(500))
        try await stage.services.set(Faults(), on: .apnsProduction)
        #expect(allDelivered(await outcomes.value))
        #expect(await stage.services.requests(.apnsProduction) >= 6)
        await client.close()
        await stage.end()
    }

    // MARK: Log

    @Test func `an outage of a push service logs fewer than 20 lines and no device token`() async throws {
        let stage = Stage()
        try await stage.start(limits: "patience = 0")
        let phone = await phone(.iOS, on: stage)
        var faults = Faults()
        faults.errors = [Faults.ErrorAnswer(perMille: 1000, status: 503)]
        try await stage.services.set(faults, on: .apnsProduction)
        let client = stage.client()
        _ = await submit(500, to: phone, by: client, on: stage)
        let lines = stage.log.lines.filter { !$0.hasPrefix("debug") && !$0.hasPrefix("trace") }
        #expect(lines.count < 20)
        for line in stage.log.lines {
            #expect(!line.contains(phone.pairing.deviceToken) && !line.contains("BisqMessage"))
        }
        await client.close()
        await stage.end()
    }
}
