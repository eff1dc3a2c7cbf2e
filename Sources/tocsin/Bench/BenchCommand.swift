// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

struct BenchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bench", abstract: "Measure this machine: our parts beside h2load and nghttpx.",
        discussion: """
            Without a subcommand: alternating rounds of all rows in one run, medians, a table. Needs h2load and nghttpx.

            EXAMPLES
              tocsin bench
              tocsin bench load --node 127.0.0.1:7077 --connections 50 --in-flight 20 --envelopes 200000
            """,
        subcommands: [
            BenchCompare.self, BenchLoad.self, BenchHTTP2.self, BenchSink.self, BenchSoak.self, BenchCrash.self,
            BenchBulkhead.self, BenchFlood.self, BenchSpool.self, BenchAdmission.self,
            BenchConnections.self, BenchSilence.self,
        ],
        defaultSubcommand: BenchCompare.self)
}
