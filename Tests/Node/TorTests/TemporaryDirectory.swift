// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A directory of mode 0700 for one test, short enough for a unix socket's path.
func withDirectory<Result>(_ body: (String) async throws -> Result) async throws -> Result {
    let directory = "/tmp/tocsin-test-\(UUID().uuidString.prefix(8))"
    try FileManager.default.createDirectory(
        atPath: directory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    defer { try? FileManager.default.removeItem(atPath: directory) }
    return try await body(directory)
}

func write(_ bytes: [UInt8], to file: String, mode: mode_t = 0o600) throws {
    try Data(bytes).write(to: URL(filePath: file))
    guard chmod(file, mode) == 0 else { throw CocoaError(.fileWriteNoPermission) }
}

func bytes(of file: String) -> [UInt8]? { FileManager.default.contents(atPath: file).map(Array.init) }

func mode(of path: String) -> mode_t? {
    var status = stat()
    return stat(path, &status) == 0 ? status.st_mode & 0o777 : nil
}
