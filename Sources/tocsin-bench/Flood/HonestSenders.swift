// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP
import Time
import TocsinClient

/// Parts of a run whose figures are kept apart.
enum FloodPhase: Hashable {
    case calm, flooded
}

/// Senders with a phone each, a client of their own and a normal pace, who do as they are told: they compute proofs where
/// asked, and after RETRY they come again when it is time.
actor HonestSenders {
    private nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private struct Sender {
        let client: TocsinClient
        let magic: Magic
        var source: EnvelopeGenerator
    }

    /// How long one of them goes on with an envelope.
    private static let patience = Duration.seconds(60)
    private static let pauseAfterError = Duration.seconds(1)
    private static let shortestPause = Duration.milliseconds(50)
    /// How soon they notice that it is over.
    private static let attention = Duration.milliseconds(250)

    private var senders: [Sender]
    private var phase: FloodPhase?
    private var figures: [FloodPhase: HonestStatistics] = [:]
    private var began = MonotonicTime.now
    /// How long it took from ``begin(pace:)`` to the first DELIVERED.
    private var first: Duration?
    private var isOver = false
    private var work: [Task<Void, Never>] = []

    /// - Parameter phones: whom each of them rings.
    init(_ phones: [Recipient], node: Endpoint, on loop: EventLoop) {
        self.loop = loop
        senders = phones.map { phone in
            Sender(
                client: TocsinClient(TocsinClient.Options(node: node), on: loop), magic: phone.magic,
                source: EnvelopeGenerator([phone.magic: [phone.deviceToken]]))
        }
    }

    /// Each sends one envelope, which proves its device token where that is new.
    /// - Returns: the envelopes that were delivered.
    func sendOne() async -> [Envelope] {
        await withTaskGroup(of: Envelope?.self) { group in
            for index in senders.indices { group.addTask { await self.submit(index) } }
            var delivered: [Envelope] = []
            for await case let envelope? in group { delivered.append(envelope) }
            return delivered
        }
    }

    /// They go on at this pace until ``end()``.
    func begin(pace: Duration) {
        began = .now
        first = nil
        for index in senders.indices {
            work.append(Task(executorPreference: loop) { await self.goOn(index, pace: pace) })
        }
    }

    /// What they submit from now on counts for this part of the run; nil: for none.
    func count(for phase: FloodPhase?) { self.phase = phase }

    /// Lets them submit nothing more, and waits for the outcome of what they have.
    func end() async -> (figures: [FloodPhase: HonestStatistics], first: Duration?) {
        isOver = true
        for task in work { await task.value }
        work = []
        for sender in senders { await sender.client.close() }
        return (figures, first)
    }

    private func goOn(_ index: Int, pace: Duration) async {
        await rest(pace * Double.random(in: 0..<1))
        await withTaskGroup(of: Envelope?.self) { group in
            while !isOver {
                group.addTask { await self.submit(index) }
                await rest(pace * Double.random(in: 0.75...1.25))
            }
        }
    }

    private func rest(_ time: Duration) async {
        let end = MonotonicTime.now + time
        while !isOver {
            let left = end - .now
            guard left > .zero else { return }
            await loop.sleep(for: min(left, Self.attention))
        }
    }

    /// Submits a new envelope, and again while the answer is RETRY.
    /// - Returns: the envelope, where it was delivered.
    private func submit(_ index: Int) async -> Envelope? {
        let phase = phase
        let envelope = senders[index].source.next(senders[index].magic)
        let start = MonotonicTime.now
        note(phase) { $0.submitted += 1 }
        while true {
            let left = start + Self.patience - .now
            guard left > .zero else {
                note(phase) { $0.givenUp += 1 }
                return nil
            }
            do {
                let outcome = try await senders[index].client.submit(envelope, patience: left)
                switch outcome.kind {
                case .delivered:
                    let now = MonotonicTime.now
                    note(phase) { $0.delivered(after: now - start) }
                    first = first ?? now - began
                    return envelope
                case .retry:
                    note(phase) { $0.retries[outcome.reason, default: 0] += 1 }
                    let pause = max(.milliseconds(Int64(outcome.retryAfter)), Self.shortestPause)
                    await loop.sleep(for: min(pause, left))
                default:
                    note(phase) { $0.refused[outcome.reason, default: 0] += 1 }
                    return nil
                }
            } catch {
                note(phase) { $0.errors += 1 }
                await loop.sleep(for: Self.pauseAfterError)
            }
        }
    }

    private func note(_ phase: FloodPhase?, _ change: (inout HonestStatistics) -> Void) {
        if let phase { change(&figures[phase, default: HonestStatistics()]) }
    }
}
