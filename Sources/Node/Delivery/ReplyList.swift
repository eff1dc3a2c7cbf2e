// SPDX-License-Identifier: Apache-2.0

import TNP

/// The submissions that wait for the outcome of one envelope.
struct ReplyList {
    private static let capacity = 256
    private static let unreachable = Outcome.retry(.providerUnreachable, after: 60_000)

    /// The submission that brought the envelope here. If an earlier process accepted the envelope, or that submission
    /// was refused, the first resend since then.
    private(set) var first: Reply?
    private var others: [Reply] = []
    /// The number of submissions at which unwanted ones are removed: a client that reconnects and resends leaves one
    /// behind each time.
    private var nextPurge = 16
    /// The outcome for senders that do not accept QUEUED, while the envelope waits in the spool.
    private(set) var lastRefusal = unreachable
    /// Whether an earlier process or another node of the cluster accepted the envelope: the observer then gets its outcome
    /// as well.
    var isRecovered = false

    var count: Int { (first == nil ? 0 : 1) + others.count }
    /// Whether one more submission may wait.
    var hasRoom: Bool { count < Self.capacity }

    mutating func append(_ reply: Reply) {
        if first == nil { first = reply } else { others.append(reply) }
    }

    func forEach(_ body: (Reply) -> Void) {
        if let first { body(first) }
        for reply in others { body(reply) }
    }

    /// Removes resends that no sender waits for, if there are many submissions.
    /// - Parameter remove: called for each that is removed.
    mutating func purge(keeping isWanted: (Reply) -> Bool, remove: (Reply) -> Void) {
        guard count >= nextPurge else { return }
        others.removeAll { reply in
            if isWanted(reply) { return false }
            remove(reply)
            return true
        }
        nextPurge = max(16, count * 2)
    }

    /// Removes the submissions that do not accept QUEUED.
    /// - Parameters:
    ///   - refusal: the outcome for later submissions that do not accept QUEUED (``lastRefusal``).
    ///   - remove: called for each that is removed.
    /// - Returns: whether ``first`` was one of them.
    mutating func rejectUnqueued(with refusal: Outcome, remove: (Reply) -> Void) -> Bool {
        lastRefusal = refusal
        let rejected = first.flatMap { $0.acceptsQueued ? nil : $0 }
        if let rejected {
            remove(rejected)
            first = nil
        }
        others.removeAll { reply in
            if reply.acceptsQueued { return false }
            remove(reply)
            return true
        }
        return rejected != nil
    }
}
