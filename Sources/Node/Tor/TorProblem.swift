// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// Why the onion is unreachable, and what to do.
package enum TorProblem: Error, Equatable, Sendable, CustomStringConvertible {
    /// The program does not exist.
    case missing(binary: String)
    /// The program cannot be run, or is not tor.
    case unusable(binary: String, reason: String)
    /// The version of tor is too old.
    case tooOld(TorVersion)
    /// tor's files cannot be written, or no torrc can be built.
    case badSettings(String)
    /// This machine's clock is wrong according to tor, with tor's message.
    case clock(String)
    /// tor's bootstrap has made no progress for ``TorSupervision/progressTimeout``.
    case stuck(percent: Int)
    /// No directory has accepted the onion's descriptor for ``TorSupervision/progressTimeout``.
    case unpublished
    /// tor has exited unexpectedly, with the warning of its log that names the reason.
    case exited(status: String, warning: String?)
    /// tor does not respond at its control socket.
    case unresponsive
    /// The tor that systemd runs cannot be reached at its control socket.
    case unreachable(Endpoint, reason: String)

    package var description: String {
        switch self {
        case .missing(let binary):
            """
            tor is not installed: program \(binary) not found. Install it (apt install tor), set tor.binary to its \
            path, or set tor.managed = false if another tor serves the onion
            """
        case .unusable(let binary, let reason):
            "\(binary) cannot be used as tor: \(reason); set tor.binary to another program"
        case .tooOld(let version):
            """
            tor \(version) is too old: \(TorVersion.oldest) is the first version that defends onion services with \
            proof of work, and older ones are no longer maintained. Install a newer one, e.g. from deb.torproject.org
            """
        case .badSettings(let problem): problem
        case .clock(let words):
            """
            this machine's clock seems wrong, and tor requires a correct one: set it (timedatectl set-ntp true). \
            tor reports: \(words)
            """
        case .stuck(let percent):
            """
            tor's bootstrap has been at \(percent) % for more than 5 minutes: check that this machine is online and \
            that its firewall permits tor's outgoing connections
            """
        case .unpublished:
            """
            no directory of the Tor network has accepted the onion's descriptor for more than 5 minutes: check that \
            this machine's clock is right and whether another machine serves the same onion
            """
        case .exited(let status, let warning):
            "tor has exited (\(status)) and is being restarted" + (warning.map { "; its log says: \($0)" } ?? "")
        case .unresponsive:
            "tor does not respond at its control socket and is being restarted"
        case .unreachable(let socket, let reason):
            """
            tocsin-tor.service is not running, or not reachable at \(socket) (\(reason)): see systemctl status tocsin-tor. \
            Without systemd, set tor.run_by = \"node\"
            """
        }
    }
}
