// SPDX-License-Identifier: Apache-2.0

import Cluster
import EventLoop
import Settings
import TestSupport
import Testing

@testable import NodeConfiguration

@Suite(.tags(.computing)) struct ClusterConfigurationTests {
    private func configuration(_ cluster: String) throws -> Configuration {
        try Configuration(
            text: cluster + """

                [[app]]
                name = "x"
                [app.fcm]
                service_account_file = "x.json"
                """, file: "/etc/tocsin/tocsin.toml")
    }

    @Test func `a node belongs to no cluster by default`() throws {
        #expect(try configuration("").cluster == nil)
    }

    @Test func `paths are relative to the configuration's directory`() throws {
        let cluster = try configuration(
            """
            [cluster]
            redis = "10.0.0.5:6380"
            key_file = "cluster.key"
            user = "node"
            password_file = "cluster.password"
            tls = true
            trust_file = "ca.pem"
            """
        ).cluster
        #expect(
            cluster
                == Configuration.Cluster(
                    name: "tocsin", node: nil, nodes: 2, redis: .tcp(host: "10.0.0.5", port: 6380), sentinels: [],
                    keyFile: "/etc/tocsin/cluster.key", user: "node", passwordFile: "/etc/tocsin/cluster.password",
                    usesTLS: true, trustFile: "/etc/tocsin/ca.pem"))
    }

    @Test func `Sentinels take the place of the primary's address`() throws {
        let cluster = try configuration(
            """
            [cluster]
            name = "bisq"
            node = "one"
            sentinels = ["10.0.0.5:26379", "[fe80::1]:26379"]
            key_file = "/k"
            """
        ).cluster
        #expect(cluster?.name == "bisq" && cluster?.node == "one" && cluster?.redis == nil)
        #expect(cluster?.sentinels == [.tcp(host: "10.0.0.5", port: 26379), .tcp(host: "fe80::1", port: 26379)])
    }

    @Test(arguments: [
        ("redis = \"a:1\"", "cluster.key_file: is missing: make one with `head -c 32 /dev/urandom`"),
        ("redis = \"a\"\nkey_file = \"k\"", "cluster.redis: must be HOST:PORT"),
        ("redis = \"a:1\"\nsentinels = [\"a:1\"]\nkey_file = \"k\"", "cluster.sentinels: cannot be set together"),
        ("redis = \"a:1\"\nkey_file = \"k\"\nname = \"a b\"", "cluster.name: must be 1 to 64"),
        ("redis = \"a:1\"\nkey_file = \"k\"\nnode = \"\"", "cluster.node: must be 1 to 64"),
        ("redis = \"a:1\"\nkey_file = \"k\"\nnodes = 1", "cluster.nodes: is 1, but must be"),
    ])
    func `a mistake is named`(table: String, problem: String) throws {
        let error = #expect(throws: ConfigurationError.self) { try configuration("[cluster]\n" + table) }
        #expect(error?.description.contains(problem) == true, "\(error?.description ?? "")")
    }
}
