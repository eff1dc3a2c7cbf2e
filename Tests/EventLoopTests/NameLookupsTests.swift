// SPDX-License-Identifier: Apache-2.0

import Foundation
import Glibc
import Synchronization
import TestSupport
import Testing
import Time

@testable import EventLoop

/// Names whose name servers answer, and names whose name servers are silent.
@Suite(.tags(.sockets)) struct NameLookupsTests {
    /// A name server that answers for names that begin with `good`, and is silent for all others.
    private final class NameServer: Sendable {
        let port: UInt16
        private let descriptor: Int32
        /// How many questions for an IPv4 address it has got, by name.
        private let questions = Mutex<[String: Int]>([:])
        private let isAnswering = Mutex(true)

        init() throws {
            descriptor = socket(AF_INET, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let descriptor = descriptor
            let bound = withUnsafeMutableBytes(of: &address) { bytes -> Bool in
                let address = bytes.assumingMemoryBound(to: sockaddr.self).baseAddress
                return bind(descriptor, address, length) == 0 && getsockname(descriptor, address, &length) == 0
            }
            try #require(bound)
            port = UInt16(bigEndian: address.sin_port)
            Thread.detachNewThread { [self] in serve() }
        }

        func end() { shutdown(descriptor, Int32(SHUT_RDWR)) }

        func fallSilent() { isAnswering.withLock { $0 = false } }

        func count(of name: String) -> Int { questions.withLock { $0[name] ?? 0 } }

        private func serve() {
            var message = [UInt8](repeating: 0, count: 1500)
            while true {
                var sender = sockaddr_in()
                var length = socklen_t(MemoryLayout<sockaddr_in>.size)
                let count = withUnsafeMutableBytes(of: &sender) { from in
                    recvfrom(
                        descriptor, &message, message.count, 0,
                        from.assumingMemoryBound(to: sockaddr.self).baseAddress, &length)
                }
                guard count > 12 else { return }
                guard let answer = answer(to: Array(message.prefix(count))) else { continue }
                _ = withUnsafeBytes(of: &sender) { to in
                    sendto(
                        descriptor, answer, answer.count, 0, to.assumingMemoryBound(to: sockaddr.self).baseAddress,
                        length)
                }
            }
        }

        /// RFC 1035 §4.1; `nil` for silence.
        private func answer(to question: [UInt8]) -> [UInt8]? {
            var labels: [String] = []
            var at = 12
            while question[at] != 0 {
                let length = Int(question[at])
                labels.append(String(decoding: question[(at + 1)...(at + length)], as: UTF8.self).lowercased())
                at += length + 1
            }
            let isIPv4 = question[at + 2] == 1
            if isIPv4 { questions.withLock { $0[labels.joined(separator: "."), default: 0] += 1 } }
            guard labels[0].hasPrefix("good"), isAnswering.withLock(\.self) else { return nil }
            let head = question[..<2] + [0x81, 0x80, 0, 1, 0, isIPv4 ? 1 : 0, 0, 0, 0, 0] + question[12..<(at + 5)]
            return Array(head) + (isIPv4 ? [0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 9] : [])
        }
    }

    private func withServer(_ body: @Sendable (NameServer, isolated LoopDomain) async throws -> Void) async throws {
        let server = try NameServer()
        defer { server.end() }
        let file = URL.temporaryDirectory.appending(path: "tocsin-resolv-\(UUID().uuidString.prefix(8))").path()
        defer { try? FileManager.default.removeItem(atPath: file) }
        try Data("nameserver 127.0.0.1:\(server.port)\noptions timeout:600 attempts:1\n".utf8)
            .write(to: URL(filePath: file))
        try await LoopDomain(EventLoop(name: "names")).run { domain in
            domain.loop.openSystemFile = {
                $0 == ResolverSettings.resolvConf ? open(file, O_RDONLY | O_CLOEXEC) : nil
            }
            try await body(server, domain)
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
                    await failure(of: host, for: policy, within: .seconds(10), on: loop, isolation: domain)
                }
            }
        }
        #expect(
            await eventually {
                (policy == .any ? loop.names : loop.foreignNames)?.waitingCount == hosts.count
            })
        return tasks
    }

    @Test func `silent names of strangers do not hold up a name that the operator chose`() async throws {
        try await withServer { server, domain in
            let loop = domain.loop
            let hosts = (0..<NameLookups.maximumForeign).map { "silent\($0).example" }
            let silent = try await start(hosts, for: .publicOnly, on: domain)
            let apple = try await loop.resolve("good.example", port: 443, within: .seconds(60))
            #expect(apple.count == 1)
            let another = await failure(
                of: "other.example", for: .publicOnly, within: .seconds(60), on: loop, isolation: domain)
            #expect(another == .unknownHost("other.example: too many names are being looked up"))
            for task in silent { #expect(await task.value == .timedOut) }
            // Nobody waits any more, so there is room again.
            let again = try await loop.resolve("good2.example", port: 443, for: .publicOnly, within: .seconds(60))
            #expect(again.count == 1)
        }
    }

    @Test func `a host is looked up once for all who wait for it`() async throws {
        try await withServer { server, domain in
            let hosts = Array(repeating: "silent.example", count: 50)
            let tasks = try await start(hosts, for: .any, on: domain)
            for task in tasks { #expect(await task.value == .timedOut) }
            #expect(server.count(of: "silent.example") == 1)
        }
    }

    @Test func `the last good addresses serve while a lookup fails`() async throws {
        try await withServer { server, domain in
            let loop = domain.loop
            let first = try await loop.resolve("good.example", port: 443, within: .seconds(60))
            server.fallSilent()
            let second = try await loop.resolve("good.example", port: 444, within: .seconds(1))
            #expect(first.count == 1 && second.count == 1)
            guard case .ipv4(let address)? = second.first else {
                Issue.record("no IPv4 address")
                return
            }
            #expect(UInt16(bigEndian: address.sin_port) == 444)
        }
    }
}
