// SPDX-License-Identifier: Apache-2.0

/// Where a sender's submissions without a result are: on which circuit each is, and which link's session has it.
/// Submissions, circuits and links are identified by their numbers. No I/O and no clock.
package struct SubmissionTable {
    /// Identifies a submission; never another one later.
    package typealias Number = UInt64

    /// The link whose session has a submission, and its request number there.
    package struct Place: Hashable, Sendable {
        package let link: Int
        package let request: UInt32

        package init(link: Int, request: UInt32) {
            self.link = link
            self.request = request
        }
    }

    private struct Entry {
        let circuit: Int
        var place: Place?
    }

    private struct Link {
        let circuit: Int
        /// The node's index in the sender's list.
        let node: Int
        /// The submissions that the link's session has.
        var submissions: [UInt32: Number] = [:]
    }

    private var lastNumber: Number = 0
    private var entries: [Number: Entry] = [:]
    /// The number of submissions on each circuit.
    private var circuits: [Int: Int] = [:]
    private var links: [Int: Link] = [:]

    package init() {}

    /// The number of submissions without a result.
    package var count: Int { entries.count }

    /// The submissions without a result, the oldest first.
    package var numbers: [Number] { entries.keys.sorted() }

    // MARK: Circuits

    /// A circuit begins, with a link to each node.
    mutating func open(_ circuit: Int, links numbers: some Sequence<Int>) {
        circuits[circuit] = 0
        for (node, link) in numbers.enumerated() { links[link] = Link(circuit: circuit, node: node) }
    }

    /// A circuit without submissions has ended.
    mutating func close(_ circuit: Int, links numbers: some Sequence<Int>) {
        circuits[circuit] = nil
        for link in numbers { links[link] = nil }
    }

    /// Whether a circuit has no submissions.
    package func isIdle(_ circuit: Int) -> Bool { circuits[circuit] == 0 }

    /// The submissions on a circuit which no link's session has, the oldest first. Looks at all submissions.
    package func unplaced(on circuit: Int) -> [Number] {
        isIdle(circuit)
            ? [] : entries.lazy.filter { $1.circuit == circuit && $1.place == nil }.map(\.key).sorted()
    }

    /// Whether a submission may go to this link's node.
    package func needs(_ link: Int) -> Bool { links[link].map { !isIdle($0.circuit) } ?? false }

    /// The circuit of a link, and the index of its node in the sender's list; `nil` if the circuit has ended.
    package func position(of link: Int) -> (circuit: Int, node: Int)? { links[link].map { ($0.circuit, $0.node) } }

    // MARK: Submissions

    /// A number for a submission that begins later.
    package mutating func newNumber() -> Number {
        lastNumber += 1
        return lastNumber
    }

    /// A submission begins, at no link yet.
    package mutating func insert(_ number: Number, on circuit: Int) {
        circuits[circuit, default: 0] += 1
        entries[number] = Entry(circuit: circuit)
    }

    /// Whether a submission has no result.
    package func contains(_ number: Number) -> Bool { entries[number] != nil }

    /// The circuit of a submission, which must not have a result.
    package func circuit(of number: Number) -> Int { entries[number]!.circuit }

    /// Where a submission is; `nil` if no link's session has it.
    package func place(of number: Number) -> Place? { entries[number]?.place }

    /// A link's session has taken a submission.
    package mutating func place(_ number: Number, at place: Place) {
        links[place.link]?.submissions[place.request] = number
        entries[number]!.place = place
    }

    /// The submission that a link's session has.
    package func submission(at place: Place) -> Number? { links[place.link]?.submissions[place.request] }

    /// Takes a submission from its link: it may then go to another one.
    package mutating func displace(_ number: Number) {
        guard let place = entries[number]?.place else { return }
        links[place.link]?.submissions[place.request] = nil
        entries[number]!.place = nil
    }

    /// A submission has a result.
    package mutating func remove(_ number: Number) {
        displace(number)
        if let entry = entries.removeValue(forKey: number) { circuits[entry.circuit]? -= 1 }
    }
}
