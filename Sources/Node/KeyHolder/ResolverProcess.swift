// SPDX-License-Identifier: Apache-2.0

import Confinement
import EventLoop
import Glibc
import Logging
import Synchronization

/// The resolver: the process that looks names up for a confined node. It may read the files of the system's name service
/// as they are when it starts, and use the network; another one takes its place when they change. It ends when the node
/// closes the connection.
package enum ResolverProcess {
    /// The descriptor that the supervisor passes: the connection to the node.
    private static let connection: Int32 = 3

    /// - Parameter logger: for what goes wrong at the start.
    package static func run(logger: Logger) -> Never {
        _ = ProcessHardening.forbidCoreDumps()
        do {
            _ = try FileRules.resolver.apply()
            try SystemCallFilter.resolver.apply(.refuse)
        } catch {
            logger.error("the resolver cannot confine itself: \(error)")
        }
        let socket = LocalSocket(owning: connection)
        let running = Atomic(0)
        do {
            while true {
                guard
                    let (bytes, passed) = try socket.receive(
                        atMost: ResolverRequest.maximumBytes + 1, within: .seconds(60))
                else { continue }
                if let passed { close(passed) }
                guard let request = ResolverRequest(decoding: bytes) else { continue }
                let answer: @Sendable (NameAnswer) -> Void = { answer in
                    // Lost if the node does not read, which ends its lookups itself after a while.
                    try? socket.send(ResolverAnswer(number: request.number, answer: answer).encoded)
                }
                // The node does not ask for more at a time.
                guard running.load(ordering: .relaxed) < SystemNames.maximumLookups else {
                    answer(.failure("too many names are being looked up", isUnknown: false))
                    continue
                }
                running.add(1, ordering: .relaxed)
                let hasStarted = SystemNames.lookUp(request.host) {
                    running.subtract(1, ordering: .relaxed)
                    answer($0)
                }
                if !hasStarted {
                    running.subtract(1, ordering: .relaxed)
                    answer(.failure("no thread for the lookup", isUnknown: false))
                }
            }
        } catch {
            // The node has ended, or uses another resolver.
            _exit(0)
        }
    }
}

extension FileRules {
    /// The files that configure the system's name service, and that may be replaced while the node runs.
    static let nameServiceFiles = [
        "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf",
    ]

    /// Those files, and the libraries that nsswitch.conf names.
    fileprivate static var resolver: FileRules {
        var rules = FileRules()
        rules.readable = nameServiceFiles + ["/etc/ld.so.cache", "/etc/services", "/lib", "/lib64", "/usr"]
        rules.listeningPorts = []
        return rules
    }
}
