// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP
import Time
import TocsinClient

/// The phases of a run, which have separate statistics.
enum FloodPhase: Hashable {
    case calm, flooded
}

/// Well-behaved senders at a normal pace, each with a phone and a client of its own. They compute proofs of work when
/// the node requires them, and resubmit after the time that RETRY gives.
actor HonestSenders {
    private nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private struct Sender {
        let client: TocsinClient
        let magic: Magic
        var source: EnvelopeGenerator
    }

    /// How long a sender keeps trying to deliver an envelope.
    private static let patience = Duration.seconds(60)
    private static let pauseAfterError = Duration.seconds(1)
    private static let shortestPause = Duration.milliseconds(50)
    /// How often to check whether the run is over.
    private static let pollInterval = Duration.milliseconds(250)

    private var senders: [Sender]
    private var phase: FloodPhase?
    private var figures: [FloodPhase: HonestStatistics] = [:]
    /// The time of each sender's first submission.
    private var beginnings: [Int: MonotonicTime] = [:]
    /// The time from each sender's first submission to its first DELIVERED.
    private var firstRings: [Int: Duration] = [:]
    private var isOver = false
    private var work: [Task<Void, Never>] = []

    /// - Parameter phones: the recipient of each sender.
    init(_ phones: [Recipient], node: Endpoint, on loop: EventLoop) {
        self.loop = loop
        senders = phones.map { phone in
            Sender(
                client: TocsinClient(
                    TocsinClient.Options(nodes: [node], patience: .zero, isolatesPhones: false), on: loop),
                magic: phone.magic,
                source: EnvelopeGenerator([phone.magic: [phone.deviceToken]]))
        }
    }

    /// Sends one envelope from each sender, which proves a new device token.
    /// - Returns: the envelopes that were delivered.
    func sendOne() async -> [Envelope] {
        await withTaskGroup(of: Envelope?.self) { group in
            for index in senders.indices { group.addTask { await self.submit(index) } }
            var delivered: [Envelope] = []
            for await case let envelope? in group { delivered.append(envelope) }
            return delivered
        }
    }

    /// Sends at this pace until ``stop()``. The starts of the senders are spread over `spread`.
    func begin(pace: Duration, over spread: Duration = .zero) {
        for index in senders.indices {
            let wait = spread * index / senders.count
            work.append(
                Task(executorPreference: loop) {
                    await self.rest(wait)
                    await self.sendRepeatedly(index, pace: pace)
                })
        }
    }

    /// Counts the submissions that follow for this phase; `nil` to count them for none.
    func count(for phase: FloodPhase?) { self.phase = phase }

    /// Stops submitting, and waits for the outcomes of the envelopes in flight.
    /// - Returns: the statistics, and for each sender that began, in no order, the time from its first submission to
    ///   its first DELIVERED, `nil` if nothing was delivered.
    func stop() async -> (figures: [FloodPhase: HonestStatistics], firstRings: [Duration?]) {
        isOver = true
        for task in work { await task.value }
        work = []
        for sender in senders { await sender.client.close() }
        return (figures, beginnings.keys.map { firstRings[$0] })
    }

    private func sendRepeatedly(_ index: Int, pace: Duration) async {
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
            await loop.sleep(for: min(left, Self.pollInterval))
        }
    }

    /// Submits a new envelope, and resubmits it after RETRY or an error until ``patience`` is over.
    /// - Returns: the envelope if it was delivered.
    private func submit(_ index: Int) async -> Envelope? {
        let phase = phase
        let envelope = senders[index].source.next(senders[index].magic)
        let start = MonotonicTime.now
        let began = beginnings[index] ?? start
        beginnings[index] = began
        note(phase) { $0.submitted += 1 }
        while true {
            let left = start + Self.patience - .now
            guard left > .zero else {
                note(phase) { $0.timedOut += 1 }
                return nil
            }
            do {
                let outcome = try await senders[index].client.submit(envelope, timeout: left)
                switch outcome.kind {
                case .delivered:
                    let now = MonotonicTime.now
                    note(phase) { $0.delivered(after: now - start) }
                    firstRings[index] = firstRings[index] ?? now - began
                    return envelope
                case .retry:
                    note(phase) { $0.retries[outcome.reason, default: 0] += 1 }
                    let pause = max(.milliseconds(Int64(outcome.retryAfter)), Self.shortestPause)
                    await loop.sleep(for: min(pause, left))
                default:
                    note(phase) { $0.rejected[outcome.reason, default: 0] += 1 }
                    return nil
                }
            } catch {
                note(phase) { $0.errors["\(error)", default: 0] += 1 }
                await loop.sleep(for: Self.pauseAfterError)
            }
        }
    }

    private func note(_ phase: FloodPhase?, _ change: (inout HonestStatistics) -> Void) {
        if let phase { change(&figures[phase, default: HonestStatistics()]) }
    }
}
