// SPDX-License-Identifier: Apache-2.0

import Console
import Glibc

/// Decodes text in the same way whether an editor of Windows or of Unix has written it.
enum FileText {
    struct Failure: Error, Equatable, CustomStringConvertible { let description: String }

    /// The text of a file: without a byte order mark and without its last line end, and with the line ends of Unix.
    static func text(_ bytes: [UInt8], atMost maximumBytes: Int) throws(Failure) -> String {
        if bytes.starts(with: [0xFF, 0xFE]) || bytes.starts(with: [0xFE, 0xFF]) {
            throw Failure(description: "is UTF-16 text: save it as UTF-8")
        }
        guard bytes.count <= maximumBytes, let text = String(validating: bytes, as: UTF8.self) else {
            throw Failure(description: "is not UTF-8 text of at most \(maximumBytes) bytes")
        }
        var scalars = Array(text.unicodeScalars)
        if scalars.first == "\u{FEFF}" { scalars.removeFirst() }
        if scalars.last == "\n" {
            scalars.removeLast()
            if scalars.last == "\r" { scalars.removeLast() }
        }
        var output = String.UnicodeScalarView()
        for (index, scalar) in scalars.enumerated()
        where scalar != "\r" || index + 1 == scalars.count || scalars[index + 1] != "\n" {
            output.append(scalar)
        }
        return String(output)
    }
}

/// Text given on the command line, or in a file, which hides it from other users of the machine.
enum TextArgument {
    /// The longest text, in bytes. Notifications are shorter.
    private static let maximumBytes = 16 * 1024

    /// The argument itself, or for `@FILE` the content of that file (`@-`: standard input) without its last line end,
    /// and with the line ends of Unix. `@@` at the beginning stands for `@`.
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
        do throws(FileText.Failure) {
            return try FileText.text(bytes, atMost: maximumBytes)
        } catch {
            throw fail("\(name) \(error.description)", .usage)
        }
    }

    /// Reads up to one byte more than ``maximumBytes``, to detect longer text; `nil` if reading fails.
    private static func read(_ descriptor: Int32) -> [UInt8]? {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: maximumBytes + 1)
        while bytes.count <= maximumBytes {
            let count = Glibc.read(descriptor, &piece, piece.count - bytes.count)
            guard count >= 0 else { return nil }
            if count == 0 { break }
            bytes += piece[..<count]
        }
        return bytes
    }
}
