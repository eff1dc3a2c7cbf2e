// SPDX-License-Identifier: Apache-2.0

import Confinement
import Cryptography
import EventLoop
import Glibc
import KeyHolder
import NodeConfiguration
import Providers
import Tor

/// Limits the damage if an attacker takes over the node's process: the keys of Apple and Google may be in another
/// process, and this one is confined to the files and system calls that it needs.
package struct ProcessIsolation: Sendable {
    /// The process that starts key holders and resolvers, and learns which system calls the sandbox refuses.
    package let supervisor: Supervisor
    /// The version of Landlock that confines this process; 0 if none does.
    package private(set) var landlock = 0
    /// Whether a refused system call raises an alarm.
    package private(set) var reportsRefusedCalls = true

    /// The process has several threads, of which the sandbox would confine only one.
    package struct Failure: Error, CustomStringConvertible {
        package var description: String {
            "the sandbox must begin before the process has a second thread; set node.sandbox = \"off\" under this emulator or debugger"
        }
    }

    /// Starts the supervisor and a key holder, and reads the configuration, without confining this process yet.
    /// - Parameters:
    ///   - file: the configuration file.
    ///   - read: reads the configuration from the key holder's copies; from the file if there are none.
    /// - Returns: no key holder with `node.key_holder = false`.
    /// - Throws: `Supervisor.Failure`, `KeyHolder.Failure`, or what `read` throws.
    package static func prepare(
        configuration file: String, read: (FileCopies?) throws -> Configuration
    ) throws -> (configuration: Configuration, isolation: ProcessIsolation, keyHolder: KeyHolder?) {
        let supervisor = try Supervisor.start(configuration: file)
        let holder = KeyHolder(SupervisedHolders(supervisor))
        let held = try holder.startBlocking()
        let configuration = try read(held.copies)
        guard configuration.hasKeyHolder else {
            return (try read(nil), ProcessIsolation(supervisor: supervisor), nil)
        }
        holder.use(held)
        return (configuration, ProcessIsolation(supervisor: supervisor), holder)
    }

    /// Confines this process for the rest of its life, as the configuration says. It must have a single thread.
    /// - Throws: ``Failure``, `FileRules.Failure`, `SystemCallFilter.Failure` or `Supervisor.Failure`.
    package mutating func confine(_ configuration: Configuration) throws {
        guard configuration.sandbox != .off else { return }
        guard ProcessHardening.hasOneThread else { throw Failure() }
        // The rules can only name files that exist. The node checks these files when it starts.
        _ = mkdir(configuration.state, 0o700)
        if let file = configuration.spool?.keyFile { _ = try? KeyFile.readOrCreate(file) }
        for delivery in configuration.apps.flatMap(\.deliveries) { delivery.makeOwnKeyFiles() }
        _ = ProcessHardening.dropCapabilities()
        landlock = try FileRules(of: configuration).apply()
        let tor = configuration.tor.settings(state: configuration.state)
        let filter = SystemCallFilter.node(mayExecute: tor.runnerInUse == .node)
        if configuration.sandbox == .kill {
            try filter.apply(.kill)
        } else if let refused = try? filter.apply(.report) {
            try supervisor.watch(refused, logsJSON: configuration.logFormat == .json)
        } else {
            // The kernel allows one filter that reports, and a container may have it already.
            try filter.apply(.refuse)
            reportsRefusedCalls = false
        }
    }
}

extension FileRules {
    /// The files and ports that a node with this configuration needs: without the configuration and the keys, if a key
    /// holder reads them.
    /// - Parameter environment: looks up an environment variable.
    init(
        of configuration: Configuration, environment: (String) -> String? = { getenv($0).map { String(cString: $0) } }
    ) {
        self.init()
        readable =
            [
                // Libraries, certificate authorities, time zones, tor's tables.
                "/usr", "/lib", "/lib64", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/crypto-policies",
                "/etc/ld.so.cache", "/etc/localtime", "/etc/nsswitch.conf",
                // Statistics of this process, facts about the processors, and random numbers.
                "/proc", "/sys/devices/system/cpu", "/dev/random", "/dev/urandom",
            ]
            + ["SSL_CERT_FILE", "OPENSSL_CONF"].compactMap(environment).map(Self.directory)
            + (environment("SSL_CERT_DIR") ?? "").split(separator: ":").map(String.init)
        writable = [configuration.state, "/dev/null"]
        socketDirectories = configuration.endpoints.compactMap { endpoint in
            if case .unix(let path) = endpoint { Self.directory(of: path) } else { nil }
        }
        listeningPorts = configuration.endpoints.compactMap { endpoint in
            if case .tcp(_, let port) = endpoint { port } else { nil }
        }
        // Files in the state directory need no rule of their own, and must have none: a rule follows links.
        readable += configuration.ownKeyFiles.filter { !configuration.isInState($0) }
        if !configuration.hasKeyHolder {
            let files = configuration.credentials.flatMap(\.files) + configuration.otherFiles
            readable += Set(([configuration.file] + files).map(Self.directory)).sorted()
        }
        let tor = configuration.tor.settings(state: configuration.state)
        switch tor.runnerInUse {
        case .service:
            // The group of tor's user may read the onions' addresses and the control port's cookie; only that user may
            // read the keys.
            readable.append(tor.directory)
        case .node:
            if let program = TorSettings.program(tor.binary, path: environment("PATH")) { allowExecution(of: program) }
        case nil:
            // Only the address, not the secret key beside it.
            if let onion = tor.externalServiceDirectory { readable.append("\(onion)/hostname") }
        }
    }

    /// Allows a program to be started. If it is a script, it may start any program of the system.
    private mutating func allowExecution(of program: String) {
        executable = [program] + (Self.isScript(program) ? ["/usr", "/bin", "/lib", "/lib64"] : Self.interpreters)
    }

    private static func isScript(_ program: String) -> Bool {
        let file = open(program, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return false }
        defer { close(file) }
        var start: [UInt8] = [0, 0]
        return read(file, &start, 2) == 2 && start.elementsEqual("#!".utf8)
    }

    /// The dynamic linker, which the kernel starts first.
    private static let interpreters = [
        "/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib/ld-linux-armhf.so.3",
    ]

    private static func directory(of path: String) -> String {
        path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    }
}

extension Configuration {
    fileprivate var endpoints: [Endpoint] { listen.endpoints.map(\.endpoint) }
}
