// SPDX-License-Identifier: Apache-2.0

import HeapModule

/// What waits for its turn, in many flows: deficit round robin (Shreedhar and Varghese, 1995), so that a flow in which
/// 10 000 elements wait stands behind itself and not in front of others. Flows lie in bands, and a higher band always
/// goes first.
///
/// How much may wait is bounded by the owner, who asks ``makeRoom(for:band:now:)`` when there is enough. Memory follows
/// the most that has waited at a time; a flow in which nothing waits costs nothing and keeps no claim.
package struct FairQueue<Element> {
    private var order: FairOrder
    /// By the slots that `order` gives out.
    private var elements: [Element?] = []

    /// - Parameter quantum: the cost that a flow may have served in one round, more than 0. At least the usual cost of
    ///   an element: one that costs more waits for cost / quantum rounds, which the queue goes through when it is asked
    ///   for the next.
    package init(quantum: Int) { order = FairOrder(quantum: quantum) }

    /// How many elements wait.
    package var count: Int { order.count }

    /// Whether nothing waits.
    package var isEmpty: Bool { order.count == 0 }

    /// Puts an element at the end of its flow.
    /// - Parameters:
    ///   - flow: who sends it, as far as the band goes: in each band a flow has a turn of its own.
    ///   - band: from 0 to 63; higher goes first.
    ///   - cost: at least 1, in the units of the quantum.
    ///   - expiresAt: the second, on whatever clock the owner counts, from which it is of no use; `Int64.max`
    ///     is never.
    package mutating func append(_ element: Element, flow: UInt64, band: UInt8, cost: Int, expiresAt: Int64) {
        let slot = order.append(flow: flow, band: band, cost: cost, expiresAt: expiresAt)
        if slot == elements.count {
            elements.append(element)
        } else {
            elements[slot] = element
        }
    }

    /// The next one, which leaves the queue, expired or not; nil where nothing waits.
    package mutating func popFirst() -> Element? {
        guard let slot = order.popFirst() else { return nil }
        return take(slot)
    }

    /// Everything whose time is over leaves the queue, what expired first at the front.
    /// - Parameter now: the second on that clock.
    package mutating func removeExpired(at now: Int64) -> [Element] {
        var expired: [Element] = []
        while let slot = order.popExpired(at: now), let element = take(slot) { expired.append(element) }
        return expired
    }

    /// Somebody has to go for a newcomer of this flow and band, and leaves the queue: one that has expired; else one of
    /// the lowest band, if that is lower than the newcomer's; else, in the same band, one of the flow with most waiting,
    /// if that has at least two more than the newcomer's flow has there. Of the lowest band it is always the newest of
    /// the flow with most waiting that goes.
    /// - Parameter now: the second on that clock.
    /// - Returns: nil: the newcomer itself is the one to be refused.
    package mutating func makeRoom(for flow: UInt64, band: UInt8, now: Int64) -> Element? {
        guard let slot = order.makeRoom(for: flow, band: band, now: now) else { return nil }
        return take(slot)
    }

    /// Whether ``makeRoom(for:band:now:)`` would find somebody.
    package mutating func canMakeRoom(for flow: UInt64, band: UInt8, now: Int64) -> Bool {
        order.canMakeRoom(for: flow, band: band, now: now)
    }

    /// When the first of those that wait expires; nil: none does.
    package mutating func nextExpiry() -> Int64? { order.nextExpiry() }

    /// Everything leaves the queue, in the order in which it came.
    package mutating func removeAll() -> [Element] {
        let all = order.slotsByArrival.compactMap { elements[$0] }
        order = FairOrder(quantum: order.quantum)
        elements = []
        return all
    }

    private mutating func take(_ slot: Int) -> Element? {
        defer { elements[slot] = nil }
        return elements[slot]
    }
}

extension FairQueue: Sendable where Element: Sendable {}

/// The queue without its elements: they are known by slot, a small number that is used again once it is free. Kept apart
/// so that it is compiled here, whatever the elements are.
private struct FairOrder: Sendable {
    private struct Key: Hashable {
        let flow: UInt64
        let band: UInt8
    }

    private struct Entry {
        let flow: Int
        let cost: Int
        /// From 1, in the order in which they came; 0 where the slot is free.
        var number: UInt64
    }

