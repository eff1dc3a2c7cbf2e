// SPDX-License-Identifier: Apache-2.0

/// What a tor program is and can do.
package struct TorBuild: Equatable, Sendable {
    /// Its version.
    package let version: TorVersion
    /// Whether it was built with the module that asks clients for work.
    package let hasProofOfWork: Bool

    /// How long a program may take to say what it is.
    private static let timeout = Duration.seconds(10)

    /// - Parameters: as the properties of the same names.
    package init(version: TorVersion, hasProofOfWork: Bool) {
        self.version = version
        self.hasProofOfWork = hasProofOfWork
    }

    /// Asks the program.
    /// - Parameters:
    ///   - binary: a path, or a name to be found in `PATH`.
    ///   - path: the environment's `PATH`.
    /// - Throws: ``TorProblem``: missing, unusable or too old.
    package init(of binary: String, path: String?) async throws(TorProblem) {
        guard TorSettings.isInstalled(binary, path: path) else { throw .missing(binary: binary) }
        let version = TorVersion(output: try await Self.output(of: binary, "--version"))
        guard let version else { throw .unusable(binary: binary, reason: "it does not say which version of tor it is") }
        guard version >= .oldest else { throw .tooOld(version) }
        let modules = try await Self.output(of: binary, "--list-modules")
        self.init(version: version, hasProofOfWork: Self.hasProofOfWork(modules: modules))
    }

    static func hasProofOfWork(modules: String) -> Bool {
        modules.split(whereSeparator: \.isNewline).contains {
            $0.split(separator: ":").map { $0.filter { $0 != " " } } == ["pow", "yes"]
        }
    }

    private static func output(of binary: String, _ argument: String) async throws(TorProblem) -> String {
        let output: (isSuccess: Bool, text: String)
        do {
            output = try await ChildProcess.output(of: binary, [argument], timeout: timeout)
        } catch {
            throw .unusable(binary: binary, reason: "\(error)")
        }
        guard output.isSuccess else { throw .unusable(binary: binary, reason: "\(binary) \(argument) has failed") }
        return output.text
    }
}
