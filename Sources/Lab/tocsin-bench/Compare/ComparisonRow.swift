// SPDX-License-Identifier: Apache-2.0

/// A row of the comparison, by its letter.
enum ComparisonRow: String, CaseIterable {
    case h2load = "a"
    case client = "b"
    case nghttpx = "c"
    case node = "d"
    case nginx = "e"
    case httpAPI = "f"
    case onion = "g"
    case openLoop = "h"
    case relay = "i"
    case cluster = "j"
    case onionProxy = "k"
    case onionForwarded = "l"
    case httpSpool = "m"
    case spool = "n"
    case site = "o"
    case aioapns = "p"
    case httpx = "q"

    /// Whether the part under test is behind an onion service, whose tor is the reference.
    var usesOnion: Bool { [.onion, .onionProxy, .onionForwarded].contains(self) }

    /// Whether the part under test is a client of PyPI.
    var needsPython: Bool { [.aioapns, .httpx].contains(self) }

    /// What the row measures, with its letter.
    var title: String {
        let route =
            switch self {
            case .h2load: "h2load → sink"
            case .client: "our HTTP/2 client → sink"
            case .nghttpx: "h2load → nghttpx → sink"
            case .node: "TNP load → node → sink"
            case .nginx: "h2load, HTTP/1.1 → nginx"
            case .httpAPI: "h2load, HTTP/1.1 → node → sink"
            case .onion: "TNP load → tor → node → sink"
            case .openLoop: "open loop, node, node with Redis, h2load"
            case .relay: "TNP load → node → node → sink"
            case .cluster: "TNP load → node, Redis → sink"
            case .onionProxy: "h2load → socat → tor → nghttpx → sink"
            case .onionForwarded: "TNP load → socat → tor → node → sink"
            case .httpSpool: "h2load, HTTP/1.1 → node, spool → sink"
            case .spool: "TNP load → node, spool → sink"
            case .site: "TNP load → node, a site → node → sink"
            case .aioapns: "aioapns → sink"
            case .httpx: "httpx → sink"
            }
        return "(\(rawValue)) \(route)"
    }

    /// Parses letters separated by commas; `nil` if one of them is no row.
    /// - Returns: the rows in the order of the table.
    static func list(_ text: String) -> [ComparisonRow]? {
        let letters = text.split(separator: ",").map(String.init)
        guard !letters.isEmpty, letters.allSatisfy({ ComparisonRow(rawValue: $0) != nil }) else { return nil }
        return allCases.filter { letters.contains($0.rawValue) }
    }
}
