// SPDX-License-Identifier: Apache-2.0

import Cryptography
import NodeConfiguration
import Settings
import Tor

/// Checks tor.
enum TorCheck: Equatable {
    /// The node has its own tor.
    case managed(TorSettings.Runner, Result<TorBuild, TorProblem>, problems: [String] = [])
    /// An external tor serves the onion of this directory.
    case external(directory: String, Result<OnionAddress?, OnionFileError>)
    /// The node does not run tor, and `tor.onion_directory` names no external one.
    case none(isInstalled: Bool)

    var findings: [Finding] {
        guard case .managed(_, _, let problems) = self else { return [finding] }
        return [finding] + problems.map { Finding(.tor, "onion", .failed, $0) }
    }

    private var finding: Finding {
        switch self {
        case .managed(let runner, .success(let build), _) where build.hasProofOfWork:
            Finding(
                .tor, "tor", .ok,
                "\(build.version), with proof of work; run by \(runner == .node ? "the node" : "tocsin-tor.service")")
        case .managed(_, .success(let build), _):
            Finding(
                .tor, "tor", .warning,
                "\(build.version), built without proof of work: the onion has no defence against a flood. Install tor from"
                    + " Debian or deb.torproject.org")
        case .managed(_, .failure(let trouble), _): Finding(.tor, "tor", .failed, "\(trouble)")
        case .external(_, .success(let address?)): Finding(.tor, "onion", .ok, "\(address), served by an external tor")
        case .external(let directory, .success(nil)):
            Finding(.tor, "onion", .warning, "no keys in \(directory) yet: start the external tor, which creates them")
        case .external(_, .failure(let error)):
            Finding(
                .tor, "onion", .warning,
                "\(error). Only tocsin onion needs this file: run it as the user of the external tor, or as root")
        case .none(true):
            Finding(
                .tor, "tor", .warning,
                "the node does not run tor, and tor.onion_directory is not set: check that an external tor forwards to"
                    + " listen.tnp")
        case .none(false):
            Finding(
                .tor, "tor", .warning,
                "not installed, so senders cannot reach the node: apt install tor, or set tor.onion_directory for an"
                    + " external tor")
        }
    }
}

extension TorCheck {
    /// Asks the tor program for its version and reads the files of its onions, or reads the files of the external tor.
    /// - Parameter path: the environment's `PATH`.
    static func run(_ configuration: Configuration, path: String?) async -> TorCheck {
        let settings = configuration.tor.settings(state: configuration.state)
        guard !settings.isManaged else {
            do throws(TorProblem) {
                let build = try await TorBuild(of: settings.binary, path: path)
                let services = settings.services(tnp: configuration.listen.tnp, http: configuration.listen.http)
                return .managed(settings.runner, .success(build), problems: settings.problems(of: services, build))
            } catch {
                return .managed(settings.runner, .failure(error))
            }
        }
        guard let directory = settings.externalServiceDirectory else {
            return .none(isInstalled: TorSettings.isInstalled(settings.binary, path: path))
        }
        do throws(OnionFileError) {
            return .external(directory: directory, .success(try OnionKeys.address(in: directory)))
        } catch {
            return .external(directory: directory, .failure(error))
        }
    }
}
