// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TestSupport
import Testing

@testable import Cluster
@testable import Redis

@Suite(.tags(.computing)) struct PrimaryChoiceTests {
    private let old = Endpoint.tcp(host: "10.0.0.1", port: 6379)
    private let new = Endpoint.tcp(host: "10.0.0.2", port: 6379)

    private func reply(_ texts: [String]) -> RedisReply { .array(texts.map { .bytes(Array($0.utf8)) }) }

    private func named(_ host: String, facts: [String]) -> NamedPrimary? {
        NamedPrimary(address: reply([host, "6379"]), facts: reply(facts))
    }

    @Test func `a promoted replica is newer than its epoch, until the Sentinels have finished`() {
        let facts = ["name", "tocsin", "ip", "10.0.0.1", "port", "6379", "config-epoch", "7"]
        #expect(named("10.0.0.1", facts: facts) == NamedPrimary(old, epoch: 14))
        #expect(named("10.0.0.2", facts: facts) == NamedPrimary(new, epoch: 15))
        #expect(
            named("10.0.0.2", facts: facts.map { $0 == "10.0.0.1" ? "10.0.0.2" : $0 == "7" ? "8" : $0 })
                == NamedPrimary(new, epoch: 16))
    }

    @Test func `an answer that is none is refused`() {
        let facts = ["ip", "10.0.0.1", "port", "6379", "config-epoch", "7"]
        #expect(NamedPrimary(address: reply([]), facts: reply(facts)) == nil)
        #expect(NamedPrimary(address: reply(["10.0.0.1", "70000"]), facts: reply(facts)) == nil)
        for epoch in ["", "-1", "x", "9223372036854775807"] {
            #expect(named("10.0.0.1", facts: facts.map { $0 == "7" ? epoch : $0 }) == nil)
        }
        #expect(named("10.0.0.1", facts: []) == nil && named("10.0.0.1", facts: ["config-epoch"]) == nil)
    }

    @Test func `the highest epoch decides, whoever says it`() {
        var choice = PrimaryChoice(sentinels: 3)
        for sentinel in 0..<3 { choice.heard(NamedPrimary(old, epoch: 14), from: sentinel) }
        choice.heard(NamedPrimary(new, epoch: 15), from: 1)
        #expect(choice.primary?.endpoint == new)
        // A Sentinel that was cut off, or has not heard of it.
        choice.heard(NamedPrimary(old, epoch: 14), from: 2)
        choice.heard(NamedPrimary(old, epoch: 14), from: 0)
        #expect(choice.primary?.endpoint == new)
        choice.heard(NamedPrimary(new, epoch: 16), from: 1)
        #expect(choice.primary == NamedPrimary(new, epoch: 16))
    }

    @Test func `two names of one server do not alternate`() {
        var choice = PrimaryChoice(sentinels: 2)
        for _ in 0..<3 {
            choice.heard(NamedPrimary(old, epoch: 0), from: 0)
            choice.heard(NamedPrimary(new, epoch: 0), from: 1)
            #expect(choice.primary?.endpoint == old)
        }
        choice.lost(0)
        choice.heard(NamedPrimary(new, epoch: 0), from: 1)
        #expect(choice.primary?.endpoint == new)
    }

    @Test func `epochs may begin again if all Sentinels say so`() {
        var choice = PrimaryChoice(sentinels: 2)
        for sentinel in 0..<2 { choice.heard(NamedPrimary(new, epoch: 16), from: sentinel) }
        choice.heard(NamedPrimary(old, epoch: 0), from: 0)
        #expect(choice.primary?.endpoint == new)
        choice.heard(NamedPrimary(old, epoch: 0), from: 1)
        #expect(choice.primary?.endpoint == old)
    }
}
