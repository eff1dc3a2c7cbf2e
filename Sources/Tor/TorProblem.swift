// SPDX-License-Identifier: Apache-2.0

/// Why the onion cannot be reached, in words, and what to do.
package enum TorProblem: Error, Equatable, Sendable, CustomStringConvertible {
    /// There is no such program.
    case missing(binary: String)
    /// The program does not run, or is no tor.
    case unusable(binary: String, reason: String)
    /// It cannot do what is needed.
    case tooOld(TorVersion)
    /// Its files cannot be written, or no torrc can be made.
    case badSettings(String)
    /// This machine's clock is wrong; tor's words.
    case clock(String)
    /// For minutes tor has not come nearer to the network.
    case stuck(percent: Int)
    /// For minutes no directory has taken the onion's descriptor.
    case unpublished
    /// tor has ended by itself; what it said last.
    case ended(status: String, lastWarning: String?)
    /// tor does not answer at its control socket.
    case silent

    package var description: String {
        switch self {
        case .missing(let binary):
            """
            tor is not installed: there is no program \(binary). Install it (apt install tor), name it in tor.binary, or \
            set tor.managed = false where another tor serves the onion
            """
        case .unusable(let binary, let reason):
            "\(binary) cannot be used as tor: \(reason); name another program in tor.binary"
        case .tooOld(let version):
            """
            tor \(version) is too old: \(TorVersion.oldest) is the first that defends an onion by proof of work, and older \
            ones are not maintained. Install a newer one, e.g. from deb.torproject.org
            """
        case .badSettings(let problem): problem
        case .clock(let words):
            """
            this machine's clock seems wrong, and tor does not work with it: set it right (timedatectl set-ntp true). \
            tor says: \(words)
            """
        case .stuck(let percent):
            """
            tor has been at \(percent) % of its way into the network for minutes: is this machine connected, and does its \
            firewall let tor out?
            """
        case .unpublished:
            """
            for minutes no directory of the Tor network has taken the onion's descriptor: does another machine serve \
            the same onion, and is this machine's clock right?
            """
        case .ended(let status, let warning):
            "tor has ended (\(status)) and is started again" + (warning.map { ". It said: \($0)" } ?? "")
        case .silent:
            "tor does not answer at its control socket and is started anew"
        }
    }
}
