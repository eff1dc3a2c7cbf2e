// SPDX-License-Identifier: Apache-2.0

import Glibc
import StandIns
import TestSupport
import Testing
import Time

@testable import EventLoop

/// Names whose name servers answer, and names whose name servers are silent.
@Suite(.tags(.sockets)) struct NameLookupsTests {
    /// Answers names that begin with `good` at once, unless the test forbids it. Other names wait until the test ends them.
    private final class StandInNames: NameService {
        private var waiting: [(NameAnswer) -> Void] = []
        private(set) var questions: [String] = []
        var isAnswering = true

        func lookUp(_ host: String, _ result: @escaping (NameAnswer) -> Void) {
            questions.append(host)
            guard isAnswering, host.hasPrefix("good") else { return waiting.append(result) }
            result(.addresses([HostAddress(bytes: [192, 0, 2, 9])!]))
        }

        /// As the system does after a while.
        func giveUp() {
            for result in waiting { result(.failure("no name server", isUnknown: false)) }
            waiting = []
        }
    }

    private func withNames(_ body: @Sendable (StandInNames, isolated LoopDomain) async throws -> Void) async throws {
        try await LoopDomain(EventLoop(name: "names")).run { domain in
            let names = StandInNames()
            domain.loop.nameService = names
            try await body(names, domain)
        }
    }

    private func failure(
        of host: String, for policy: AddressPolicy, within time: Duration, on loop: EventLoop,
        isolation: isolated (any Actor)? = #isolation
    ) async -> StreamError? {
        do throws(StreamError) {
            _ = try await loop.resolve(host, port: 1, for: policy, within: time)
            return nil
        } catch {
            return error
        }
    }

    /// Starts lookups, and returns once all wait.
    private func start(
        _ hosts: [String], for policy: AddressPolicy, on domain: isolated LoopDomain
    ) async throws -> [Task<StreamError?, Never>] {
        let loop = domain.loop
        let tasks = hosts.map { host in
            Task {
                await LoopDomain(loop).run { domain in
                    await failure(of: host, for: policy, within: .milliseconds(50), on: loop, isolation: domain)
                }
            }
        }
        for task in tasks { #expect(await task.value == .timedOut) }
        return tasks
    }

    @Test func `silent names of strangers do not hold up a name that the operator chose`() async throws {
        try await withNames { names, domain in
            let loop = domain.loop
            let maximum = AddressPolicy.foreign.maximumLookups
            _ = try await start((0..<maximum).map { "silent\($0).example" }, for: .foreign, on: domain)
            for policy in [AddressPolicy.any, .publicOnly] {
                let chosen = try await loop.resolve("good.example", port: 443, for: policy, within: .seconds(60))
                #expect(chosen.count == 1)
            }
            let another = await failure(
                of: "good.example", for: .foreign, within: .seconds(60), on: loop, isolation: domain)
            #expect(another == .unknownHost("good.example: too many names are being looked up"))
            names.giveUp()
            let again = try await loop.resolve("good.example", port: 443, for: .foreign, within: .seconds(60))
            #expect(again.count == 1)
        }
    }

    @Test func `a host is looked up once for all who wait for it`() async throws {
        try await withNames { names, domain in
            _ = try await start(Array(repeating: "silent.example", count: 50), for: .any, on: domain)
            let questions = names.questions
            #expect(questions == ["silent.example"])
        }
    }

    @Test func `the last good addresses serve while a lookup fails`() async throws {
        try await withNames { names, domain in
            let loop = domain.loop
            let first = try await loop.resolve("good.example", port: 443, within: .seconds(60))
            names.isAnswering = false
            let second = try await loop.resolve("good.example", port: 444, within: .milliseconds(20))
            #expect(first.count == 1 && second.count == 1)
            guard case .ipv4(let address)? = second.first else {
                Issue.record("no IPv4 address")
                return
            }
            #expect(UInt16(bigEndian: address.sin_port) == 444)
        }
    }

    @Test func `what is no name is not looked up`() async throws {
        try await withNames { names, domain in
            for host in ["", "good.example\0.example", "good" + String(repeating: "a", count: 250)] {
                let error = await failure(of: host, for: .any, within: .seconds(60), on: domain.loop, isolation: domain)
                guard case .unknownHost? = error else {
                    Issue.record("\(host.count) bytes: \(String(describing: error))")
                    return
                }
            }
            let questions = names.questions
            #expect(questions.isEmpty)
        }
    }

    @Test func `the system's names are looked up in this process unless another one does it`() async throws {
        try await LoopDomain(EventLoop(name: "names")).run { domain in
            let loop = domain.loop
            let local = try await loop.resolve("localhost", port: 1, within: .seconds(60))
            #expect(!local.isEmpty)
            // RFC 6761 §6.4.
            let error = await failure(
                of: "nobody.invalid", for: .any, within: .seconds(60), on: loop, isolation: domain)
            #expect(error != nil)
        }
    }
}
