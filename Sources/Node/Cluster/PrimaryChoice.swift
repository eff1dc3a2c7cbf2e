// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Redis

/// The engine's primary, as a Sentinel names it.
struct NamedPrimary: Equatable, Sendable {
    let endpoint: Endpoint
    /// Twice the configuration epoch, which grows with each failover (Redis, "High availability with Sentinel",
    /// configuration epochs). One more while a failover is in progress and the replica has been promoted.
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

/// Chooses the primary when the Sentinels do not agree: the one of the highest epoch. A primary of an earlier epoch was
/// demoted, although it may still act as the primary; it loses what it takes.
struct PrimaryChoice {
    private let sentinels: Int
    private var named: [Int: NamedPrimary] = [:]
    private(set) var primary: NamedPrimary?

    /// - Parameter sentinels: how many there are.
    init(sentinels: Int) { self.sentinels = sentinels }

    /// Notes that a Sentinel does not answer.
    mutating func lost(_ sentinel: Int) { named[sentinel] = nil }

    /// Notes which primary a Sentinel names.
    mutating func heard(_ answer: NamedPrimary, from sentinel: Int) {
        named[sentinel] = answer
        guard let latest = primary, answer.epoch <= latest.epoch else { return primary = answer }
        if answer.epoch == latest.epoch {
            // Both name the same server. The name changes only when no Sentinel gives the old one any more.
            if !named.values.contains(latest) { primary = answer }
            return
        }
        // The epochs begin again if the Sentinels have lost their files.
        if 2 * named.count > sentinels, named.values.allSatisfy({ $0.epoch < latest.epoch }) {
            primary = named.values.max { $0.epoch < $1.epoch }
        }
    }
}
