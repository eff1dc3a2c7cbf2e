// SPDX-License-Identifier: Apache-2.0

import Cluster
import DequeModule
import Redis
import Tables

/// Commands that must reach the engine. Sends each again until the engine has replied, or has refused it twenty times.
final class EngineOutbox: RedisReceiver {
    private struct Entry {
        let command: RedisCommand
        /// The number of times that the engine has refused it.
        var refusals = 0
    }

    /// The maximum number of commands that wait for the engine; further ones are dropped. If one of them concludes an
    /// envelope, the engine attributes the envelope to this node until the session ends.
    static let maximumWaiting = 20_000
    /// How often the engine may refuse a command before it is dropped: an engine that has lost its functions gets them
    /// again soon.
    private static let maximumRefusals = 20

    private let engine: Engine
    private var unanswered = Slab<Entry>()
    /// The commands that must be sent again, because the engine may not have received them.
    private var unsent: Deque<Slab<Entry>.Handle> = []

    init(_ engine: Engine) { self.engine = engine }

    func send(_ command: RedisCommand) {
        guard unanswered.count < Self.maximumWaiting else { return }
        send(unanswered.insert(Entry(command: command)))
    }

    private func send(_ place: Slab<Entry>.Handle) {
        if !engine.send(unanswered[place].command, number: place.rawValue, for: self) { unsent.append(place) }
    }

    /// Sends what the engine has not received.
    func sendAll() {
        let all = unsent
        unsent = []
        for place in all { send(place) }
    }

    func replied(_ number: UInt64, _ reply: Result<RedisReply, RedisError>) {
        let place = Slab<Entry>.Handle(rawValue: number)
        switch reply {
        case .success: unanswered.remove(place)
        case .failure(let error):
            if case .refused = error { unanswered[place].refusals += 1 }
            if unanswered[place].refusals < Self.maximumRefusals {
                unsent.append(place)
            } else {
                unanswered.remove(place)
            }
        }
    }
}
