// SPDX-License-Identifier: Apache-2.0

import Settings

extension TableReader {
    /// Reads the text before the first `|` of an app's notifications.
    func messageMagic(
        _ key: String = "message_magic", default standard: String,
        _ help: String = "Text before the first `|` of the payload of a `pipe` app; letters and digits"
    ) -> String {
        let magic = string(key, default: standard, help)
        if magic.utf8.count > 64 || !magic.allSatisfy(\.isASCIILetterOrDigit) {
            note(key, "must be at most 64 ASCII letters and digits")
        }
        return magic
    }

    /// Reads the sound of an app's notifications.
    func sound() -> String {
        string(
            "sound", default: "default", "Sound of a notification that is not silent: `default`, or a sound of the app")
    }

    /// Checks the name of an app.
    package func appName(_ name: String, _ key: String) throws -> String {
        guard (1...64).contains(name.utf8.count),
            name.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "/") })
        else { throw problem(key, "must be at most 64 ASCII characters without spaces and slashes") }
        return name
    }
}
