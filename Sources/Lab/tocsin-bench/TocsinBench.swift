// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

/// `tocsin-bench`: benchmarks, floods, soaks and simulations. Not part of the installed package.
@main
struct TocsinBench: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tocsin-bench", abstract: "Benchmarks, floods and soak tests of a node on this machine.",
        discussion: """
            Without a subcommand, runs compare.

            EXAMPLES
              tocsin-bench
              tocsin-bench load --node 127.0.0.1:7077 --connections 50 --in-flight 20 --envelopes 200000
              tocsin-bench flood --check
            """,
        subcommands: [
            BenchCompare.self, BenchLoad.self, BenchHTTP2.self, BenchSoak.self, BenchCrash.self, BenchBulkhead.self,
            BenchFlood.self, BenchSpool.self, BenchAdmission.self, BenchConnections.self, BenchSilence.self,
            BenchBurst.self, BenchClients.self, BenchRelay.self, BenchCluster.self, BenchDay.self,
            BenchSimulate.self, BenchSimulateAttack.self, BenchSimulateMany.self, BenchQuota.self, ConformanceHook.self,
        ],
        defaultSubcommand: BenchCompare.self)
}
