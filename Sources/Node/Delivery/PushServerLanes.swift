// SPDX-License-Identifier: Apache-2.0

/// Which lane serves which push server of Web Push, for one app. A server keeps its lane, with the state of its
/// breaker, until another server needs one and none is free. Then the least recently used lane without envelopes in
/// memory is reassigned, if possible one without stored envelopes that wait for its breaker. Lanes are reserved for the
/// servers that the operator has named, and these keep theirs; other servers, which senders choose, share the rest.
struct PushServerLanes {
    /// What a server gets.
    enum Lane: Equatable {
        /// Its own lane.
        case kept(Int)
        /// A lane that served another server or none.
        case new(Int)
        /// No lane: all that this server may have carry envelopes of others.
        case noneFree
    }

    /// What a lane carries.
    enum Use: Int {
        /// Nothing.
        case idle
        /// Stored envelopes wait for its breaker.
        case holding
        /// It has envelopes in memory.
        case busy
    }

    private let named: Set<String>
    private var lanes: [String: Int] = [:]
    private var origins: [String?]
    private var lastUse: [UInt64]
    private var uses: UInt64 = 0

    /// - Parameters:
    ///   - count: the number of lanes.
    ///   - named: the servers that the operator has named, fewer than lanes.
    init(count: Int, named: Set<String>) {
        self.named = named
        origins = Array(repeating: nil, count: count)
        lastUse = Array(repeating: 0, count: count)
    }

    /// Whether a lane serves a server that the operator has named.
    func isNamed(_ lane: Int) -> Bool { origins[lane].map(named.contains) ?? false }

    /// Finds the lane of a server, or gives it one.
    /// - Parameter use: what a lane carries.
    mutating func lane(of origin: String, use: (Int) -> Use) -> Lane {
        uses += 1
        if let lane = lanes[origin] {
            lastUse[lane] = uses
            return .kept(lane)
        }
        let others = origins.indices.filter { origins[$0] != nil && !isNamed($0) }
        let mayTakeFree = named.contains(origin) || others.count < origins.count - named.count
        let candidates = others + (mayTakeFree ? origins.indices.filter { origins[$0] == nil } : [])
        let usable = candidates.map { (lane: $0, use: use($0).rawValue, lastUse: lastUse[$0]) }
            .filter { $0.use < Use.busy.rawValue }
        guard let lane = usable.min(by: { ($0.use, $0.lastUse) < ($1.use, $1.lastUse) })?.lane else { return .noneFree }
        if let former = origins[lane] { lanes[former] = nil }
        (origins[lane], lanes[origin], lastUse[lane]) = (origin, lane, uses)
        return .new(lane)
    }
}
