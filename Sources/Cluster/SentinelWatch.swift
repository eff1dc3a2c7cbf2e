// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Redis
import Time

/// Asks all Sentinels for the engine's primary each second.
final class SentinelWatch: RedisReceiver, @unchecked Sendable {
    // Unchecked: used on the loop only; its tasks prefer the loop's executor.

    private static let interval = Duration.seconds(1)
    private static let dialTimeout = Duration.seconds(1)
    /// How long a first answer may take.
    private static let firstTimeout = Duration.seconds(3)

    private struct Sentinel {
        let endpoint: Endpoint
        var connection: RedisConnection?
        var isDialling = false
        /// The reply to the first of the two questions.
        var address: RedisReply?
        /// Whether it has answered or failed since the last question.
        var hasReplied = false
        var problem: String?
    }

    private let settings: EngineSettings
    private let loop: EventLoop
    private var sentinels: [Sentinel]
    private var choice: PrimaryChoice
    private var timer: Timer?
    private var isStopped = false
    /// The latest primary; `nil` before the first answer.
    var latest: Endpoint? { choice.primary?.endpoint }
    /// Receives the primary when another one takes the place of the last.
    var changed: (Endpoint) -> Void = { _ in }

    init(_ endpoints: [Endpoint], _ settings: EngineSettings, on loop: EventLoop) {
        (self.settings, self.loop) = (settings, loop)
        sentinels = endpoints.map { Sentinel(endpoint: $0) }
        choice = PrimaryChoice(sentinels: endpoints.count)
        timer = Timer(on: loop) { [unowned self] in ask() }
    }

    /// The primary: what the Sentinels say that answer within a second.
    /// - Throws: ``EngineProblem`` if none names it.
    func primary(isolation: isolated (any Actor)? = #isolation) async throws(EngineProblem) -> Endpoint {
        ask()
        let start = MonotonicTime.now
        // Sleeping does not wait in a task that has been cancelled.
        while !Task.isCancelled, !sentinels.allSatisfy(\.hasReplied), .now < start + Self.firstTimeout,
            choice.primary == nil || .now < start + Self.interval
        {
            await loop.sleep(for: .milliseconds(5))
        }
        if let primary = choice.primary, sentinels.contains(where: { $0.problem == nil && $0.hasReplied }) {
            return primary.endpoint
        }
        let problems = sentinels.map { $0.problem ?? "the Sentinel at \($0.endpoint) does not answer" }
        throw EngineProblem(problems.joined(separator: "; "))
    }

    func stop() {
        isStopped = true
        timer?.stop()
        for sentinel in sentinels { sentinel.connection?.end(.disconnected("closed")) }
    }

    private func ask() {
        guard !isStopped else { return }
        timer?.start(after: Self.interval)
        for index in sentinels.indices {
            if let connection = sentinels[index].connection, connection.failure == nil {
                // One that is silent is asked again when it has answered, or its connection has ended.
                if sentinels[index].hasReplied { ask(index, on: connection) }
            } else if !sentinels[index].isDialling {
                sentinels[index].isDialling = true
                sentinels[index].hasReplied = false
                Task(executorPreference: loop) { await self.dial(index) }
            }
        }
    }

    private func dial(_ index: Int) async {
        let endpoint = sentinels[index].endpoint
        do {
            let stream = try await loop.dial(endpoint, tls: settings.tls, timeout: Self.dialTimeout)
            sentinels[index].isDialling = false
            guard !isStopped else { return stream.close() }
            let connection = RedisConnection(stream)
            sentinels[index].connection = connection
            ask(index, on: connection)
        } catch {
            sentinels[index].isDialling = false
            failed(index, "cannot connect to \(endpoint): \(error)")
        }
    }

    private func ask(_ index: Int, on connection: RedisConnection) {
        sentinels[index].hasReplied = false
        sentinels[index].address = nil
        let number = UInt64(index) * 2
        connection.send(
            RedisCommand("SENTINEL", "get-master-addr-by-name", settings.cluster), number: number, for: self)
        connection.send(RedisCommand("SENTINEL", "MASTER", settings.cluster), number: number + 1, for: self)
    }

    func replied(_ number: UInt64, _ reply: Result<RedisReply, RedisError>) {
        let index = Int(number / 2)
        let endpoint = sentinels[index].endpoint
        switch reply {
        case .success(let reply) where number.isMultiple(of: 2): sentinels[index].address = reply
        case .success(let facts):
            guard let address = sentinels[index].address, let primary = NamedPrimary(address: address, facts: facts)
            else { return failed(index, "the Sentinel at \(endpoint) does not answer as Sentinels do") }
            sentinels[index].hasReplied = true
            sentinels[index].problem = nil
            let last = choice.primary
            choice.heard(primary, from: index)
            if let now = choice.primary, let last, now.endpoint != last.endpoint { changed(now.endpoint) }
        case .failure(.refused(let text)) where text.contains("No such master"):
            failed(
                index,
                "the Sentinel at \(endpoint) watches no primary named \(settings.cluster): it needs \"sentinel monitor \(settings.cluster) HOST PORT QUORUM\""
            )
        case .failure(let error): failed(index, "the Sentinel at \(endpoint): \(error)")
        }
    }

    private func failed(_ index: Int, _ problem: String) {
        sentinels[index].hasReplied = true
        sentinels[index].problem = problem
        choice.lost(index)
    }
}
