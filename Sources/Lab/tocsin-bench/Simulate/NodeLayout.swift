// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

/// The options of `simulate` and `simulate-many` that say which world runs.
struct WorldOptions: ParsableArguments {
    @Option(help: "The number of nodes: 3 for a cluster with an engine, a replica and Sentinels.")
    var nodes = 1

    @Flag(help: "Strangers flood the nodes of a cluster all the time; nothing but the cluster itself suffers faults.")
    var flood = false

    @Flag(help: "Four nodes without credentials in front of the node, in a chain with a standby.")
    var chain = false

    func validate() throws {
        guard (1...3).contains(nodes) else { throw ValidationError("--nodes takes 1 to 3") }
        guard nodes > 1 || !flood else { throw ValidationError("--flood needs a cluster: --nodes 3") }
        guard nodes == 1 || !chain else { throw ValidationError("--chain has a number of nodes of its own") }
    }

    var layout: NodeLayout { chain ? .chain : nodes > 1 ? .cluster(nodes) : .single }

    /// The kinds of faults that may come under a seed.
    func faults(_ seed: UInt64) -> [WeatherEvent.Kind] {
        let beside = NodeLayout.hasKeyHolders(seed) ? WeatherEvent.Kind.besideNode : []
        return switch layout {
        case .single: WeatherEvent.Kind.ofNode + beside
        case .chain: WeatherEvent.Kind.ofChain + beside
        case .cluster: flood ? WeatherEvent.Kind.ofFloodedCluster : WeatherEvent.Kind.ofCluster + beside
        }
    }

    /// The options as a command line.
    var arguments: [String] {
        (nodes > 1 ? ["--nodes", "\(nodes)"] : []) + (flood ? ["--flood"] : []) + (chain ? ["--chain"] : [])
    }
}

/// Which nodes a simulated world has, and which of them pass their envelopes on to others.
enum NodeLayout: Equatable {
    /// One node with credentials.
    case single
    /// Nodes with credentials that share an engine.
    case cluster(Int)
    /// A node with credentials, and four without.
    case chain

    /// The upstream nodes of each node, by number; a node without any has credentials.
    var upstreams: [[Int]] {
        switch self {
        case .single: [[]]
        case .cluster(let count): Array(repeating: [], count: count)
        // From node 4, a notification passes four nodes, as many as the hop count allows (PROTOCOL §9). Node 3 has a
        // standby.
        case .chain: [[], [0], [0], [1, 2], [3]]
        }
    }

    /// Whether key holders have the credentials under this seed; otherwise the nodes have them.
    static func hasKeyHolders(_ seed: UInt64) -> Bool { seed.isMultiple(of: 2) }

    /// A node, and the one that its operator names as its upstream node by mistake: each is the other's upstream node
    /// then.
    static let loop = (node: 3, upstream: 4)

    /// The node that is off at times: the preferred one of node 3's two upstream nodes.
    static let outage = 1

    /// The node that a phone's desktops use first.
    func node(ofPhone phone: Int) -> Int {
        // Every fifth phone is rung by handle, and every fifth by a site. The quotient spreads each kind over all
        // nodes.
        self == .chain ? (phone + phone / 5) % upstreams.count : 0
    }

    /// The node that a phone's app asks for its handle first. In a cluster the apps begin with different nodes, and all
    /// desktops with node 0.
    func node(ofApp phone: Int) -> Int {
        if case .cluster(let count) = self { phone / 5 % count } else { node(ofPhone: phone) }
    }

    /// The nodes that a sender may use in place of one another; the preferred one first.
    func alternatives(to node: Int) -> [Int] {
        guard case .cluster(let count) = self else { return [node] }
        return (0..<count).map { (node + $0) % count }
    }
}
