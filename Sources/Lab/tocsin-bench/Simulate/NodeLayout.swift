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

    /// What may befall the world of a seed.
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

/// Which nodes a simulated world has, and which of them give their envelopes to others.
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
        // The last is the first of four in a row, which is what a hop count allows; the one after it has a standby.
        case .chain: [[], [0], [0], [1, 2], [3]]
        }
    }

    /// Whether the credentials of a seed's nodes are in key holders; with the others, the nodes have them.
    static func hasKeyHolders(_ seed: UInt64) -> Bool { seed.isMultiple(of: 2) }

    /// A node, and that of which its operator makes it a sender by mistake: the two are each other's upstream then.
    static let loop = (node: 3, upstream: 4)

    /// The node that is off at times: one of the two that are another's upstream nodes, the preferred one.
    static let outage = 1

    /// The node that a phone's desktops use first.
    func node(ofPhone phone: Int) -> Int {
        // Each fifth phone is rung by handle, and each fifth by a site: at different nodes.
        self == .chain ? (phone + phone / 5) % upstreams.count : 0
    }

    /// The node that the app of a phone asks for its handle first. In a cluster, desktops use another one for most phones.
    func node(ofApp phone: Int) -> Int {
        if case .cluster(let count) = self { phone / 5 % count } else { node(ofPhone: phone) }
    }

    /// The nodes that a sender may use in place of one another; the preferred one first.
    func alternatives(to node: Int) -> [Int] {
        guard case .cluster(let count) = self else { return [node] }
        return (0..<count).map { (node + $0) % count }
    }
}
