// SPDX-License-Identifier: Apache-2.0

import Cluster
import EventLoop
import NodeConfiguration
import Settings

/// Checks whether an engine is set up for a cluster, and whether the cluster's nodes are alive.
struct EngineCheck {
    /// The first major version of Redis with functions.
    private static let oldestVersion = 7
    /// The largest difference between the engine's clock and this machine's without a warning: beyond it, log lines are
    /// hard to compare.
    private static let maximumOffset = Duration.seconds(10)

    /// The address of the engine, or of its Sentinels.
    let address: String
    /// Whether other machines could read what the nodes and the engine send to each other.
    let isExposed: Bool
    /// Whether other machines can reach the engine.
    let isRemote: Bool
    /// The number of nodes in the cluster, according to the configuration.
    let configuredNodes: Int
    let facts: EngineFacts

    var findings: [Finding] {
        var findings = [version]
        func add(_ isBad: Bool, _ grade: Finding.Grade, _ text: String) {
            if isBad { findings.append(Finding(.cluster, address, grade, text)) }
        }
        let information = facts.information
        add(
            information["maxmemory_policy"] != "noeviction", .failed,
            "the engine drops keys when its memory is full, and with them replay protection and bindings: set maxmemory-policy noeviction"
        )
        add(
            information["aof_enabled"] != "1", .warning,
            "the engine forgets everything when it restarts: set appendonly yes")
        add(
            information["connected_slaves"] == "0", .warning,
            "the engine has no replica: when its machine fails, the nodes work alone until it is back")
        add(
            isExposed, .warning,
            "connections to the engine are not encrypted: set cluster.tls = true, unless the network between the machines is"
        )
        add(
            facts.obeysStrangers, isRemote ? .failed : .warning,
            "the engine obeys whoever reaches it, without a password: set user default off, and the node's user as in cluster.md"
        )
        let alive = facts.membership.members.count { $0.isAlive }
        add(
            alive > configuredNodes, .failed,
            "\(alive) nodes live, but cluster.nodes is \(configuredNodes): without the engine, they would together exceed the rates. Set it to \(alive) on all nodes"
        )
        let offset = facts.clockOffset
        add(
            max(offset, .zero - offset) > Self.maximumOffset, .warning,
            "the engine's clock differs from this machine's by \(Int(offset / .seconds(1))) s: run an NTP client on both"
        )
        return findings + nodes
    }

    private var version: Finding {
        let information = facts.information
        let name = information["server_name"] == "valkey" ? "Valkey" : "Redis"
        let version = information["valkey_version"] ?? information["redis_version"] ?? "of unknown version"
        guard let major = information["redis_version"]?.split(separator: ".").first.flatMap({ Int($0) }),
            major >= Self.oldestVersion
        else { return Finding(.cluster, address, .failed, "\(name) \(version) is too old: a cluster needs version 7") }
        return Finding(
            .cluster, address, .ok,
            "\(name) \(version) is the primary, with \(Format.count(Int(information["connected_slaves"] ?? "") ?? 0, "replica"))"
        )
    }

    private var nodes: [Finding] {
        facts.membership.members.map { node in
            let absence = node.absence.components.seconds
            return node.isAlive
                ? Finding(.cluster, node.name, .ok, "the node lives, and runs Tocsin \(node.version)")
                : Finding(
                    .cluster, node.name, .warning,
                    "the node has been absent for \(Format.span(absence)): start it, or ignore this until a day has passed"
                )
        }
    }
}

extension NodeCheck {
    /// Connects to the engine of the cluster.
    package func cluster() async -> [Finding] {
        guard let settings = configuration.cluster else {
            return [
                Finding(
                    .cluster, "cluster", .warning,
                    "not checked: the configuration has no cluster.redis and no cluster.sentinels")
            ]
        }
        show("asking the engine of the cluster …")
        do {
            let endpoints = settings.redis.map { [$0] } ?? settings.sentinels
            return EngineCheck(
                address: endpoints.map { "\($0)" }.joined(separator: ", "),
                isExposed: !settings.usesTLS && !endpoints.allSatisfy(\.isLocal),
                isRemote: !endpoints.allSatisfy(\.isLocal),
                configuredNodes: settings.nodes,
                facts: try await EngineFacts.ask(settings.engineSettings(in: configuration), on: loop)
            ).findings
        } catch let error as ConfigurationError {
            return [Finding(.cluster, error.key ?? "cluster", .failed, error.problem)]
        } catch {
            return [Finding(.cluster, settings.name, .failed, "\(error)")]
        }
    }
}
