// SPDX-License-Identifier: Apache-2.0

import Foundation
import Prometheus
import StandIns
import TNP
import TestSupport
import Testing
import Time

@testable import Cluster
@testable import Delivery
@testable import TocsinNode
@testable import Tor

/// Tests the files in Docs/operations with the real tools and against the metrics of the node.
@Suite(.tags(.sockets)) struct OperationsFilesTests {
    private static let rules = "Docs/operations/alerts.yml"
    private static let ruleTests = "Tests/System/Operations/alerts-test.yml"
    private static let dashboard = "Docs/operations/grafana-dashboard.json"

    /// The metric families of the node and of the registry.
    private static let families =
        NodeMetrics.catalogue + [
            MetricFamily("tocsin_metrics_dropped_total", .counter, help: "Metrics not kept.", labels: ["reason"])
        ]

    private func text(_ path: String) throws -> String { try String(contentsOfFile: path, encoding: .utf8) }

    /// The metric names in a text.
    private func metrics(in text: String) -> Set<String> {
        Set(text.matches(of: /\b(?:tocsin|process)_[a-z_]+/).map { String($0.0) })
    }

    /// The names of the series of a family.
    private func series(of family: MetricFamily) -> [String] {
        if case .histogram = family.kind {
            ["_bucket", "_sum", "_count"].map { family.name + $0 }
        } else {
            [family.name]
        }
    }

    /// The conditions of the alert rules and the queries of the dashboard.
    private func expressions() throws -> [String] {
        let rules = try text(Self.rules)
        // From `expr:` to the next key of the rule.
        let conditions = rules.matches(of: /expr: (?:>-)?([\s\S]*?)\n +(?:for|labels):/).map { String($0.1) }
        try #require(conditions.count == rules.matches(of: /- alert:/).count)
        let queries = try text(Self.dashboard).matches(of: /"expr": "((?:[^"\\]|\\.)*)"/).map {
            String($0.1).replacing("\\\"", with: "\"")
        }
        try #require(!queries.isEmpty)
        return conditions + queries
    }

    @Test(.timeLimit(.minutes(2)))
    func `promtool accepts the alert rules, and they pass their tests`() async throws {
        guard try await ChildProcess.output(of: "which", ["promtool"]).isSuccess else {
            return print("SKIPPED: promtool is not installed; no alert rule was tested (Debian: prometheus)")
        }
        for arguments in [["check", "rules", Self.rules], ["test", "rules", Self.ruleTests]] {
            let result = try await ChildProcess.output(of: "promtool", arguments)
            #expect(result.isSuccess, "\(result.text)")
        }
    }

    @Test func `each alert has a test, a description, a severity and a runbook`() throws {
        let rules = try text(Self.rules)
        let names = rules.matches(of: /- alert: ([A-Za-z]+)/).map { String($0.1) }
        #expect(Set(names).count == names.count && names.count > 20)
        let tests = try text(Self.ruleTests)
        for (name, rule) in zip(names, rules.components(separatedBy: "- alert:").dropFirst()) {
            #expect(tests.contains("alertname=\"\(name)\""), "\(name) is not tested")
            #expect(rule.contains("runbook: Docs/operations.md#\(name.lowercased())\n"), "\(name)")
            #expect(rule.contains("summary: ") && rule.contains("description: "), "\(name)")
            #expect(
                rule.contains("severity: critical}") || rule.contains("severity: warning}") || rule.contains("info}"))
        }
    }

    @Test func `the rules and the dashboard use existing metrics and labels only`() throws {
        let labels = Dictionary(
            uniqueKeysWithValues: Self.families.flatMap { family in series(of: family).map { ($0, family.labels) } })
        for expression in try expressions() {
            for name in metrics(in: expression) {
                #expect(labels[name] != nil, "there is no metric \(name)")
            }
            for match in expression.matches(of: /((?:tocsin|process)_[a-z_]+)\{([^}]*)\}/) {
                for label in match.2.matches(of: /([a-z_]+)\s*(?:=~|!~|!=|=)/).map({ String($0.1) }) {
                    // Prometheus adds these labels.
                    if ["job", "instance"].contains(label) { continue }
                    #expect(labels[String(match.1)]?.contains(label) == true, "\(match.1) has no label \(label)")
                }
            }
        }
    }

    @Test func `every counter that a rule compares with an earlier value is there before its first event`() throws {
        let metrics = NodeMetrics()
        metrics.count(.serving(Route(app: "bisq", magic: .iOS)))
        metrics.show(Engine.Status(since: .now))
        let lines = String(decoding: metrics.exposition, as: UTF8.self)
        let compared = try expressions().flatMap { expression in
            expression.matches(of: /(?:increase|rate|irate)\((tocsin_[a-z_]+_total)/).map { String($0.1) }
        }
        #expect(Set(compared).count > 8)
        for name in Set(compared) { #expect(lines.contains("\n\(name){") || lines.contains("\n\(name) 0"), "\(name)") }
    }

    @Test func `every metric is used by a rule or the dashboard`() throws {
        let used = metrics(in: try expressions().joined(separator: "\n"))
        for family in Self.families {
            #expect(!used.isDisjoint(with: series(of: family)), "nothing shows \(family.name)")
        }
    }

    @Test func `each dashboard panel has a title, a position, a data source and a query`() throws {
        let object = try JSONSerialization.jsonObject(with: Data(try text(Self.dashboard).utf8))
        let dashboard = try #require(object as? [String: Any])
        let variables = (dashboard["templating"] as? [String: Any])?["list"] as? [[String: Any]] ?? []
        #expect(variables.contains { $0["type"] as? String == "datasource" && $0["query"] as? String == "prometheus" })
        #expect(dashboard["id"] is NSNull && dashboard["schemaVersion"] as? Int ?? 0 >= 36)
        let panels = try #require(dashboard["panels"] as? [[String: Any]])
        #expect(Set(panels.compactMap { $0["id"] as? Int }).count == panels.count && panels.count > 20)
        for panel in panels {
            let title = panel["title"] as? String ?? ""
            let position = panel["gridPos"] as? [String: Int] ?? [:]
            #expect(!title.isEmpty && (position["x"] ?? 99) + (position["w"] ?? 99) <= 24, "\(title)")
            guard panel["type"] as? String != "row" else { continue }
            #expect((panel["datasource"] as? [String: String])?["uid"] == "${datasource}", "\(title)")
            #expect((panel["targets"] as? [[String: Any]])?.allSatisfy { $0["expr"] is String } == true, "\(title)")
        }
    }

    @Test(.timeLimit(.minutes(2)))
    func `promtool parses every rule and dashboard query`() async throws {
        guard try await ChildProcess.output(of: "which", ["promtool"]).isSuccess else {
            return print("SKIPPED: promtool is not installed; no query was tested (Debian: prometheus)")
        }
        // Written as recording rules: promtool cannot parse a query without a server in another way.
        let queries = try expressions().map { $0.replacing("$__rate_interval", with: "5m") }
        let lines = queries.enumerated().map { number, query in
            let text = query.replacing("\n", with: " ").replacing("'", with: "''")
            return "  - record: query:number:\(number)\n    expr: '\(text)'\n"
        }
        let file = NSTemporaryDirectory() + "tocsin-queries-\(UUID().uuidString).yml"
        try ("groups:\n- name: queries\n  rules:\n" + lines.joined()).write(
            toFile: file, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: file) }
        let result = try await ChildProcess.output(of: "promtool", ["check", "rules", file])
        #expect(result.isSuccess, "\(result.text)")
    }
}
