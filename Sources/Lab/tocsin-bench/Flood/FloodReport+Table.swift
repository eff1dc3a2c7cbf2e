// SPDX-License-Identifier: Apache-2.0

import Console
import EventLoop
import TNP
import Time

extension FloodReport {
    private static let (title, column) = (40, 14)

    /// The report as text: calm and flooded side by side, then newcomers, hostile circuits and push services.
    var table: String {
        [sideBySide, errorsText, newcomersText, hostileText, providersText].joined(separator: "\n\n")
    }

    private var sideBySide: String {
        func row(_ title: String, _ cell: (HonestStatistics, ProcessUsage) -> String) -> String {
            let cells = [FloodPhase.calm, .flooded].map { phase in
                cell(honest[phase] ?? HonestStatistics(), node[phase] ?? ProcessUsage())
            }
            return Self.line(title, cells)
        }
        func milliseconds(_ microseconds: Double) -> String { Terminal.number(microseconds / 1000, digits: 1) }
        return [
            Self.line("", ["calm", "flooded"]),
            row("honest: submitted") { honest, _ in "\(honest.submitted)" },
            row("honest: delivered") { honest, _ in "\(honest.delivered)" },
            row("honest: RETRY, resubmitted") { honest, _ in "\(honest.retries.values.reduce(0, +))" },
            row("honest: rejected, timed out, errors") { honest, _ in
                "\(honest.rejected.values.reduce(0, +)), \(honest.timedOut), \(honest.errors.values.reduce(0, +))"
            },
            row("honest: p50 ms") { honest, _ in milliseconds(honest.latencies.p50) },
            row("honest: p99 ms") { honest, _ in milliseconds(honest.latencies.p99) },
            row("honest: slowest ms") { honest, _ in Terminal.number(honest.slowest.milliseconds, digits: 1) },
            row("node: CPU s") { _, node in Terminal.number(node.cpuSeconds, digits: 2) },
            row("node: peak RSS MB") { _, node in "\(node.peakKilobytes / 1024)" },
            Self.line("p99 flooded / p99 calm", ["", p99Ratio.map { Terminal.number($0, digits: 2) } ?? "–"]),
        ].joined(separator: "\n")
    }

    private var errorsText: String {
        let errors = honest.values.reduce(into: [:]) { $0.merge($1.errors, uniquingKeysWith: +) }
        return "errors of honest senders, which resubmitted:\(Self.words(errors))"
    }

    private var newcomersText: String {
        let times = firstRings.compactMap(\.self).sorted()
        let seconds = times.map { Terminal.number($0.milliseconds / 1000, digits: 1) }.joined(separator: ", ")
        return """
            new senders in the flood: \(times.count) of \(firstRings.count) reached their phones, after \(seconds) s; \
            \(newcomers.delivered) of \(newcomers.submitted) envelopes delivered, \
            p50 \(Terminal.number(newcomers.latencies.p50 / 1000, digits: 1)) ms, \
            RETRY\(Self.words(newcomers.retries)), errors\(Self.words(newcomers.errors))
            """
    }

    private var hostileText: String {
        let header =
            Self.line("hostile", ["circuits", "streams", "closed", "frames"])
            + "\n    answers of the node"
        let rows = HostileKind.allCases.compactMap { kind in
            hostile[kind].map { figures in
                let failed = figures.failedConnections == 0 ? "" : ", failed connections × \(figures.failedConnections)"
                return Self.line(
                    kind.title, [figures.circuits, figures.connections, figures.closed, figures.frames].map { "\($0)" })
                    + "\n    \(figures.summary.isEmpty ? "none" : figures.summary)\(failed)"
            }
        }
        let sent = hostile.values.reduce(0) { $0 + $1.frames }
        let ratio = honest[.flooded].flatMap { $0.submitted > 0 ? sent / $0.submitted : nil }
        let sum = "hostile submissions for each honest one: \(ratio.map { "\($0)" } ?? "–")"
        return ([header] + rows + [sum]).joined(separator: "\n")
    }

    private var providersText: String {
        let seconds = Terminal.number(attackDuration.milliseconds / 1000, digits: 0)
        return """
            bad device tokens forwarded in \(seconds) s: \(refusals.badTokens); unproven budget: \(unprovenBudget)
                rejected by production \(refusals.production), development \(refusals.development) \
            (the same tokens again), Google \(refusals.google), Web Push \(refusals.webPush)
            repeated rings for the same envelope: \(repeats)
            node alive at the end: \(isAlive ? "yes" : "no")
            """
    }

    private static func line(_ title: String, _ cells: [String]) -> String {
        Terminal.padded(title, self.title) + cells.map { Terminal.padded($0, column, right: true) }.joined()
    }

    private static func words(_ reasons: [Reason: Int]) -> String {
        words(reasons.sorted { $0.key.rawValue < $1.key.rawValue }.map { ("\($0.key.rawValue)", $0.value) })
    }

    private static func words(_ errors: [String: Int]) -> String {
        words(errors.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
    }

    private static func words(_ counts: [(name: String, count: Int)]) -> String {
        guard !counts.isEmpty else { return " 0" }
        return counts.map { " \($0.name) × \($0.count)" }.joined(separator: ",")
    }
}
