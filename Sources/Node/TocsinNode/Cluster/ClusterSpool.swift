// SPDX-License-Identifier: Apache-2.0

import Cluster
import Delivery
import Redis
import TNP
import Time

/// Shares stored envelopes with the other nodes: each node keeps its own on disk and a sealed copy in the engine. If a
/// node ends, the others take its envelopes over.
final class ClusterSpool: RedisReceiver {
    /// Maximum number of envelopes taken over at a time.
    private static let batch = 256
    /// Time between two questions for envelopes of ended nodes.
    private static let interval = Duration.seconds(5)

    private let engine: Engine
    private let outbox: EngineOutbox
    private unowned let dispatch: Dispatch
    private var asksNext = MonotonicTime(nanoseconds: 0)
    private var isAsking = false
    /// How many envelopes the last question asked for.
    private var room = 0
    /// Receives the number of envelopes that were taken over.
    var report: (Int) -> Void = { _ in }

    init(_ engine: Engine, _ outbox: EngineOutbox, for dispatch: Dispatch) {
        self.engine = engine
        self.outbox = outbox
        self.dispatch = dispatch
    }

    /// Copies an envelope that this node has stored on disk to the engine. If the engine cannot be used, this happens
    /// when the node claims the envelope again.
    func keep(_ envelope: SpooledEnvelope) {
        guard engine.status.isAvailable else { return }
        let keys = StoredEnvelopeKeys(envelope.envelope.digest, in: engine.names)
        let sealed = engine.names.seal(envelope.encoded, of: keys.envelope)
        outbox.send(engine.claims.keep(keys, sealed: sealed, for: .seconds(envelope.expires - UnixTime.now)))
    }

    /// Asks for envelopes of ended nodes from time to time. Call this once a second.
    func secondPassed() {
        guard !isAsking, asksNext <= .now else { return }
        room = min(Self.batch, dispatch.roomToAdopt)
        guard room > 0 else { return }
        asksNext = .now + Self.interval
        isAsking = engine.send(engine.claims.adopt(upTo: room, in: engine.names), number: 0, for: self)
    }

    func replied(_ number: UInt64, _ reply: Result<RedisReply, RedisError>) {
        isAsking = false
        guard let adopted = try? reply.get().elements, !adopted.isEmpty else { return }
        var count = 0
        for parts in adopted {
            guard let parts = parts.elements, parts.count == 2, let key = parts[0].bytes, let sealed = parts[1].bytes,
                let envelope = engine.names.open(sealed, of: key).flatMap({ SpooledEnvelope(decoding: $0) })
            else { continue }
            if dispatch.adopt(envelope) { count += 1 }
        }
        guard count > 0 else { return }
        // There may be more: the next question comes in a second.
        if adopted.count == room { asksNext = .now }
        report(count)
    }
}
