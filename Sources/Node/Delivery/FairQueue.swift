// SPDX-License-Identifier: Apache-2.0

import HeapModule

/// A fair queue of many flows by deficit round robin (Shreedhar and Varghese, 1995): a flow with 10 000 elements delays
/// itself, not other flows. Each flow belongs to a band, and a higher band always goes first.
///
/// The owner bounds the number of elements and calls ``makeRoom(for:band:now:)`` when the bound is reached. Memory is
/// proportional to the largest number of elements that have waited at a time; an empty flow takes no memory and keeps
/// no deficit.
struct FairQueue<Element> {
    private struct Key: Hashable {
        let flow: UInt64
        let band: UInt8
    }

    private struct Entry {
        let flow: Int
        let cost: Int
        /// Position in the order of arrival, from 1; 0 in a free slot.
        var number: UInt64
        /// `nil` in a free slot.
        var element: Element?
    }

    private struct Flow {
        let key: Key
        /// The oldest element of the flow.
        var first: Int?
        var count = 0
        /// Cost that the flow may still consume in its turn.
        var deficit = 0
    }

    private struct Band {
        /// The flow that has its turn, with its quantum already added; `nil` if the band is empty.
        var turn: Int?
        /// At index n - 1, one of the flows with n elements, or `nil` if there is none. The last entry is never `nil`.
        var byLength: [Int?] = []
    }

    private struct Expiry: Comparable {
        let at: Int64
        let number: UInt64
        let entry: Int

        static func < (one: Self, other: Self) -> Bool { (one.at, one.number) < (other.at, other.number) }
    }

    private let quantum: Int
    /// Number of waiting elements.
    private(set) var count = 0
    private var lastNumber: UInt64 = 0
    private var entries = Slots<Entry>()
    /// The entries of each flow, from the oldest to the newest.
    private var arrivals = Rings()
    private var flows = Slots<Flow>()
    private var slotOfFlow: [Key: Int] = [:]
    /// The flows of each band, in the order of their turns.
    private var turns = Rings()
    /// The flows of each band with the same number of elements.
    private var peers = Rings()
    private var bands = [Band](repeating: Band(), count: 64)
    /// One bit for each band that has elements.
    private var occupied: UInt64 = 0
    /// All entries that expire, and some entries that have already left the queue, which are skipped at the top.
    private var expiries = Heap<Expiry>()

    /// - Parameter quantum: the cost that a flow may consume in one round, more than 0. It should be at least the usual
    ///   cost of an element: an element that costs more waits for cost / quantum rounds, and ``popFirst()`` has to go
    ///   through all of them.
    init(quantum: Int) {
        precondition(quantum > 0, "the quantum must be positive")
        self.quantum = quantum
    }

    var isEmpty: Bool { count == 0 }

    /// Appends an element to its flow.
    /// - Parameters:
    ///   - flow: the sender; a sender has a separate flow in each band.
    ///   - band: from 0 to 63; higher goes first.
    ///   - cost: at least 1, in the units of the quantum.
    ///   - expiresAt: the second, on the owner's clock, at which the element expires; `Int64.max` for never.
    mutating func append(_ element: Element, flow: UInt64, band: UInt8, cost: Int, expiresAt: Int64) {
        precondition(band < 64 && cost >= 1, "the band must be at most 63, and the cost at least 1")
        let flow = openFlow(Key(flow: flow, band: band))
        lastNumber += 1
        let entry = entries.insert(Entry(flow: flow, cost: cost, number: lastNumber, element: element))
        arrivals.insert(entry, before: flows[flow].first)
        if flows[flow].first == nil { flows[flow].first = entry }
        setLength(of: flow, to: flows[flow].count + 1)
        if expiresAt < .max { expiries.insert(Expiry(at: expiresAt, number: lastNumber, entry: entry)) }
        count += 1
    }

    /// Removes and returns the next element, expired or not; `nil` if the queue is empty.
    mutating func popFirst() -> Element? {
        guard occupied != 0 else { return nil }
        let band = 63 - occupied.leadingZeroBitCount
        while let flow = bands[band].turn, let entry = flows[flow].first {
            let cost = entries[entry].cost
            if cost <= flows[flow].deficit {
                flows[flow].deficit -= cost
                return remove(entry)
            }
            giveTurn(to: turns.after(flow), in: band)
        }
        return nil
    }

    /// Removes and returns all expired elements, in the order of expiry.
    /// - Parameter now: the time in whole seconds of the caller's clock.
    mutating func removeExpired(at now: Int64) -> [Element] {
        var expired: [Element] = []
        while let element = popExpired(at: now) { expired.append(element) }
        return expired
    }

