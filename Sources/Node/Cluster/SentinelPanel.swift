// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Redis

/// Remembers what the Sentinels of an engine have said, and decides which of them to ask next. No I/O. Sentinels are
/// identified by their index in the operator's list.
struct SentinelPanel {
    private struct Sentinel {
        let endpoint: Endpoint
        /// The reply to `SENTINEL get-master-addr-by-name`.
        var address: RedisReply?
        /// Whether it has answered or failed since the last question.
        var hasReplied = false
        var isDialling = false
        var problem: String?
    }

    /// How to ask a Sentinel now.
    enum Question: Equatable {
        /// Over its connection.
        case ask
        /// Over a new connection.
        case dial
        /// Not yet: it has been asked.
        case none
    }

    private let masterName: String
    private var sentinels: [Sentinel]
    private var choice: PrimaryChoice

    /// - Parameter masterName: the name under which the Sentinels watch the engine.
    init(_ endpoints: [Endpoint], masterName: String) {
        self.masterName = masterName
        sentinels = endpoints.map { Sentinel(endpoint: $0) }
        choice = PrimaryChoice(sentinels: endpoints.count)
    }

    /// The addresses of the Sentinels.
    var endpoints: [Endpoint] { sentinels.map(\.endpoint) }

    /// The latest primary; `nil` before the first answer.
    var latest: Endpoint? { choice.primary?.endpoint }

    /// Whether every Sentinel has answered or failed since it was asked.
    var isComplete: Bool { sentinels.allSatisfy(\.hasReplied) }

    /// The primary, if a Sentinel has named one since it was asked, or the problem of each Sentinel.
    var answer: Result<Endpoint, EngineProblem> {
        if let primary = latest, sentinels.contains(where: { $0.problem == nil && $0.hasReplied }) {
            return .success(primary)
        }
        let problems = sentinels.map { $0.problem ?? "the Sentinel at \($0.endpoint) does not answer" }
        return .failure(EngineProblem(problems.joined(separator: "; ")))
    }

    /// Whether and how to ask a Sentinel now.
    mutating func question(to index: Int, isConnected: Bool) -> Question {
        if isConnected {
            // A silent Sentinel is asked again once it has answered, or its connection has ended.
            guard sentinels[index].hasReplied else { return .none }
            asked(index)
            return .ask
        }
        guard !sentinels[index].isDialling else { return .none }
        sentinels[index].isDialling = true
        sentinels[index].hasReplied = false
        return .dial
    }

    /// A connection to a Sentinel is open, and it is asked over it.
    mutating func connected(_ index: Int) {
        sentinels[index].isDialling = false
        asked(index)
    }

    /// No connection to a Sentinel could be opened.
    mutating func couldNotConnect(_ index: Int, _ error: any Error) {
        sentinels[index].isDialling = false
        failed(index, "cannot connect to \(sentinels[index].endpoint): \(error)")
    }

    private mutating func asked(_ index: Int) {
        sentinels[index].hasReplied = false
        sentinels[index].address = nil
    }

    /// A Sentinel has answered `SENTINEL get-master-addr-by-name`, or then `SENTINEL MASTER`.
    /// - Returns: the new primary, if this answer changes it.
    mutating func replied(_ index: Int, isAddress: Bool, _ reply: Result<RedisReply, RedisError>) -> Endpoint? {
        let endpoint = sentinels[index].endpoint
        switch reply {
        case .success(let reply) where isAddress: sentinels[index].address = reply
        case .success(let facts):
            guard let address = sentinels[index].address, let primary = NamedPrimary(address: address, facts: facts)
            else {
                failed(index, "the Sentinel at \(endpoint) does not answer as Sentinels do")
                return nil
            }
            sentinels[index].hasReplied = true
            sentinels[index].problem = nil
            let last = latest
            choice.heard(primary, from: index)
            if last != nil, latest != last { return latest }
        case .failure(.refused(let text)) where text.contains("No such master"):
            failed(
                index,
                "the Sentinel at \(endpoint) watches no primary named \(masterName): it needs \"sentinel monitor \(masterName) HOST PORT QUORUM\""
            )
        case .failure(let error): failed(index, "the Sentinel at \(endpoint): \(error)")
        }
        return nil
    }

    private mutating func failed(_ index: Int, _ problem: String) {
        sentinels[index].hasReplied = true
        sentinels[index].problem = problem
        choice.lost(index)
    }
}
