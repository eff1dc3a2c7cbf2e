// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Redis

/// The engine's primary, as a Sentinel names it.
struct NamedPrimary: Equatable, Sendable {
    let endpoint: Endpoint
    /// Grows with each failover. During one, from the moment at which the replica is promoted, it lies between the epochs
    /// of before and after (Redis, "High availability with Sentinel", configuration epochs).
    let epoch: Int64

    /// - Parameters:
    ///   - address: the reply to `SENTINEL get-master-addr-by-name`: during a failover, the promoted replica.
    ///   - facts: the reply to `SENTINEL MASTER`.
    init?(address: RedisReply, facts: RedisReply) {
        guard let parts = address.elements, parts.count == 2, let host = parts[0].text,
            let port = parts[1].text.flatMap({ UInt16($0, radix: 10) }), let fields = facts.elements
        else { return nil }
        func field(_ name: String) -> String? {
            stride(from: 0, to: fields.count - 1, by: 2).first { fields[$0].text == name }.flatMap {
                fields[$0 + 1].text
            }
        }
        guard let epoch = field("config-epoch").flatMap({ Int64($0, radix: 10) }), (0...Int64.max / 4).contains(epoch)
        else {
            return nil
        }
        let isPromoting = field("ip") != host || field("port") != parts[1].text
        self.init(.tcp(host: host, port: port), epoch: 2 * epoch + (isPromoting ? 1 : 0))
    }

    init(_ endpoint: Endpoint, epoch: Int64) { (self.endpoint, self.epoch) = (endpoint, epoch) }
}

/// Which primary is the right one, if the Sentinels do not agree: that of the highest epoch. One of an earlier epoch was
/// demoted, although it may still believe to be the primary; what it takes is lost.
struct PrimaryChoice {
    private let sentinels: Int
    private var named: [Int: NamedPrimary] = [:]
    private(set) var primary: NamedPrimary?

    /// - Parameter sentinels: how many there are.
    init(sentinels: Int) { self.sentinels = sentinels }

    /// Notes that a Sentinel does not answer.
    mutating func lost(_ sentinel: Int) { named[sentinel] = nil }

    /// Notes what a Sentinel says now.
    mutating func heard(_ answer: NamedPrimary, from sentinel: Int) {
        named[sentinel] = answer
        guard let latest = primary, answer.epoch <= latest.epoch else { return primary = answer }
        if answer.epoch == latest.epoch {
            // Two names of one server, as long as somebody uses the first.
            if !named.values.contains(latest) { primary = answer }
            return
        }
        // Their epochs begin again if all have lost their files.
        if 2 * named.count > sentinels, named.values.allSatisfy({ $0.epoch < latest.epoch }) {
            primary = named.values.max { $0.epoch < $1.epoch }
        }
    }
}
