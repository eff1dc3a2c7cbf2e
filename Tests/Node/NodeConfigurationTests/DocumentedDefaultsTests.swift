// SPDX-License-Identifier: Apache-2.0

import Foundation
import Settings
import TestSupport
import Testing

@testable import NodeConfiguration
@testable import TocsinNode

/// Compares the defaults in Docs with those of the decoder.
@Suite(.tags(.computing)) struct DocumentedDefaultsTests {
    private static let docs = Repository.file("Docs")

    /// The integer defaults of each key, by its name with and without its table.
    private static let defaults: [String: Set<Int>] = {
        var defaults: [String: Set<Int>] = [:]
        for table in Configuration.reference {
            for key in table.keys {
                guard let value = key.defaultValue.flatMap({ Int($0) }) else { continue }
                defaults["\(table.name).\(key.name)", default: []].insert(value)
                defaults[key.name, default: []].insert(value)
            }
        }
        return defaults
    }()

    /// A key and its default according to a line of documentation.
    struct Claim: Equatable {
        var key: String
        var value: Int
    }

    /// Finds "`limits.half_open` 1000", "| `half_open` | 1000 s |" and "| `a_burst`, `a_per_minute` | 60, 60 |".
    static func claims(in line: String) -> [Claim] {
        var claims: [Claim] = []
        let cells = line.hasPrefix("|") ? line.split(separator: "|").map { $0.trimmingPrefix(" ") } : []
        for (cell, next) in zip(cells, cells.dropFirst()) {
            let keys = keys(in: cell)
            let numbers = next.split(separator: ", ").map { number(String($0)) }
            guard !keys.isEmpty, isOnlyKeys(cell), keys.count == numbers.count else { continue }
            for (key, value) in zip(keys, numbers) {
                if let value { claims.append(Claim(key: key, value: value)) }
            }
        }
        var last = ""
        for match in line.matches(of: /`([a-z]+\.)?([a-z_]+)` (\d[\d,]*(?: MiB)?)/) {
            let key = expanded(String(match.output.1 ?? "") + match.output.2, after: last)
            last = key
            if let value = number(String(match.output.3)) { claims.append(Claim(key: key, value: value)) }
        }
        return claims
    }

    private static func keys(in cell: some StringProtocol) -> [String] {
        var last = ""
        return String(cell).matches(of: /`([a-z]+\.)?([a-z_]+)`/).map { match in
            last = expanded(String(match.output.1 ?? "") + match.output.2, after: last)
            return last
        }
    }

    private static func isOnlyKeys(_ cell: some StringProtocol) -> Bool {
        String(cell).replacing(/`[a-z_.]+`|[, ]/, with: "").isEmpty
    }

    /// Expands `_per_minute` to the full name of the key after `…_burst`.
    private static func expanded(_ key: String, after last: String) -> String {
        guard key == "_per_minute", last.hasSuffix("_burst") else { return key }
        return last.dropLast("_burst".count) + "_per_minute"
    }

    private static func number(_ text: String) -> Int? {
        guard let match = text.prefixMatch(of: /(\d{1,3}(?:,\d{3})+|\d+)( MiB)?/) else { return nil }
        return Int(match.output.1.replacing(",", with: "")).map { match.output.2 == nil ? $0 : $0 << 20 }
    }

    @Test func `a default in the documentation matches the decoder`() throws {
        let pages = try FileManager.default.contentsOfDirectory(at: Self.docs, includingPropertiesForKeys: nil)
            .filter { $0.pathExtension == "md" && $0.lastPathComponent != "configuration.md" }
        for page in pages {
            for (index, line) in try String(contentsOf: page, encoding: .utf8).split(
                separator: "\n", omittingEmptySubsequences: false
            ).enumerated() {
                for claim in Self.claims(in: String(line)) {
                    guard let defaults = Self.defaults[claim.key] else { continue }
                    #expect(
                        defaults.contains(claim.value),
                        "\(page.lastPathComponent):\(index + 1): \(claim.key) is \(defaults), not \(claim.value)")
                }
            }
        }
    }

    @Test(arguments: [
        ("| unread | `limits.read_timeout` 60 s | closed |", [Claim(key: "limits.read_timeout", value: 60)]),
        ("| `half_open` | 1000 | x |", [Claim(key: "half_open", value: 1000)]),
        ("| `idle_timeout` | 600 s | 1–86,400 |", [Claim(key: "idle_timeout", value: 600)]),
        (
            "| `app_burst`, `app_per_minute` | 3000, 12,000 | a rate |",
            [Claim(key: "app_burst", value: 3000), Claim(key: "app_per_minute", value: 12_000)]
        ),
        (
            "rate `limits.http_burst` 1000, `_per_minute` 3000 of all",
            [Claim(key: "limits.http_burst", value: 1000), Claim(key: "limits.http_per_minute", value: 3000)]
        ),
        (
            "| x | `limits.http_burst`, `_per_minute` | 1000, 3000 | 503 |",
            [Claim(key: "limits.http_burst", value: 1000), Claim(key: "limits.http_per_minute", value: 3000)]
        ),
        ("| device tokens (`TokenTable.maximumBytes`) | `device_tokens` n | 32 a place |", []),
    ])
    func `the scan finds keys with their numbers`(_ line: String, _ claims: [Claim]) {
        #expect(Self.claims(in: line) == claims)
    }
}
