// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP
import TestSupport
import Testing

@testable import TocsinClient

/// The error that a caller gets if the node gives no outcome.
@Suite(.tags(.sockets)) struct ClientErrorTests {
    private func failure(_ options: TocsinClient.Options, on loop: EventLoop) async throws -> ClientError? {
        let client = TocsinClient(options, on: loop)
        let envelope = try Envelope(
            magic: .iOS, deviceToken: Array("ab".utf8)[...], iv: [UInt8](repeating: 48, count: 16)[...],
            ciphertext: [UInt8](repeating: 0, count: 16)[...], format: .pipe)
        let error = await #expect(throws: ClientError.self) { try await client.submit(envelope, timeout: .seconds(1)) }
        await client.close()
        return error
    }

    @Test func `a silent node is reported as noWelcome, not as unreachable`() async throws {
        let node = FakeNode(on: EventLoop(name: "test"))
        let error = try await failure(TocsinClient.Options(nodes: [try await node.start()]), on: node.loop)
        guard case .noWelcome = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        await node.end()
    }

    @Test func `an unreachable proxy is reported instead of the node`() async throws {
        let loop = EventLoop(name: "test")
        // Nothing listens on port 1.
        let proxy = Endpoint.tcp(host: "127.0.0.1", port: 1)
        let error = try await failure(
            TocsinClient.Options(nodes: [.tcp(host: "node.example", port: 7077)], proxy: .socks5(proxy, nil)), on: loop)
        guard case .proxyUnreachable(let endpoint, _) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(endpoint == proxy)
    }

    @Test func `the sequences of requests about handles in the same millisecond differ`() {
        let sequences = (0..<1000).map { _ in TocsinClient.nextSequence() }
        #expect(zip(sequences, sequences.dropFirst()).allSatisfy(<))
    }
}
