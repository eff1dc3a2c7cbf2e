// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP
import TocsinClient

@testable import tocsin_bench

/// Several senders that submit distinct envelopes with 256 to 288 bytes of ciphertext. The phones take turns: as many
/// envelopes as a node has device tokens are each for another phone.
actor Senders {
    private nonisolated let loop = EventLoop(name: "senders")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let clients: [TocsinClient]
    /// One for each length of ciphertext, with device tokens of its own.
    private var generators: [EnvelopeGenerator]
    private var turn = 0
    private var left = 0
    private var delivered = 0
    private var failure = ""

    private static let ciphertextLengths = [256, 272, 288]
    /// The time limit of a submission.
    private static let timeout = Duration.seconds(60)

    /// Senders that submit to `node`, each on a connection of its own.
    /// - Parameter count: the number of senders.
    init(_ count: Int, to node: ReleaseNode) {
        clients = (0..<count).map { [loop] _ in
            TocsinClient(
                TocsinClient.Options(nodes: [node.endpoint], patience: .zero, isolatesPhones: false), on: loop)
        }
        let lengths = Self.ciphertextLengths
        generators = lengths.indices.map { kind in
            let tokens = node.deviceTokens.enumerated().filter { $0.offset % lengths.count == kind }.map(\.element)
            return EnvelopeGenerator([.iOS: tokens], ciphertextLength: lengths[kind])
        }
    }

    /// Submits envelopes until `count` are delivered or one is not. Each sender keeps `inFlight` submissions in flight.
    /// - Throws: ``ReleaseNode/Failure`` if an envelope is not delivered.
    func deliver(_ count: Int, inFlight: Int) async throws {
        (left, delivered) = (count, 0)
        await withTaskGroup { group in
            for client in clients {
                for _ in 0..<inFlight { group.addTask { await self.closedLoop(client) } }
            }
        }
        guard delivered == count else {
            throw ReleaseNode.Failure(description: "\(delivered) of \(count) envelopes delivered, then: \(failure)")
        }
    }

    /// Submits `each` envelopes per sender and does not wait for their outcomes; ``close()`` abandons them.
    func submit(each: Int) {
        for client in clients {
            for _ in 0..<each {
                let envelope = next()
                Task { try? await client.submit(envelope, timeout: Self.timeout) }
            }
        }
    }

    /// Closes the connections.
    func close() async {
        for client in clients { await client.close() }
    }

    private func closedLoop(_ client: TocsinClient) async {
        while left > 0 {
            left -= 1
            do {
                let outcome = try await client.submit(next(), timeout: Self.timeout)
                if outcome.kind == .delivered {
                    delivered += 1
                } else {
                    fail("\(outcome.kind.name), \(outcome.reason)")
                }
            } catch {
                fail("\(error)")
            }
        }
    }

    private func fail(_ text: String) {
        (left, failure) = (0, text)
    }

    private func next() -> Envelope {
        turn += 1
        return generators[turn % generators.count].next(.iOS)
    }
}
