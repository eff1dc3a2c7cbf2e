// SPDX-License-Identifier: Apache-2.0

import Console
import Glibc

/// Text given on the command line, or in a file, which hides it from other users of the machine.
enum TextArgument {
    /// The longest text in bytes. Notifications are shorter.
    private static let longest = 16 * 1024

    /// The argument itself, or for `@FILE` the content of that file (`@-`: standard input) without its last line feed.
    /// `@@` at the beginning stands for `@`.
    /// - Throws: the exit code, after printing the error.
    static func text(_ argument: String) throws -> String {
        guard argument.hasPrefix("@") else { return argument }
        let name = String(argument.dropFirst())
        if name.hasPrefix("@") { return name }
        let descriptor = name == "-" ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0, let bytes = read(descriptor) else {
            throw fail("cannot read \(name): \(String(cString: strerror(errno)))", .usage)
        }
        if descriptor != STDIN_FILENO { close(descriptor) }
        guard bytes.count <= longest, let text = String(validating: bytes, as: UTF8.self) else {
            throw fail("\(name) is not UTF-8 text of at most \(longest) bytes", .usage)
        }
        return text.hasSuffix("\n") ? String(text.dropLast()) : text
    }

    /// Reads up to one byte more than ``longest``, to detect longer text; `nil` if reading fails.
    private static func read(_ descriptor: Int32) -> [UInt8]? {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: longest + 1)
        while bytes.count <= longest {
            let count = Glibc.read(descriptor, &piece, piece.count - bytes.count)
            guard count >= 0 else { return nil }
            if count == 0 { break }
            bytes += piece[..<count]
        }
        return bytes
    }
}
