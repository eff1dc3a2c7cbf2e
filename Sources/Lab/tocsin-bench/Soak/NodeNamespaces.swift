// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Tor

/// Network namespaces on this machine: one for each node, one for everything else, and a router between them, which can
/// cut a node off from the engine or from the push services. Requires root and Debian's `iproute2`.
struct NodeNamespaces {
    /// What a node can be cut off from.
    enum Service: String {
        case engine = "10.77.0.2"
        case pushServices = "10.77.0.3"
    }

    /// The address of the private Tor network.
    static let host = "10.77.0.1"

    /// The first part of the namespaces' names.
    let prefix: String
    let nodes: Int

    /// The command that runs another one in the namespace for everything but the nodes.
    var outside: [String] { Self.enter(outsideName) }

    /// The command that runs another one in a node's namespace.
    func inside(_ node: Int) -> [String] { Self.enter(name(of: node)) }

    private static func enter(_ name: String) -> [String] { ["ip", "netns", "exec", name] }
    private var outsideName: String { "\(prefix)-outside" }
    private var hub: String { "\(prefix)-router" }
    private func name(of node: Int) -> String { "\(prefix)-node\(node)" }
    private func address(of node: Int) -> String { "10.77.\(node + 1).1" }

    /// Creates the namespaces.
    func create() async throws {
        try await run("netns", "add", hub)
        try await run("netns", "exec", hub, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        let addresses = [Self.host, Service.engine.rawValue, Service.pushServices.rawValue]
        try await join(outsideName, addresses, router: "10.77.0.254", link: "outside")
        for node in 0..<nodes {
            try await join(name(of: node), [address(of: node)], router: "10.77.\(node + 1).254", link: "node\(node)")
        }
    }

    private func join(_ name: String, _ addresses: [String], router: String, link: String) async throws {
        try await run("netns", "add", name)
        try await run("-n", name, "link", "add", "up0", "type", "veth", "peer", "name", link, "netns", hub)
        for address in addresses { try await run("-n", name, "address", "add", "\(address)/24", "dev", "up0") }
        try await run("-n", hub, "address", "add", "\(router)/24", "dev", link)
        try await run("-n", hub, "link", "set", link, "up")
        try await run("-n", name, "link", "set", "up0", "up")
        try await run("-n", name, "link", "set", "lo", "up")
        try await run("-n", name, "route", "add", "default", "via", router)
    }

    /// Removes the namespaces, also after a failed ``create()``. A process that still runs in a namespace keeps it
    /// alive.
    func remove() async {
        for name in [hub, outsideName] + (0..<nodes).map(name(of:)) { try? await run("netns", "delete", name) }
    }

    /// Drops each packet between a node and a service until ``heal(_:_:)``.
    func cut(_ node: Int, from service: Service) async throws {
        for ends in ends(node, service) { try await run(["-n", hub, "rule", "add"] + ends + ["blackhole"]) }
    }

    /// Ends a cut.
    func heal(_ node: Int, _ service: Service) async throws {
        for ends in ends(node, service) { try await run(["-n", hub, "rule", "delete"] + ends + ["blackhole"]) }
    }

    private func ends(_ node: Int, _ service: Service) -> [[String]] {
        let (first, second) = (address(of: node), service.rawValue)
        return [["from", first, "to", second], ["from", second, "to", first]]
    }

    private func run(_ arguments: String...) async throws { try await run(arguments) }

    private func run(_ arguments: [String]) async throws {
        let (isSuccess, text) = try await ChildProcess.output(of: "ip", arguments)
        guard isSuccess else {
            throw fail(
                "ip \(arguments.joined(separator: " ")): \(text). Network namespaces require root and iproute2",
                .failure)
        }
    }
}
