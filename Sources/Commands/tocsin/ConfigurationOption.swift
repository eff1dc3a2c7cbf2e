// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import FoundationEssentials
import Glibc
import NodeConfiguration
import Settings

/// The `--config` option of all commands that read the node's configuration.
struct ConfigurationOption: ParsableArguments {
    @Option(name: .long, help: "The configuration file. Default: tocsin.toml, then /etc/tocsin/tocsin.toml.")
    var config: String?

    private static let standardFiles = ["tocsin.toml", "/etc/tocsin/tocsin.toml"]

    /// Loads the configuration.
    /// - Throws: the exit code, after printing the error.
    func load() throws -> Configuration {
        let file = try file()
        return try failing(with: .configuration) { try Self.load(file) }
    }

    /// The file that `--config` names, or else the first standard file that exists.
    /// - Throws: the exit code, after printing the error.
    func file() throws -> String {
        guard let file = config ?? Self.standardFiles.first(where: Self.isStandard) else {
            throw fail(
                "no configuration found: \(Self.standardFiles.joined(separator: " and ")) do not exist, or this user cannot see them."
                    + (getuid() == 0 ? " Root does not use another user's tocsin.toml unless it is named." : "")
                    + " Name one with --config FILE", .configuration)
        }
        return file
    }

    /// Whether the file exists and is used without being named. Root does not use what another user has put into the
    /// working directory, because a configuration says where keys are written.
    private static func isStandard(_ file: String) -> Bool {
        var status = stat()
        return stat(file, &status) == 0 && (file.hasPrefix("/") || getuid() != 0 || status.st_uid == 0)
    }

    /// Loads a configuration, and decides whether the node runs tor if the file does not say so.
    /// - Parameters:
    ///   - copies: used in place of the file itself, and of the files that it names.
    ///   - state: a state directory in place of that of the file.
    /// - Throws: `ConfigurationError`.
    static func load(_ file: String, copies: FileCopies? = nil, state: String? = nil) throws -> Configuration {
        var configuration = try Configuration(file: file, copies: copies, state: state)
        configuration.decideTor(path: ProcessInfo.processInfo.environment["PATH"])
        return configuration
    }
}