    private struct Flow {
        let key: Key
        /// The oldest of what waits in it.
        var first: Int?
        var count = 0
        /// What it may have served before it passes the turn on.
        var deficit = 0
    }

    private struct Band {
        /// The flow whose turn it is, which has had its quantum; nil where nothing waits.
        var turn: Int?
        /// At n - 1 one of the flows in which n wait, nil where there is none; there is one at the end, always.
        var byLength: [Int?] = []
    }

    private struct Expiry: Comparable {
        let at: Int64
        let number: UInt64
        let entry: Int

        static func < (one: Self, other: Self) -> Bool { (one.at, one.number) < (other.at, other.number) }
    }

    let quantum: Int
    private(set) var count = 0
    private var lastNumber: UInt64 = 0
    private var entries = Slots<Entry>()
    /// The entries of a flow, from the oldest to the newest.
    private var arrivals = Rings()
    private var flows = Slots<Flow>()
    private var slotOfFlow: [Key: Int] = [:]
    /// The flows of a band, in the order of their turns.
    private var turns = Rings()
    /// The flows of a band in which equally many wait.
    private var peers = Rings()
    private var bands = [Band](repeating: Band(), count: 64)
    /// A bit for each band in which something waits.
    private var occupied: UInt64 = 0
    /// All that expires, and some that has left otherwise: looked for only when it comes to the top.
    private var expiries = Heap<Expiry>()

    init(quantum: Int) {
        precondition(quantum > 0, "a round in which nobody may send has no end")
        self.quantum = quantum
    }

    var slotsByArrival: [Int] {
        entries.values.indices.filter { entries[$0].number != 0 }.sorted { entries[$0].number < entries[$1].number }
    }

    mutating func append(flow: UInt64, band: UInt8, cost: Int, expiresAt: Int64) -> Int {
        precondition(band < 64 && cost >= 1, "bands go from 0 to 63, and nothing is free")
        let flow = openFlow(Key(flow: flow, band: band))
        lastNumber += 1
        let entry = entries.insert(Entry(flow: flow, cost: cost, number: lastNumber))
        arrivals.insert(entry, before: flows[flow].first)
        if flows[flow].first == nil { flows[flow].first = entry }
        setLength(of: flow, to: flows[flow].count + 1)
        if expiresAt < .max { expiries.insert(Expiry(at: expiresAt, number: lastNumber, entry: entry)) }
        count += 1
        return entry
    }

    mutating func popFirst() -> Int? {
        guard occupied != 0 else { return nil }
        let band = 63 - occupied.leadingZeroBitCount
        while let flow = bands[band].turn, let entry = flows[flow].first {
            let cost = entries[entry].cost
            if cost <= flows[flow].deficit {
                flows[flow].deficit -= cost
                remove(entry)
                return entry
            }
            giveTurn(to: turns.after(flow), in: band)
        }
        return nil
    }

    mutating func popExpired(at now: Int64) -> Int? {
        while let first = expiries.min, first.at <= now {
            expiries.removeMin()
            if entries[first.entry].number == first.number {
                remove(first.entry)
                return first.entry
            }
        }
        return nil
    }

    mutating func nextExpiry() -> Int64? {
        while let first = expiries.min {
            if entries[first.entry].number == first.number { return first.at }
            expiries.removeMin()
        }
        return nil
    }

    mutating func makeRoom(for flow: UInt64, band: UInt8, now: Int64) -> Int? {
        if let expired = popExpired(at: now) { return expired }
        guard let victim = newestOfLongest(toServe: Key(flow: flow, band: band)) else { return nil }
        remove(victim)
        return victim
    }

    mutating func canMakeRoom(for flow: UInt64, band: UInt8, now: Int64) -> Bool {
        if let expiry = nextExpiry(), expiry <= now { return true }
        return newestOfLongest(toServe: Key(flow: flow, band: band)) != nil
    }

    private func newestOfLongest(toServe newcomer: Key) -> Int? {
        guard occupied != 0 else { return nil }
        let lowest = occupied.trailingZeroBitCount
        guard lowest <= newcomer.band, let longest = bands[lowest].byLength.last ?? nil,
            let first = flows[longest].first
        else { return nil }
        if lowest == newcomer.band {
            // With two more the longest still has no less than the newcomer's afterwards: nothing goes back and forth.
            let own = slotOfFlow[newcomer].map { flows[$0].count } ?? 0
            guard flows[longest].count >= own + 2 else { return nil }
        }
        return arrivals.before(first)
    }

