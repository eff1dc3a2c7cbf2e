// SPDX-License-Identifier: Apache-2.0

import DequeModule
import Sender
import Tables
import Time

/// The attempts at upstream nodes that have no result: which link's session has each, which links have failed it, and when
/// its time is over. Circuits and links are identified by their numbers. No I/O and no clock.
struct UpstreamAttempts {
    /// Identifies an attempt; never another one later.
    typealias Attempt = Slab<Entry>.Handle

    /// Who gets the result.
    struct Caller {
        let number: UInt64
        let receiver: any AttemptReceiver
    }

    /// The link whose session has an attempt's submission, and its request number there.
    struct Place: Equatable {
        let link: Int
        let request: UInt32
    }

    /// An attempt without a result.
    struct Entry {
        let caller: Caller
        let circuit: Int
        var place: Place?
        /// The links that failed, and why the last one did.
        var tried: Set<Int> = []
        var failure: NodeLink.Failure?
    }

    private struct Link {
        let circuit: Int
        /// The node's index in the operator's list.
        let node: Int
        /// The attempts whose submissions the link's session has.
        var attempts: [UInt32: Attempt] = [:]
    }

    private let timeout: Duration
    private var entries = Slab<Entry>()
    /// The number of attempts on each circuit.
    private var circuits: [Int: Int] = [:]
    private var links: [Int: Link] = [:]
    /// The attempts by their deadlines, earliest first; those with a result stay until then.
    private var deadlines: Deque<(time: MonotonicTime, attempt: Attempt)> = []

    /// - Parameter timeout: how long an attempt may take.
    init(timeout: Duration) { self.timeout = timeout }

    /// The number of attempts without a result.
    var count: Int { entries.count }

    /// Whether a deadline is to come, also of an attempt that has its result.
    var hasDeadlines: Bool { !deadlines.isEmpty }

    // MARK: Circuits

    /// A circuit begins, with a link to each node.
    mutating func open(_ circuit: Int, links numbers: some Sequence<Int>) {
        circuits[circuit] = 0
        for (node, link) in numbers.enumerated() { links[link] = Link(circuit: circuit, node: node) }
    }

    /// A circuit without attempts has ended.
    mutating func close(_ circuit: Int, links numbers: some Sequence<Int>) {
        circuits[circuit] = nil
        for link in numbers { links[link] = nil }
    }

    /// Whether a circuit has no attempts.
    func isIdle(_ circuit: Int) -> Bool { circuits[circuit] == 0 }

    /// Whether an attempt may go to this link's node.
    func needs(_ link: Int) -> Bool { links[link].map { circuits[$0.circuit] != 0 } ?? false }

    /// The index of a link's node in the operator's list; `nil` if the link's circuit has ended.
    func node(of link: Int) -> Int? { links[link]?.node }

    // MARK: Attempts

    /// An attempt begins, at no link yet.
    mutating func begin(_ caller: Caller, on circuit: Int, now: MonotonicTime) -> Attempt {
        circuits[circuit, default: 0] += 1
        let attempt = entries.insert(Entry(caller: caller, circuit: circuit))
        deadlines.append((now + timeout, attempt))
        return attempt
    }

    /// The attempt; `nil` if it has a result.
    subscript(_ attempt: Attempt) -> Entry? { entries.contains(attempt) ? entries[attempt] : nil }

    /// A link's session has taken an attempt's submission.
    mutating func place(_ attempt: Attempt, at place: Place) {
        links[place.link]?.attempts[place.request] = attempt
        entries[attempt].place = place
    }

    /// The attempt whose submission a link's session has.
    func attempt(at place: Place) -> Attempt? { links[place.link]?.attempts[place.request] }

    /// Removes an attempt from a link: it may then go to another one.
    /// - Parameter failure: why the link's node fails; `nil` if it does not, and may get the attempt again.
    mutating func remove(from place: Place, because failure: NodeLink.Failure? = nil) -> Attempt? {
        guard let attempt = links[place.link]?.attempts.removeValue(forKey: place.request) else { return nil }
        entries[attempt].place = nil
        if let failure {
            entries[attempt].tried.insert(place.link)
            entries[attempt].failure = failure
        }
        return attempt
    }

    /// An attempt has a result.
    /// - Returns: who gets it; `nil` if it had one before.
    mutating func finish(_ attempt: Attempt) -> Caller? {
        guard let entry = entries.remove(attempt) else { return nil }
        if let place = entry.place { links[place.link]?.attempts[place.request] = nil }
        circuits[entry.circuit]? -= 1
        return entry.caller
    }

    /// Ends all attempts and circuits.
    mutating func finishAll() -> [Caller] {
        let callers = deadlines.compactMap { finish($0.attempt) }
        (circuits, links, deadlines) = ([:], [:], [])
        return callers
    }

    /// The next attempt without a result whose time is over; `nil` if there is none.
    mutating func nextOverdue(now: MonotonicTime) -> Attempt? {
        while let first = deadlines.first, first.time <= now {
            deadlines.removeFirst()
            if entries.contains(first.attempt) { return first.attempt }
        }
        return nil
    }
}
