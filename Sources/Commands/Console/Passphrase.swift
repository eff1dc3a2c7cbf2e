// SPDX-License-Identifier: Apache-2.0

import Glibc

extension Terminal {
    /// Asks for a secret on the terminal, without showing what is typed; `nil` if there is no terminal.
    package static func secret(_ prompt: String) -> String? {
        let terminal = open("/dev/tty", O_RDWR | O_CLOEXEC)
        guard terminal >= 0 else { return nil }
        defer { close(terminal) }
        var before = termios()
        guard tcgetattr(terminal, &before) == 0 else { return nil }
        var quiet = before
        quiet.c_lflag &= ~tcflag_t(ECHO)
        tcsetattr(terminal, TCSAFLUSH, &quiet)
        defer {
            tcsetattr(terminal, TCSAFLUSH, &before)
            _ = Glibc.write(terminal, "\n", 1)
        }
        _ = Array(prompt.utf8).withUnsafeBytes { Glibc.write(terminal, $0.baseAddress, $0.count) }
        var bytes: [UInt8] = []
        var byte: UInt8 = 0
        while Glibc.read(terminal, &byte, 1) == 1, byte != UInt8(ascii: "\n") { bytes.append(byte) }
        return String(decoding: bytes, as: UTF8.self)
    }
}