    private mutating func remove(_ entry: Int) {
        let flow = entries[entry].flow
        let follower = arrivals.remove(entry)
        if flows[flow].first == entry { flows[flow].first = follower }
        setLength(of: flow, to: flows[flow].count - 1)
        if flows[flow].count == 0 { closeFlow(flow) }
        entries[entry].number = 0
        entries.free(entry)
        count -= 1
        if expiries.count > 2 * count + 64 {
            expiries = Heap(expiries.unordered.filter { entries[$0.entry].number == $0.number })
        }
    }

    // MARK: Flows

    private mutating func openFlow(_ key: Key) -> Int {
        if let flow = slotOfFlow[key] { return flow }
        let flow = flows.insert(Flow(key: key))
        slotOfFlow[key] = flow
        let band = Int(key.band)
        turns.insert(flow, before: bands[band].turn)
        if bands[band].turn == nil {
            occupied |= 1 << band
            giveTurn(to: flow, in: band)
        }
        return flow
    }

    private mutating func closeFlow(_ flow: Int) {
        let key = flows[flow].key
        let band = Int(key.band)
        let next = turns.remove(flow)
        if bands[band].turn == flow {
            if let next {
                giveTurn(to: next, in: band)
            } else {
                bands[band] = Band()
                occupied &= ~(1 << band)
            }
        }
        slotOfFlow[key] = nil
        flows.free(flow)
    }

    private mutating func giveTurn(to flow: Int, in band: Int) {
        bands[band].turn = flow
        flows[flow].deficit += quantum
    }

    /// A flow has become longer or shorter by one.
    private mutating func setLength(of flow: Int, to length: Int) {
        let band = Int(flows[flow].key.band)
        let old = flows[flow].count
        flows[flow].count = length
        if old > 0 {
            let peer = peers.remove(flow)
            if bands[band].byLength[old - 1] == flow { bands[band].byLength[old - 1] = peer }
        }
        if length > 0 {
            if length > bands[band].byLength.count { bands[band].byLength.append(nil) }
            let peer = bands[band].byLength[length - 1]
            peers.insert(flow, before: peer)
            if peer == nil { bands[band].byLength[length - 1] = flow }
        }
        // Whoever leaves the greatest length is one below it now, so that at most one place at the end is empty.
        if let longest = bands[band].byLength.last, longest == nil { bands[band].byLength.removeLast() }
        // What a long flow of the past took is given back, else each band could keep as much as the whole queue.
        if bands[band].byLength.capacity > 4 * bands[band].byLength.count + 64 {
            bands[band].byLength = bands[band].byLength.map { $0 }
        }
    }
}

/// Values by number, where a number that is free again is given out again.
private struct Slots<Value: Sendable> {
    private(set) var values: [Value] = []
    private var unused: [Int] = []

    subscript(slot: Int) -> Value {
        get { values[slot] }
        set { values[slot] = newValue }
    }

    mutating func insert(_ value: Value) -> Int {
        guard let slot = unused.popLast() else {
            values.append(value)
            return values.count - 1
        }
        values[slot] = value
        return slot
    }

    mutating func free(_ slot: Int) { unused.append(slot) }
}

/// Rings of numbers: each number is in one of them at most, and whoever owns a ring knows one number of it, its head.
private struct Rings {
    private var links: [(before: Int, after: Int)] = []

    func before(_ number: Int) -> Int { links[number].before }

    func after(_ number: Int) -> Int { links[number].after }

    /// Puts a number at the end of the ring of `head`, which is right before it; without a head it is a ring alone.
    mutating func insert(_ number: Int, before head: Int?) {
        while links.count <= number { links.append((links.count, links.count)) }
        let after = head ?? number
        let before = head.map { links[$0].before } ?? number
        links[number] = (before, after)
        links[before].after = number
        links[after].before = number
    }

    /// - Returns: the number that came after it; nil where it was alone.
    mutating func remove(_ number: Int) -> Int? {
        let (before, after) = links[number]
        links[before].after = after
        links[after].before = before
        return after == number ? nil : after
    }
}
