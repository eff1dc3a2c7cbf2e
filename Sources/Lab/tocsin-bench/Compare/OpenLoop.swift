// SPDX-License-Identifier: Apache-2.0

/// Row (h): envelopes at a fixed rate to a node on its own and to a node of a cluster, and requests at the same rate
/// straight to the sink.
struct OpenLoop {
    /// The latencies of one run, in microseconds.
    struct Run {
        let rate: Int
        let node: (p50: Double, p99: Double)
        let clusteredNode: (p50: Double, p99: Double)
        let bare: (p50: Double, p99: Double)
    }

    /// Requests per second.
    static let rates = [100, 1000, 4000]
    /// The duration of a run at one rate.
    private static let seconds = 5
    /// The number of envelopes that each node receives in a round.
    static let envelopes = rates.reduce(0, +) * seconds

    let bench: BenchProgram
    let h2load: H2Load
    let node: LocalServer
    let clusteredNode: LocalServer
    let sink: LocalServer

    /// Measures all rates once.
    func round() throws -> [Run] {
        try Self.rates.map { rate in
            let requests = rate * Self.seconds
            let alone = try bench.load(requests, to: node.address, ["--rate", "\(rate)"], measuring: [])
            let clustered = try bench.load(
                requests, to: clusteredNode.address, ["--rate", "\(rate)"], measuring: [])
            let bare = try h2load.latencies(
                requests, to: H2Load.Target(origin: "https://\(sink.address)", inFlight: 1000), rate: rate)
            return Run(
                rate: rate, node: (alone.p50, alone.p99), clusteredNode: (clustered.p50, clustered.p99),
                bare: (bare.p50, bare.p99))
        }
    }
}
