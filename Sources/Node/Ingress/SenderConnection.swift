// SPDX-License-Identifier: Apache-2.0

import Admission
import EventLoop
import NodeConfiguration
import TNP
import Time

/// A connection of a sender, at the TNP or the HTTP endpoint.
package protocol SenderConnection: AnyObject {
    /// Unique among the node's connections.
    var number: UInt64 { get }
    /// The protocol of its endpoint.
    var senderProtocol: Admission.SenderProtocol { get }
    /// The origin of the connection's submissions: tor's circuit, or the connection itself if tor passes no circuit
    /// IDs, or the site that has proved itself; `nil` until it is known.
    var circuit: CircuitID? { get set }
    /// When the last bytes arrived; over HTTP, when the last request was handled.
    var lastRead: MonotonicTime { get }
    /// Whether the connection is closed or closing: nothing more can be sent.
    var isClosed: Bool { get }
    /// Whether a submission on this connection was delivered, or stored for delivery.
    var hasSucceeded: Bool { get }
    /// Whether the node sent this sender a puzzle that differs from the one announced to all.
    var hasOwnPuzzle: Bool { get }

    /// Whether the connection may be closed to make room: no submission awaits its first answer, none has begun to arrive,
    /// and HELLO came, or over HTTP the connection began, at least `time` ago.
    func isIdle(minimumAge time: Duration) -> Bool
    /// Reports the outcome of a submission.
    func finished(_ request: UInt32, _ outcome: Outcome)
    /// Reports that a submission that was answered with QUEUED waits in the spool, because nothing can be delivered at
    /// the moment.
    func parked(_ request: UInt32)
    /// Reports that the request of a handle's owner was accepted.
    func registered(_ request: UInt32, _ handle: Handle)
    /// Reports that a submission was not admitted.
    func refused(_ request: UInt32, _ refusal: Refusal)
    /// Pauses reading for at most `duration`: instead of refusing submissions again and again, the node slows a sender
    /// over its rate by back-pressure through tor.
    func pauseReading(for duration: Duration)
    /// Announces a new puzzle to the sender.
    func announce(_ puzzle: Puzzle)
    /// Closes the connection as after the idle timeout: accepted submissions are answered; the sender may reconnect.
    func closeIdle(_ text: String)
    /// Sends this GOAWAY and closes the connection, without waiting for submissions in flight.
    func reject(_ goAway: GoAway)
    /// Closes the connection to make room, without waiting for the peer; its place is free when this returns.
    func evict(_ goAway: GoAway)
    /// Announces the node's shutdown and closes the connection once the accepted submissions are answered.
    func shutDown(retryAfter: UInt32)
    /// Closes the connection at once.
    func close()
}

/// Memory that the TNP connections of one loop reuse, one after another.
package final class IngressScratch {
    /// Requests without content; `nil` while a connection uses them.
    var requests: IngressSession.Requests?
    /// Empty buffers for output.
    private var buffers: [[UInt8]] = []
    /// The most buffers that are kept, and the largest capacity of one in bytes.
    private static let (maximumBuffers, maximumBuffer) = (64, 16 * 1024)

    /// Starts without memory.
    package init() {}

    /// Returns an empty buffer, if possible one with memory.
    func takeBuffer() -> [UInt8] { buffers.popLast() ?? [] }

    /// Empties a buffer, and keeps its memory for the next user.
    func keep(_ buffer: inout [UInt8]) {
        var used: [UInt8] = []
        swap(&used, &buffer)
        guard used.capacity > 0, used.capacity <= Self.maximumBuffer, buffers.count < Self.maximumBuffers else {
            return
        }
        used.removeAll(keepingCapacity: true)
        buffers.append(used)
    }
}

/// The node, as a sender's connection uses it.
package protocol SenderHost: AnyObject {
    /// Assigns the connection to this tor circuit.
    /// - Returns: the GOAWAY to reject the connection with; `nil` if it is admitted.
    func assign(_ connection: any SenderConnection, toCircuit circuit: UInt32) -> GoAway?
    /// Finds the site that an AUTH proves. The connection then counts as the site's.
    /// - Parameter seed: the seed of the connection's WELCOME, which AUTH signs.
    /// - Returns: the site; `nil` if the AUTH proves none.
    /// - Throws: `ProtocolError` with code `busy` if there is no room for the site.
    func identify(
        _ connection: any SenderConnection, by authentication: SiteAuthentication, seed: [UInt8]
    ) throws(ProtocolError) -> Site?
    /// The outcome with which to refuse a request over HTTP; `nil` if it may be served.
    /// - Parameters:
    ///   - credential: what follows `/s/` in its path; `nil` without such a path. If it proves a site, the connection
    ///     then counts as the site's.
    ///   - right: the right that a site needs for the request.
    func refusal(of connection: any SenderConnection, site credential: Bytes?, right: Site.Right) -> Outcome?
    /// The WELCOME for a TNP connection under these rules.
    func welcome(under rules: IngressSession.Rules) -> Welcome
    /// The onions that a sender's signature may name.
    var signedOnions: [SignedOnion] { get }
    /// The puzzle that a REGISTER must solve at this moment.
    var registrationPuzzle: Puzzle { get }
    /// Memory for the TNP connections.
    var scratch: IngressScratch { get }
    /// Finds the app of an HTTP request.
    var appResolver: AppResolver { get }
    /// Counts an HTTP response with this status.
    func responded(_ status: Int)
    /// Called when the sender has sent HELLO, or a whole HTTP request.
    func identified(_ connection: any SenderConnection)
    /// Delivers a submission; the outcome is reported to ``SenderConnection/finished(_:_:)``, a refusal to
    /// ``SenderConnection/refused(_:_:)``.
    func deliver(_ submission: Submission, app: String, format: EnvelopeFormat, for connection: any SenderConnection)
    /// Looks up the handle of a submission, and delivers it like any other.
    func deliver(_ submission: SubmissionByHandle, for connection: any SenderConnection)
    /// Performs what a handle's owner asks; reports the outcome to ``SenderConnection/registered(_:_:)``,
    /// ``SenderConnection/finished(_:_:)`` or ``SenderConnection/refused(_:_:)``.
    func perform(_ request: HandleRequest, for connection: any SenderConnection)
    /// Counts protocol violations against the connection's circuit.
    func countViolations(_ connection: any SenderConnection, _ faults: Int)
    /// Called when the connection has ended.
    func ended(_ connection: any SenderConnection)
}
