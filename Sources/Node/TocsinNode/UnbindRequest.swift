// SPDX-License-Identifier: Apache-2.0

import Admission
import Cryptography
import Glibc

/// The operator's request to remove a phone's sender keys: a file in the state directory that `tocsin unbind` writes,
/// and that the running node reads, executes and removes. It contains hashes under the node's key, no device token.
package enum UnbindRequest {
    /// Maximum hashes in one request: two for each app.
    private static let maximumHashes = 256

    private static func path(_ state: String) -> String { "\(state)/unbind" }

    /// Writes a request. `standing.key` must exist.
    /// - Parameters:
    ///   - deviceToken: as in a pairing token.
    ///   - apps: the names of the apps that it may belong to.
    /// - Throws: `PrivateFileError`, also if the node has not taken the last request yet.
    package static func write(_ deviceToken: String, apps: [String], state: String) throws(PrivateFileError) {
        let hash = KeyedHash(key: try KeyFile.read("\(state)/standing.key"))
        let names = apps.flatMap { Admission.hashes(of: Array(deviceToken.utf8), app: $0, under: hash) }
        let lines = Array(names.prefix(maximumHashes).map { "\($0)\n" }.joined().utf8)
        // Another request may be pending.
        let error = DraftFile.write(lines.span.bytes, to: path(state), replacing: false, isDurable: false)
        guard error == 0 else { throw .system(path(state), error) }
    }

    private static func answerPath(_ state: String) -> String { "\(path(state)).answer" }

    /// Records how many of the phones were bound.
    static func answer(_ phones: Int, state: String) throws(PrivateFileError) {
        try PrivateFile.replace(answerPath(state), holding: Array("\(phones)\n".utf8), isDurable: false)
    }

    /// Reads and removes the answer to the request: how many phones were bound; `nil` if there is none yet.
    package static func takeAnswer(state: String) -> Int? {
        // While the request is still there, an answer belongs to an earlier request.
        guard access(path(state), F_OK) != 0 else { return nil }
        let file = answerPath(state)
        guard let bytes = try? RegularFile.read(file, atMost: 32, access: .thisUser) else { return nil }
        unlink(file)
        return Int(String(decoding: bytes.prefix { $0 != 0x0A }, as: UTF8.self))
    }

    /// Reads and removes the pending request; `nil` if there is none or it cannot be read.
    static func take(state: String) -> [UInt64]? {
        let file = path(state)
        // Usually no request is pending.
        guard access(file, F_OK) == 0 else { return nil }
        // An earlier command may have left its answer unread: it must not pass for that to this request.
        unlink(answerPath(state))
        // Frees the name for the next request.
        let taken = "\(file).taken"
        guard rename(file, taken) == 0 else { return nil }
        defer { unlink(taken) }
        // A line has at most 20 digits.
        guard let bytes = try? RegularFile.read(taken, atMost: maximumHashes * 21, access: .thisUser) else {
            return nil
        }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").compactMap { UInt64($0) }
    }
}
