// SPDX-License-Identifier: Apache-2.0

import NodeConfiguration
import Tor

/// What is to be said of tor.
enum TorCheck: Equatable {
    /// The node runs its own.
    case managed(Result<TorBuild, TorProblem>)
    /// Another one serves the onion of this directory.
    case foreign(directory: String, Result<OnionAddress?, OnionFileError>)
    /// The node runs none, and knows of no other.
    case none(isInstalled: Bool)

    var finding: Finding {
        switch self {
        case .managed(.success(let build)) where build.hasProofOfWork:
            Finding(.tor, "tor", .ok, "\(build.version), with proof of work; the node runs it")
        case .managed(.success(let build)):
            Finding(
                .tor, "tor", .warning,
                "\(build.version), built without proof of work: the onion has no defence against a flood. Install one from"
                    + " Debian or deb.torproject.org")
        case .managed(.failure(let trouble)): Finding(.tor, "tor", .failed, "\(trouble)")
        case .foreign(_, .success(let address?)): Finding(.tor, "onion", .ok, "\(address), served by another tor")
        case .foreign(let directory, .success(nil)):
            Finding(
                .tor, "onion", .warning, "there are no keys in \(directory) yet: start that tor, which makes them")
        case .foreign(_, .failure(let error)):
            Finding(
                .tor, "onion", .warning,
                "\(error). Only `tocsin onion` needs it: run that as the user of that tor, or as root")
        case .none(true):
            Finding(
                .tor, "tor", .warning,
                "the node runs none, and tor.onion_directory names no other: is there one that leads to listen.tnp?")
        case .none(false):
            Finding(
                .tor, "tor", .warning,
                "not installed, so that only this machine reaches the node: apt install tor, or name another one's"
                    + " tor.onion_directory")
        }
    }
}

extension TorCheck {
    /// Looks at the program, or at the other tor's files.
    /// - Parameter path: the environment's `PATH`.
    static func look(_ configuration: Configuration, path: String?) async -> TorCheck {
        let settings = configuration.tor.settings(state: configuration.state)
        guard !settings.isManaged else {
            do throws(TorProblem) {
                return .managed(.success(try await TorBuild(of: settings.binary, path: path)))
            } catch {
                return .managed(.failure(error))
            }
        }
        guard let directory = settings.foreignServiceDirectory else {
            return .none(isInstalled: TorSettings.isInstalled(settings.binary, path: path))
        }
        do throws(OnionFileError) {
            return .foreign(directory: directory, .success(try OnionKeys.present(in: directory)?.address))
        } catch {
            return .foreign(directory: directory, .failure(error))
        }
    }
}
