import Cryptography
import EventLoop
import Providers
import TNP

/// Told of an envelope's outcomes: at most one QUEUED, then one that is final. Called on the loop of the dispatch.
public struct Reply: @unchecked Sendable {
    // Unchecked: made and called on one loop's thread; it only passes from one of its actors to another.
    let tell: (Outcome) -> Void

    /// - Parameter tell: is told each outcome.
    public init(_ tell: @escaping (Outcome) -> Void) { self.tell = tell }
}

/// An envelope from when it is taken until it has its outcome.
final class Parcel: @unchecked Sendable {
    // Unchecked: touched by its dispatch only; it goes into the task that carries it, which runs there.

    let digest: Digest256
    /// Where its sender wants it to go.
    let route: Route
    let format: EnvelopeFormat
    let expiry: Expiry
    let taken: MonotonicTime
    /// Its place among all that were taken.
    let sequence: UInt64
    /// Nil while it waits in the spool and takes no memory here.
    var envelope: Envelope?
    /// Its row in the spool.
    var row: Int64?
    /// Those who wait for the outcome.
    var replies: [Reply] = []
    var attempts = Attempts()
    /// Apple's environment that is asked, where it is not that of the route.
    var home: Magic?
    /// Whether each of Apple's environments has said that it does not know the device token.
    var isUnknownElsewhere = false

    init(
        _ envelope: Envelope, route: Route, format: EnvelopeFormat, expiry: Expiry, taken: MonotonicTime,
        sequence: UInt64
    ) {
        digest = envelope.digest
        self.envelope = envelope
        self.route = route
        self.format = format
        self.expiry = expiry
        self.taken = taken
        self.sequence = sequence
    }
}
