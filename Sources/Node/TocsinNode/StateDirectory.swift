// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Diagnostics
import EventLoop
import Glibc
import Logging
import NodeConfiguration
import Settings

/// The node's state directory, locked while this value exists: two nodes in one directory would undo each other's work.
struct StateDirectory {
    private let lock: FileLock

    /// Creates the directory if it does not exist, checks it and locks it.
    /// - Throws: `ConfigurationError`.
    init(
        _ configuration: Configuration, logger: Logger, on loop: EventLoop,
        isolation: isolated (any Actor)? = #isolation
    ) async throws(ConfigurationError) {
        let path = configuration.state
        func error(_ problem: String) -> ConfigurationError {
            ConfigurationError(file: configuration.file, key: "node.state", problem: problem)
        }
        if mkdir(path, 0o700) != 0, errno != EEXIST {
            throw error("cannot create \(path): \(String(cString: strerror(errno)))")
        }
        let check = StateCheck(lookingAt: path)
        if let problem = check.refusal { throw error("\(path) \(problem)") }
        if check.mode & 0o077 != 0 {
            logger.warning(
                "other users can \(check.mode & 0o022 == 0 ? "read" : "write to") the state directory: run chmod 700",
                metadata: ["directory": "\(path)"])
        }
        var retriesLeft = 25
        while true {
            do throws(PrivateFileError) {
                lock = try FileLock(at: "\(path)/lock", for: path)
                return
            } catch let failure {
                // `tocsin check` holds the lock for some seconds, which must not keep a node from starting.
                guard case .inUse = failure, retriesLeft > 0 else { throw error("\(failure)") }
            }
            retriesLeft -= 1
            await loop.sleep(for: .milliseconds(200))
        }
    }
}
