// SPDX-License-Identifier: Apache-2.0

/// The version and features of a tor program.
package struct TorBuild: Equatable, Sendable {
    /// The version of tor.
    package let version: TorVersion
    /// Whether tor was built with the proof-of-work module.
    package let hasProofOfWork: Bool

    /// How long the program may take to print its version or its modules.
    private static let timeout = Duration.seconds(10)
}

extension TorBuild {
    /// Queries a program.
    /// - Parameters:
    ///   - binary: a path, or a name to look up in `PATH`.
    ///   - path: the environment's `PATH`.
    /// - Throws: ``TorProblem`` if the program is missing, unusable or too old.
    package init(of binary: String, path: String?) async throws(TorProblem) {
        guard TorSettings.isInstalled(binary, path: path) else { throw .missing(binary: binary) }
        let version = TorVersion(output: try await Self.output(of: binary, "--version"))
        guard let version else { throw .unusable(binary: binary, reason: "it does not report a version of tor") }
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
        guard output.isSuccess else { throw .unusable(binary: binary, reason: "\(binary) \(argument) failed") }
        return output.text
    }
}
