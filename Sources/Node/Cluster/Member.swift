// SPDX-License-Identifier: Apache-2.0

import Redis
import Time

/// A node of the cluster, as the engine knows it.
package struct Member: Sendable, Equatable {
    package let name: String
    /// The version of Tocsin that it runs.
    package let version: String
    /// The random number of its session, in hexadecimal digits.
    package let session: String
    /// The time since its last heartbeat.
    package let absence: Duration

    /// Whether its session has not ended.
    package var isAlive: Bool { absence < Engine.sessionTime }

    /// The text about a node that the engine keeps.
    static func text(session: String, version: String) -> String { "\(session) \(version)" }

    /// Decodes one node of a reply.
    init?(_ reply: RedisReply) {
        guard let fields = reply.elements, fields.count == 3, let name = fields[0].text,
            let absence = fields[1].integer, let about = fields[2].text?.split(separator: " ", maxSplits: 1),
            about.count == 2
        else { return nil }
        self.name = name
        session = String(about[0])
        version = String(about[1])
        self.absence = .milliseconds(absence)
    }
}

/// What the engine knows about the nodes.
package struct Membership: Equatable, Sendable {
    /// The engine's clock, Unix time in milliseconds.
    package let time: Int64
    /// All nodes of the last day, in the order of their names.
    package let members: [Member]
    /// After `renew`: the session that had the node's name before; `nil` if there was none.
    let nameOwner: String?
    /// After `renew`: whether the node's session had ended, so that other nodes may have taken over what it had claimed.
    let hadEnded: Bool
    /// After `renew`: the epoch of the engine's state; `nil` if there is none.
    let epoch: [UInt8]?

    /// Decodes the reply to `renew` or `members`.
    init?(_ reply: RedisReply) {
        guard let elements = reply.elements, elements.count >= 2,
            let time = elements[0].text.flatMap({ Int64($0, radix: 10) }),
            let nodes = elements[1].elements
        else { return nil }
        self.time = time / 1000
        members = nodes.compactMap(Member.init).sorted { $0.name < $1.name }
        hadEnded = elements.count > 3 && elements[3].integer == 0
        epoch = elements.count > 4 ? elements[4].bytes : nil
        nameOwner = elements.dropFirst(2).first?.text?.split(separator: " ").dropFirst().first.map { String($0) }
    }
}
