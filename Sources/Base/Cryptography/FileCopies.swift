// SPDX-License-Identifier: Apache-2.0

/// Files that another process has read for this one, which may not read them itself.
package struct FileCopies: Codable, Sendable, Redacted {
    /// What was read of a file.
    private struct Copy: Codable {
        /// Empty if the file could not be read.
        var bytes = Base64Bytes()
        var failure: RegularFile.Failure?
        /// Whether users other than its owner can access the file.
        var isAccessibleByOthers = false
    }

    private var copies: [String: Copy] = [:]

    package init() {}

    /// Reads a file, or keeps why it cannot be read.
    /// - Parameters:
    ///   - limit: the maximum size in bytes.
    ///   - directory: the canonical path of a directory whose files are refused, because the process that asks for the
    ///     copies could have replaced them by links.
    package mutating func add(_ path: String, atMost limit: Int, notBeneath directory: String? = nil) {
        var copy = Copy()
        do {
            copy.bytes = Base64Bytes(try RegularFile.read(path, atMost: limit, notBeneath: directory))
            if case .failure(.accessibleByOthers) = Result(catching: { () throws(RegularFile.Failure) in
                try RegularFile.read(path, atMost: limit, access: .owner)
            }) {
                copy.isAccessibleByOthers = true
            }
        } catch {
            copy.failure = error
        }
        copies[path] = copy
    }

    /// The contents of a file, as ``RegularFile/read(_:atMost:access:)`` returns them; `nil` if there is no copy.
    func read(
        _ path: String, atMost limit: Int, access: RegularFile.Access
    ) throws(RegularFile.Failure) -> [UInt8]? {
        guard let copy = copies[path] else { return nil }
        if let failure = copy.failure { throw failure }
        guard access == .anyone || !copy.isAccessibleByOthers else { throw .accessibleByOthers }
        guard copy.bytes.bytes.count <= limit else { throw .tooLarge(copy.bytes.bytes.count) }
        return copy.bytes.bytes
    }
}

/// Bytes that are coded as a string in Base64.
package struct Base64Bytes: Codable, Equatable, Sendable, Redacted {
    package var bytes: [UInt8]

    package init(_ bytes: [UInt8] = []) { self.bytes = bytes }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let bytes = Base64.decode(try container.decode(String.self).utf8) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not Base64")
        }
        self.bytes = bytes
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(String(decoding: Base64.encode(bytes), as: UTF8.self))
    }
}