    /// Evicts an element to make room for a new element of `flow` and `band`: an expired element if there is one,
    /// otherwise the newest element of the longest flow in the lowest occupied band. The latter is evicted only if its
    /// band is below `band`, or if its band is `band` and its flow has at least two more elements than `flow`.
    /// - Parameter now: the time in whole seconds of the caller's clock.
    /// - Returns: the evicted element; `nil` if the new element has to be refused instead.
    mutating func makeRoom(for flow: UInt64, band: UInt8, now: Int64) -> Element? {
        if let expired = popExpired(at: now) { return expired }
        guard let victim = newestOfLongest(toServe: Key(flow: flow, band: band)) else { return nil }
        return remove(victim)
    }

    /// Whether ``makeRoom(for:band:now:)`` would evict an element.
    mutating func canMakeRoom(for flow: UInt64, band: UInt8, now: Int64) -> Bool {
        if let expiry = nextExpiry(), expiry <= now { return true }
        return newestOfLongest(toServe: Key(flow: flow, band: band)) != nil
    }

    /// When the first of the waiting elements expires; `nil` if none does.
    mutating func nextExpiry() -> Int64? {
        while let first = expiries.min {
            if entries[first.entry].number == first.number { return first.at }
            expiries.removeMin()
        }
        return nil
    }

    /// Removes and returns all elements, in the order of arrival.
    mutating func removeAll() -> [Element] {
        let all = entries.values.filter { $0.number != 0 }.sorted { $0.number < $1.number }.compactMap(\.element)
        self = FairQueue(quantum: quantum)
        return all
    }

    private mutating func popExpired(at now: Int64) -> Element? {
        guard let expiry = nextExpiry(), expiry <= now else { return nil }
        return remove(expiries.removeMin().entry)
    }

    private func newestOfLongest(toServe newcomer: Key) -> Int? {
        guard occupied != 0 else { return nil }
        let lowest = occupied.trailingZeroBitCount
        guard lowest <= newcomer.band, let longest = bands[lowest].byLength.last ?? nil,
            let first = flows[longest].first
        else { return nil }
        if lowest == newcomer.band {
            // With two elements more, the longest flow is not shorter than the new element's flow after the eviction,
            // so two flows do not evict each other in turn.
            let own = slotOfFlow[newcomer].map { flows[$0].count } ?? 0
            guard flows[longest].count >= own + 2 else { return nil }
        }
        return arrivals.before(first)
    }

    private mutating func remove(_ entry: Int) -> Element? {
        let (flow, element) = (entries[entry].flow, entries[entry].element.take())
        let next = arrivals.remove(entry)
        if flows[flow].first == entry { flows[flow].first = next }
        setLength(of: flow, to: flows[flow].count - 1)
        if flows[flow].count == 0 { closeFlow(flow) }
        entries[entry].number = 0
        entries.free(entry)
        count -= 1
        if expiries.count > 2 * count + 64 {
            expiries = Heap(expiries.unordered.filter { entries[$0.entry].number == $0.number })
        }
        return element
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

    /// Updates the length of a flow; the length changes by one.
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
        // If the longest flow became shorter, it did so by one element, so no more than one entry at the end is empty.
        if let longest = bands[band].byLength.last, longest == nil { bands[band].byLength.removeLast() }
        // Frees memory after a long flow; otherwise each band could keep as much as the whole queue.
        if bands[band].byLength.capacity > 4 * bands[band].byLength.count + 64 {
            bands[band].byLength = bands[band].byLength.map { $0 }
        }
    }
}

/// Values by slot number; free numbers are reused.
private struct Slots<Value> {
    private(set) var values: [Value] = []
    private var unused: [Int] = []

    subscript(slot: Int) -> Value {
        _read { yield values[slot] }
        _modify { yield &values[slot] }
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

/// Circular doubly linked lists (rings) of slot numbers. Each number is in at most one ring. The owner of a ring stores
/// its head, the first of its numbers.
private struct Rings {
    private var links: [(before: Int, after: Int)] = []

    func before(_ number: Int) -> Int { links[number].before }

    func after(_ number: Int) -> Int { links[number].after }

    /// Inserts a number directly before `head`, which is the end of that ring. If `head` is `nil`, the number becomes a
    /// new ring.
    mutating func insert(_ number: Int, before head: Int?) {
        while links.count <= number { links.append((links.count, links.count)) }
        let after = head ?? number
        let before = head.map { links[$0].before } ?? number
        links[number] = (before, after)
        links[before].after = number
        links[after].before = number
    }

    /// Removes a number from its ring.
    /// - Returns: the next number in the ring; `nil` if the ring is now empty.
    mutating func remove(_ number: Int) -> Int? {
        let (before, after) = links[number]
        links[before].after = after
        links[after].before = before
        return after == number ? nil : after
    }
}
