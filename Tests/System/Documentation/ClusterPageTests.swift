// SPDX-License-Identifier: Apache-2.0

import Foundation
import StandIns
import TestSupport
import Testing

@testable import Tor

/// Docs/cluster.md, as an operator would use it.
@Suite(.tags(.extended)) struct ClusterPageTests {
    /// The commands of a section, as written.
    private func commands(ofSection title: String) throws -> String {
        let page = try String(contentsOf: Repository.file("Docs/cluster.md"), encoding: .utf8)
        let sections = page.replacing("\n### ", with: "\n## ").split(separator: "\n## ")
        let section = try #require(sections.first { $0.hasPrefix(title + "\n") || $0.contains(" \(title)\n") })
        return section.split(separator: "\n", omittingEmptySubsequences: false).filter { $0.hasPrefix("    ") }
            .map { $0.dropFirst(4) }.joined(separator: "\n")
    }

    /// The engine of the page with TLS and Sentinels, its three machines as three addresses of a network namespace; the
    /// node's settings are those of the page, too.
    @Test(.timeLimit(.minutes(3))) func `the engine works as written, with TLS and Sentinels, through a failover`()
        async throws
    {
        let directory = URL.temporaryDirectory.appending(path: "tocsin-page-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        try FileManager.default.createSymbolicLink(
            atPath: directory.appending(path: "redis-server").path(), withDestinationPath: "/usr/bin/redis-check-rdb")
        let settings = try commands(ofSection: "The nodes").split(separator: "\n").map {
            $0.drop(while: { $0 == " " })
        }
        let start = try #require(settings.firstIndex(of: "[cluster]"))
        let cluster = settings[start...].prefix { $0 == "[cluster]" || $0.contains(" = ") }.joined(separator: "\n")
        let script = """
            set -Eeuo pipefail
            export PATH="\(URL(filePath: Program.path).deletingLastPathComponent().path()):\(directory.path()):$PATH"
            cd "\(directory.path())"
            trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
            ip link set lo up
            for address in 5 6 7; do ip address add 10.0.0.$address/32 dev lo; done
            \(try commands(ofSection: "The engine"))
            for name in engine replica sentinel sentinel-2 sentinel-3; do
              mkdir $name; cp engine.pem engine.key $name
            done
            start() { (cd $1 && exec redis-server ../$1.conf ${2:-} > ../$1.log) & }
            start engine; primary=$!
            start replica
            for sentinel in sentinel sentinel-2 sentinel-3; do start $sentinel --sentinel; done
            tocsin simulate --directory nodes --tnp 127.0.0.1:17077 > phones.log &
            until test -f nodes/tocsin.toml; do sleep 0.1; done
            cd nodes
            head -c 32 /dev/urandom > cluster.key
            echo PASSWORD > cluster.password
            cp ../engine.pem .
            chmod 600 cluster.key cluster.password
            cat >> tocsin.toml <<'SETTINGS'
            \(cluster)
            SETTINGS
            until tocsin check --cluster --config tocsin.toml | tee ../check-1 | grep 'with 1 replica'; do sleep 1; done
            for file in ../sentinel*.conf; do
              until test $(grep -cE '^sentinel known-(sentinel|replica)' $file) = 3; do sleep 0.5; done
            done
            echo "== before"; cat ../check-1
            kill -9 $primary
            until tocsin check --cluster --config tocsin.toml | tee ../check-2 | grep 'with 0 replicas'; do sleep 1; done
            echo "== after"; cat ../check-2
            """
        let file = directory.appending(path: "script")
        try Data(script.utf8).write(to: file)
        let (isSuccess, text) = try await ChildProcess.output(
            of: "unshare", ["--net", "/bin/bash", file.path()], timeout: .seconds(170))
        #expect(isSuccess, "\(text)")
        let before = try #require(text.split(separator: "== before").last?.split(separator: "== after").first)
        for fault in ["without a password", "not encrypted", "maxmemory-policy", "appendonly"] {
            #expect(!before.contains(fault), "\(before)")
        }
    }

    @Test(.timeLimit(.minutes(2))) func `the walk-through works as written`() async throws {
        let directory = URL.temporaryDirectory.appending(path: "tocsin-page-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        // Debian's redis-tools contains the server under another name.
        try FileManager.default.createSymbolicLink(
            atPath: directory.appending(path: "redis-server").path(), withDestinationPath: "/usr/bin/redis-check-rdb")
        let program = URL(filePath: Program.path).deletingLastPathComponent()
        let script = """
            set -Eeuo pipefail
            export PATH="\(program.path()):\(directory.path()):$PATH"
            cd "\(directory.path())"
            trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
            trap 'tail -n 20 *.log' ERR
            \(try commands(ofSection: "Try it"))
            """
        let file = directory.appending(path: "script")
        try Data(script.utf8).write(to: file)
        let (isSuccess, text) = try await ChildProcess.output(
            of: "/bin/bash", [file.path()], timeout: .seconds(100))
        #expect(isSuccess, "\(text)")
        #expect(text.contains("Hello") && text.contains("Still here"))
    }
}
