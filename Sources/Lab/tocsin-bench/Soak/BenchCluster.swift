// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import EventLoop
import FoundationEssentials
import Glibc
import StandIns
import Tor

struct BenchCluster: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cluster",
        abstract: "Kill the nodes of a cluster and its engine (kill -9) at random times while senders submit.",
        discussion: """
            Three nodes share a Redis server. Each sender has a list of all nodes. It submits every other envelope at two \
            nodes at once, as a sender does that believes its first node to be dead. Exits with 0 only if every envelope \
            was delivered, and none rang twice except those in flight during a crash of a node, or sent while a node was \
            cut off from the engine.

            With --namespaces, which requires root, Debian's iproute2 and a C compiler, each node has a network \
            namespace and a tor of its own in a private Tor network, and the senders use the nodes' onions. The clock of \
            one node is a minute ahead. Nodes are also cut off from the engine and from Apple and Google, and upgraded \
            from --old one after the other. One more sender floods a single phone through all nodes, and one sends \
            invented device tokens; the limits must hold for the cluster as a whole.

            EXAMPLES
              tocsin-bench cluster --kills 20
              tocsin-bench cluster --envelopes 100000 --kills 50
              sudo tocsin-bench cluster --namespaces --envelopes 100000 --old /usr/bin/tocsin
            """)

    @Option(help: "Number of kills of nodes.")
    var kills = 20

    @Option(help: "Number of kills of the engine.")
    var engineKills = 3

    @Option(help: "Minimum number of envelopes.")
    var envelopes = 0

    @Option(help: "Maximum seconds between two kills.")
    var interval = 2.0

    @Option(help: "Submissions in flight.")
    var inFlight = 60

    @Flag(help: "Give each node a network namespace and a tor of its own.")
    var namespaces = false

    @Option(help: "With --namespaces: how often nodes are cut off from the engine, and from Apple and Google.")
    var cuts = 3

    @Option(help: "With --namespaces: the program with which the nodes start.")
    var old: String?

    /// The prefix of the nodes' namespaces, if this process already runs in the namespace outside of them: see
    /// ``runOutside(of:)``.
    @Option(help: .private)
    var inside: String?

    private static let nodes = 3

    func run() async throws {
        guard namespaces else {
            let engine = try RedisServer()
            return try await run(with: engine, faults: faults(), namespaces: nil, TestBed.Surroundings())
        }
        guard let inside else {
            return try await runOutside(of: NodeNamespaces(prefix: "tocsin-\(getpid())", nodes: Self.nodes))
        }
        let namespaces = NodeNamespaces(prefix: inside, nodes: Self.nodes)
        do {
            try await run(in: namespaces)
        } catch {
            await namespaces.remove()
            throw error
        }
        await namespaces.remove()
    }

    /// Creates the namespaces, and replaces this process by one in the namespace for everything but the nodes.
    private func runOutside(of namespaces: NodeNamespaces) async throws {
        do {
            try await namespaces.create()
        } catch {
            await namespaces.remove()
            throw error
        }
        let arguments =
            namespaces.outside + [try Executables.bench()] + CommandLine.arguments.dropFirst()
            + ["--inside", namespaces.prefix]
        // The threads of Swift's runtime block all signals, and the program would inherit that.
        var none = sigset_t()
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, nil)
        var list: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        execvp(arguments[0], &list)
        await namespaces.remove()
        throw fail("cannot run ip: \(String(cString: strerror(errno)))", .failure)
    }

    private func run(in namespaces: NodeNamespaces) async throws {
        let network = try PrivateTorNetwork(host: NodeNamespaces.host, on: EventLoop(name: "tor"))
        let directory = "/tmp/\(namespaces.prefix)"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let access = try await network.start(target: .unix(path: "/none"), virtualPort: 7077) { Terminal.progress($0) }
        do {
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
            let tor = "\(directory)/tor"
            try await network.writeMemberProgram(to: tor)
            let clock = try await Self.clockAhead(in: directory)
            let surroundings = TestBed.Surroundings(
                servicesHost: NodeNamespaces.Service.pushServices.rawValue,
                tor: "managed = true\nbinary = \"\(tor)\"", usesUnixSockets: true,
                launcher: { namespaces.inside($0) + ($0 == Self.nodes - 1 ? clock : []) },
                devicesPerKind: 50, program: old)
            let engine = try RedisServer(host: NodeNamespaces.Service.engine.rawValue, port: 6379)
            let moreFaults: [ClusterFault] =
                Array(repeating: .cutFromEngine, count: cuts) + Array(repeating: .cutFromPushServices, count: cuts)
                + Array(repeating: .upgrade, count: Self.nodes)
            try await run(
                with: engine, faults: (faults() + moreFaults).shuffled(), namespaces: (namespaces, access.socks),
                surroundings)
        } catch {
            await network.stop()
            throw error
        }
        await network.stop()
    }

    private func faults() -> [ClusterFault] {
        (Array(repeating: ClusterFault.killNode, count: kills) + Array(repeating: .killEngine, count: engineKills))
            .shuffled()
    }

    /// The source of a library that sets the clock of a program forward by a minute. libfaketime cannot do that: it
    /// calls the allocator, jemalloc, which calls the clock.
    private static let clockAhead = """
        #include <sys/syscall.h>
        #include <sys/time.h>
        #include <time.h>
        #include <unistd.h>
        int clock_gettime(clockid_t clock, struct timespec *now) {
            int result = syscall(SYS_clock_gettime, clock, now);
            if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += 60;
            return result;
        }
        int gettimeofday(struct timeval *restrict now, void *restrict zone) {
            struct timespec time;
            clock_gettime(CLOCK_REALTIME, &time);
            now->tv_sec = time.tv_sec;
            now->tv_usec = time.tv_nsec / 1000;
            return 0;
        }
        time_t time(time_t *result) {
            struct timespec now;
            clock_gettime(CLOCK_REALTIME, &now);
            if (result) *result = now.tv_sec;
            return now.tv_sec;
        }
        """

    /// The command that runs another one with a clock that is a minute ahead.
    private static func clockAhead(in directory: String) async throws -> [String] {
        let library = "\(directory)/clock.so"
        let (isSuccess, text) = try await ChildProcess.output(
            of: "cc", ["-shared", "-fPIC", "-x", "c", "-", "-o", library], input: clockAhead)
        guard isSuccess else { throw fail("cc failed: \(text)", .failure) }
        return ["env", "LD_PRELOAD=\(library)"]
    }

    private func run(
        with engine: RedisServer, faults: [ClusterFault], namespaces: (NodeNamespaces, socks: Endpoint)?,
        _ surroundings: TestBed.Surroundings
    ) async throws {
        try await engine.start()
        let tables = """
            \(SimulatedConfiguration.unlimitedRates(except: namespaces == nil ? [:] : ClusterRun.limits))
            [cluster]
            node = "{node}"
            nodes = \(Self.nodes)
            redis = "\(engine.endpoint)"
            key_file = "cluster.key"
            """
        do {
            try await TestBed.run("cluster", nodes: Self.nodes, more: tables, surroundings: surroundings) { bed in
                let run = try await ClusterRun(bed, engine, nodes: Self.nodes, namespaces: namespaces)
                let result = try await run.result(
                    of: faults, envelopes: envelopes, interval: interval, inFlight: inFlight)
                Terminal.endProgress()
                Terminal.print(result.table + result.unexplainedRepeats)
                guard result.isGood else {
                    throw fail("the cluster lost or repeated envelopes, or exceeded a limit", .failure)
                }
            }
        } catch {
            await engine.stop()
            throw error
        }
        await engine.stop()
    }
}
