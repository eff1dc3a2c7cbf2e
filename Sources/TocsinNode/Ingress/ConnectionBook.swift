import DequeModule

/// Who is connected, by number, in the order in which they came: who has not said HELLO yet, and who goes where there is
/// no room. Decides only; no I/O and no clock.
struct ConnectionBook {
    /// What a connection is good for at this moment.
    enum Use {
        /// Something of it is under way, or it has only just come.
        case busy
        /// Quiet, but it has had a phone rung.
        case served
        /// Quiet, and it never had one rung.
        case unused
    }

    private var present: Set<UInt64> = []
    private var strangers: Set<UInt64> = []
    /// Oldest first, some of whom have said HELLO or are gone.
    private var strangersInOrder: Deque<UInt64> = []
    /// All, oldest first but for those that were spared; some are gone.
    private var elders: Deque<UInt64> = []
    /// How many of the oldest are looked at for one that may go.
    static let looked = 32

    /// Connections that have not said HELLO and were not told to go.
    var halfOpen: Int { strangers.count }

    /// A connection has come, of which nothing is known yet.
    mutating func came(_ number: UInt64) {
        present.insert(number)
        strangers.insert(number)
        strangersInOrder.append(number)
        elders.append(number)
        // One who is silent at the front must not keep a crowd of the gone behind him.
        if strangersInOrder.count > 2 * strangers.count + 64 { strangersInOrder.removeAll { !strangers.contains($0) } }
        if elders.count > 2 * present.count + 64 { elders.removeAll { !present.contains($0) } }
    }

    /// It has said HELLO.
    mutating func greeted(_ number: UInt64) { strangers.remove(number) }

    /// It is gone.
    mutating func ended(_ number: UInt64) {
        present.remove(number)
        strangers.remove(number)
    }

    /// The oldest of those without HELLO, where there are more than so many: who says HELLO does so at once, and who only
    /// holds the line open makes room.
    mutating func strangerToGo(most: Int) -> UInt64? {
        while strangers.count > most, let oldest = strangersInOrder.popFirst() {
            if strangers.remove(oldest) != nil { return oldest }
        }
        return nil
    }

    /// Of a few of the oldest, one of which nothing is under way, rather one that has never had a phone rung; nil: there
    /// is none among them. Those that are spared go to the end of the line.
    mutating func oneToSpare(_ use: (UInt64) -> Use) -> UInt64? {
        var spare: UInt64?
        for _ in 0..<min(Self.looked, elders.count) {
            guard let elder = elders.popFirst(), present.contains(elder) else { continue }
            switch use(elder) {
            case .unused:
                if let spare { elders.append(spare) }
                return elder
            case .served where spare == nil: spare = elder
            case .served, .busy: elders.append(elder)
            }
        }
        return spare
    }
}
