// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Redis
import Time

/// Asks all Sentinels for the engine's primary each second. ``SentinelPanel`` decides what follows from their answers.
final class SentinelWatch: RedisReceiver, @unchecked Sendable {
    // Unchecked: used on the loop only; its tasks prefer the loop's executor.

    private static let interval = Duration.seconds(1)
    private static let dialTimeout = Duration.seconds(1)
    /// How long a first answer may take.
    private static let firstTimeout = Duration.seconds(3)

    private let settings: EngineSettings
    private let loop: EventLoop
    private var panel: SentinelPanel
    private var connections: [Int: RedisConnection] = [:]
    private var timer: Timer?
    private var isStopped = false
    /// The latest primary; `nil` before the first answer.
    var latest: Endpoint? { panel.latest }
    /// Receives the new primary after each change.
    var changed: (Endpoint) -> Void = { _ in }

    init(_ endpoints: [Endpoint], _ settings: EngineSettings, on loop: EventLoop) {
        (self.settings, self.loop) = (settings, loop)
        panel = SentinelPanel(endpoints, masterName: settings.cluster)
        timer = Timer(on: loop) { [unowned self] in ask() }
    }

    /// The primary, as the Sentinels name it that answer within a second. If none does, waits up to 3 s for a first
    /// answer.
    /// - Throws: ``EngineProblem`` if none names it.
    func primary(isolation: isolated (any Actor)? = #isolation) async throws(EngineProblem) -> Endpoint {
        ask()
        let start = MonotonicTime.now
        // In a cancelled task, `sleep` returns at once: the loop would spin.
        while !Task.isCancelled, !panel.isComplete, .now < start + Self.firstTimeout,
            latest == nil || .now < start + Self.interval
        {
            await loop.sleep(for: .milliseconds(5))
        }
        return try panel.answer.get()
    }

    func stop() {
        isStopped = true
        timer?.stop()
        for connection in connections.values { connection.close(.disconnected("closed")) }
    }

    private func ask() {
        guard !isStopped else { return }
        timer?.start(after: Self.interval)
        for (index, endpoint) in panel.endpoints.enumerated() {
            let connection = connections[index].flatMap { $0.failure == nil ? $0 : nil }
            switch panel.question(to: index, isConnected: connection != nil) {
            case .none: break
            case .ask: if let connection { ask(index, on: connection) }
            case .dial:
                loop.dial(Destination(endpoint, tls: settings.tls, timeout: Self.dialTimeout)) { [self] in
                    dialled(index, $0)
                }
            }
        }
    }

    private func dialled(_ index: Int, _ result: Result<ByteStream, StreamError>) {
        switch result {
        case .success(let stream):
            guard !isStopped else { return stream.close() }
            let connection = RedisConnection(stream)
            connections[index] = connection
            panel.connected(index)
            ask(index, on: connection)
        case .failure(let error): panel.couldNotConnect(index, error)
        }
    }

    /// Asks both questions: the address that the Sentinel names now, and its facts about that primary.
    private func ask(_ index: Int, on connection: RedisConnection) {
        let number = UInt64(clamping: index) * 2
        connection.send(
            RedisCommand("SENTINEL", "get-master-addr-by-name", settings.cluster), number: number, for: self)
        connection.send(RedisCommand("SENTINEL", "MASTER", settings.cluster), number: number + 1, for: self)
    }

    func replied(_ number: UInt64, _ reply: Result<RedisReply, RedisError>) {
        if let primary = panel.replied(Int(clamping: number / 2), isAddress: number.isMultiple(of: 2), reply) {
            changed(primary)
        }
    }
}
