// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// The links for one phone, one to each node, all over one tor circuit. Beyond ``PhoneCircuits/maximum`` several phones
/// share a circuit.
package final class NodeCircuit {
    /// The phone for which the circuit began.
    let phone: [UInt8]
    /// The links, in the order of the sender's list of nodes.
    package let links: [NodeLink]

    init(_ phone: [UInt8], _ links: [NodeLink]) {
        self.phone = phone
        self.links = links
    }

    /// The number of the circuit: that of its first link.
    package var number: Int { links[0].id }

    /// What the sender knows of each node.
    package var nodes: [NodeState] { links.map(\.node) }

    /// Whether no node is in a pause, which would be forgotten with the circuit.
    package func hasNoPause(at now: MonotonicTime) -> Bool { links.allSatisfy { $0.node.retryAt <= now } }
}

/// A sender's circuits, each with a link to each node, and where its submissions are. Used on the loop's thread only.
package final class NodeCircuits {
    /// The submissions without a result.
    package var submissions = SubmissionTable()
    private let loop: EventLoop
    private var factory: NodeLinkFactory
    private var circuits = PhoneCircuits<NodeCircuit>()
    private var circuitsByNumber: [Int: NodeCircuit] = [:]

    package init(_ factory: NodeLinkFactory, on loop: EventLoop) {
        self.factory = factory
        self.loop = loop
    }

    package var all: [NodeCircuit] { circuits.all }

    /// The circuit of a phone, which is a new one if it has none yet.
    /// - Parameters:
    ///   - owner: receives the events of a new circuit's links; not retained.
    ///   - mayEnd: whether a circuit without submissions may end for another phone's; `nil` if none may.
    package func circuit(
        for phone: [UInt8], of owner: any NodeLinkOwner, mayEnd: ((NodeCircuit) -> Bool)?
    ) -> NodeCircuit {
        let isIdle = mayEnd.map { mayEnd in
            { [unowned self] (circuit: NodeCircuit) in submissions.isIdle(circuit.number) && mayEnd(circuit) }
        }
        switch circuits.circuit(for: phone, isIdle: isIdle) {
        case .known(let circuit): return circuit
        case .new(let idle):
            if let idle {
                for link in idle.links { link.close() }
                forget(idle)
            }
            let circuit = NodeCircuit(phone, factory.links(for: owner, on: loop))
            circuits.insert(circuit, for: phone)
            circuitsByNumber[circuit.number] = circuit
            submissions.open(circuit.number, links: circuit.links.map(\.id))
            return circuit
        }
    }

    private func forget(_ circuit: NodeCircuit) {
        circuitsByNumber[circuit.number] = nil
        submissions.close(circuit.number, links: circuit.links.map(\.id))
    }

    /// The circuit of a submission, which must not have a result.
    package func circuit(of number: UInt64) -> NodeCircuit { circuitsByNumber[submissions.circuit(of: number)]! }

    /// The circuit of a link, and the index of the link's node; `nil` if the circuit has ended.
    package func position(of link: NodeLink) -> (circuit: NodeCircuit, node: Int)? {
        guard let (number, node) = submissions.position(of: link.id) else { return nil }
        return circuitsByNumber[number].map { ($0, node) }
    }

    /// The link whose session has a submission, and its request number there; `nil` if none has it.
    package func place(of number: UInt64) -> (link: NodeLink, request: UInt32)? {
        guard let place = submissions.place(of: number),
            let link = circuit(of: number).links.first(where: { $0.id == place.link })
        else { return nil }
        return (link, place.request)
    }

    /// The submission that a link's session has under a request number.
    package func submission(at link: NodeLink, _ request: UInt32) -> UInt64? {
        submissions.submission(at: SubmissionTable.Place(link: link.id, request: request))
    }

    /// Gives a submission to a link.
    package func give(_ pending: PendingSubmission, _ number: UInt64, to link: NodeLink) {
        submissions.place(number, at: SubmissionTable.Place(link: link.id, request: link.session.add(pending)))
    }

    /// Watches all links for silence and idleness, and ends circuits that have nothing to do or to remember. Call it about once
    /// a second while there are circuits.
    package func watch(now: MonotonicTime) {
        for circuit in all {
            for link in circuit.links { link.watch(now: now) }
            guard submissions.isIdle(circuit.number), circuit.hasNoPause(at: now),
                circuit.links.allSatisfy(\.isUnused)
            else { continue }
            circuits.remove(circuit.phone)
            forget(circuit)
        }
    }

    /// Closes all connections for good. No submission may be without a result.
    package func close() {
        for circuit in all {
            for link in circuit.links { link.close() }
        }
        (circuits, circuitsByNumber) = (PhoneCircuits(), [:])
    }
}
