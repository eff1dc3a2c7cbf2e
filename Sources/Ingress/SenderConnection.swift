// SPDX-License-Identifier: Apache-2.0

import Admission
import EventLoop
import TNP
import Time

/// One sender's connection, through whichever endpoint it has come.
package protocol SenderConnection: AnyObject {
    /// Its own among all of the node's.
    var number: UInt64 { get }
    var senderProtocol: Admission.SenderProtocol { get }
    /// Whom it comes from, once that is known.
    var circuit: CircuitID? { get set }
    /// When its last bytes came.
    var lastRead: MonotonicTime { get }
    /// Whether nothing more can be said here.
    var isOver: Bool { get }
    /// Whether something that came here has rung a phone.
    var hasServed: Bool { get }
    /// Whether it was told of another puzzle than everybody.
    var isAskedForMore: Bool { get }

    /// Whether it may be let go of where there is no room for others: nothing of it is under way, and it is not quite new.
    func isIdle(for time: Duration) -> Bool
    /// A submission has an outcome.
    func finished(_ request: UInt32, _ outcome: Outcome)
    /// A submission is not admitted.
    func refused(_ request: UInt32, _ refusal: Refusal)
    /// Reads nothing for a while: who sends too fast waits in tor's own queues instead of being refused again and again.
    func rest(for duration: Duration)
    /// The puzzle has changed.
    func announce(_ puzzle: Puzzle)
    /// Ends it as if it had been quiet for too long: what was taken is answered, and its sender may come again.
    func closeIdle(_ text: String)
    /// Ends it with these last words.
    func reject(_ goAway: GoAway)
    /// Ends it at once for another connection, without waiting for its peer: its place is free when this returns.
    func evict(_ goAway: GoAway)
    /// Ends it once what was taken is answered.
    func shutDown(retryAfter: UInt32)
    /// Ends it at once.
    func close()
}

/// What a connection needs of the node.
package protocol SenderHost: AnyObject {
    /// The connection is one of this circuit of tor's.
    /// - Returns: what it is sent away with.
    func comes(_ connection: any SenderConnection, from circuit: UInt32) -> GoAway?
    /// It speaks its endpoint's language.
    func identified(_ connection: any SenderConnection)
    /// Delivers a submission; its outcome comes back by ``SenderConnection/finished(_:_:)``.
    func deliver(
        _ submission: Submission, app: String, format: EnvelopeFormat, for connection: any SenderConnection)
    /// So many of its submissions break the rules.
    func charge(_ connection: any SenderConnection, faults: Int)
    func ended(_ connection: any SenderConnection)
}
