// SPDX-License-Identifier: Apache-2.0

import Console

/// The results of a comparison as text: the rows, those with tor, row (h), and the ratios. Leaves out what was not
/// measured.
struct ComparisonReport {
    private let results: ComparisonResults
    private let requests: Int

    private static let widths = [42, 12, 16, 12, 9, 9, 7, 20]
    private static let openLoopWidths = [24, 10, 10, 10, 10, 17, 10, 18, 10]

    /// - Parameter requests: the requests per row and round.
    init(_ results: ComparisonResults, requests: Int) {
        self.results = results
        self.requests = requests
    }

    /// The whole report.
    var text: String { [table, onion, openLoop, ratios].compactMap { $0 }.joined(separator: "\n\n") }

    // MARK: Tables

    private static let header = line([
        "", "requests/s", "CPU s / 100 000", "peak RSS MB", "p50 ms", "p99 ms", "cores", "bottleneck",
    ])

    private static func line(_ cells: [String], _ widths: [Int] = Self.widths) -> String {
        zip(cells, widths).enumerated().map { index, cell in
            Terminal.padded(cell.0, cell.1, right: index > 0)
        }.joined()
    }

    private static func number(_ value: Double?, digits: Int) -> String {
        guard let value, value.isFinite else { return "–" }
        return (value < 0 ? "−" : "") + Terminal.number(value.magnitude, digits: digits)
    }

    private static func row(_ title: String, _ runs: [RowRun]) -> String {
        line([
            title, number(runs.median(\.rate), digits: 0), number(runs.median(\.cpuPer100000), digits: 2),
            number(runs.median(\.peakMegabytes), digits: 1), number(runs.median { $0.p50 / 1000 }, digits: 2),
            number(runs.median { $0.p99 / 1000 }, digits: 2), number(runs.busyCores, digits: 2),
            runs.bottleneck.map { "\($0.name) \(number($0.load * 100, digits: 0)) %" } ?? "–",
        ])
    }

    private static let onionRows = ComparisonRow.allCases.filter(\.usesOnion)

    private func runs(_ row: ComparisonRow) -> [RowRun] { results.rows[row] ?? [] }

    private var table: String? {
        let rows = ComparisonRow.allCases.filter { !$0.usesOnion && runs($0).count > 0 }
        guard let first = rows.first else { return nil }
        let note =
            "medians of \(runs(first).count) rounds of \(requests) requests, \(RelayLoad.maximumRequests) at most in "
            + "(e), (f) and (m), \(PythonClient.maximumRequests) in (p) and (q); CPU and RSS of the part under test"
        return ([Self.header] + rows.map { Self.row($0.title, runs($0)) } + ["", note]).joined(separator: "\n")
    }

    /// CPU seconds per 100,000 envelopes of the tor that hosts the onion service.
    private func cpuOfTor(_ run: RowRun) -> Double { run.cpuPer100000(of: Self.tor(in: run)) }

    private static func tor(in run: RowRun) -> ProcessUsage {
        run.parts.first { $0.name == OnionComparison.service }?.usage ?? ProcessUsage()
    }

    private var onion: String? {
        let rows = Self.onionRows.filter { runs($0).count > 0 }
        guard let first = rows.first else { return nil }
        let lines = rows.flatMap { row in
            let runs = runs(row)
            return [
                Self.row(row.title, runs),
                Self.line([
                    "    the onion service's tor", "", Self.number(runs.median(cpuOfTor), digits: 2),
                    Self.number(runs.median { Double(Self.tor(in: $0).peakKilobytes) / 1024 }, digits: 1),
                ]),
                Self.line([
                    "    both together", "", Self.number(runs.median { $0.cpuPer100000 + cpuOfTor($0) }, digits: 2),
                ]),
            ]
        }
        let note =
            "medians of \(runs(first).count) rounds of \(OnionComparison.envelopes) requests, "
            + "\(OnionComparison.connections) connections × \(OnionComparison.inFlight) in flight"
        return ([Self.header] + lines + ["", note]).joined(separator: "\n")
    }

    private var openLoop: String? {
        guard !results.openLoop.isEmpty else { return nil }
        func milliseconds(_ microseconds: Double) -> String { Self.number(microseconds / 1000, digits: 2) }
        let rows = OpenLoop.rates.map { rate in
            let runs = results.openLoop.filter { $0.rate == rate }
            func median(_ value: (OpenLoop.Run) -> Double) -> Double { runs.map(value).sorted()[runs.count / 2] }
            let (node50, node99) = (median { $0.node.p50 }, median { $0.node.p99 })
            let (clustered50, clustered99) = (median { $0.clusteredNode.p50 }, median { $0.clusteredNode.p99 })
            let (bare50, bare99) = (median { $0.bare.p50 }, median { $0.bare.p99 })
            let figures = [
                node50, node99, bare50, bare99, node50 - bare50, node99 - bare99, clustered50 - node50,
                clustered99 - node99,
            ]
            return Self.line(["\(rate)/s"] + figures.map(milliseconds), Self.openLoopWidths)
        }
        let header = Self.line(
            [
                "(h) open loop, ms", "node p50", "node p99", "bare p50", "bare p99", "node − bare p50", "p99",
                "cluster adds p50", "p99",
            ],
            Self.openLoopWidths)
        let note = "node: TNP load → node → sink; bare: h2load → sink, one connection; cluster: the node with Redis"
        return ([header] + rows + ["", note]).joined(separator: "\n")
    }

    // MARK: Ratios

    private var ratios: String? {
        let pairs = [
            rateRatio(.client, .h2load), cpuRatio(.client, .h2load), cpuRatio(.node, .nghttpx),
            cpuRatio(.httpAPI, .node), cpuRatio(.httpAPI, .nginx), cpuRatio(.httpSpool, .httpAPI),
            cpuRatio(.spool, .node),
            cpuRatio(.relay, .node), cpuRatio(.site, .node), cpuRatio(.cluster, .node),
            cpuRatio(.aioapns, .node), cpuRatio(.httpx, .node), cpuRatio(.aioapns, .client), cpuRatio(.httpx, .client),
            cpuRatio(.onionForwarded, .onionProxy),
        ]
        let overTor = Self.onionRows.map { row in
            ratio(
                "CPU in (\(row.rawValue)) / of the onion service's tor", runs(row).median(\.cpuPer100000),
                runs(row).median(cpuOfTor))
        }
        let lines = (pairs + overTor).compactMap { $0 }
        return lines.isEmpty ? nil : lines.joined(separator: "\n")
    }

    private func ratio(_ title: String, _ over: Double?, _ under: Double?) -> String? {
        guard let over, let under, under > 0 else { return nil }
        return Terminal.padded("\(title):", 54) + Self.number(over / under, digits: 2)
    }

    private func cpuRatio(_ over: ComparisonRow, _ under: ComparisonRow) -> String? {
        ratio(
            "CPU per request in (\(over.rawValue)) / in (\(under.rawValue))", runs(over).median(\.cpuPer100000),
            runs(under).median(\.cpuPer100000))
    }

    /// A ratio of rates, with the bottlenecks that limited them.
    private func rateRatio(_ over: ComparisonRow, _ under: ComparisonRow) -> String? {
        guard
            let line = ratio(
                "rate of (\(over.rawValue)) / of (\(under.rawValue))", runs(over).median(\.rate),
                runs(under).median(\.rate)),
            let first = runs(over).bottleneck, let second = runs(under).bottleneck
        else { return nil }
        return "\(line)   bottlenecks: \(first.name), \(second.name)"
    }
}
