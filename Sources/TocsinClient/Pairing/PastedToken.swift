// SPDX-License-Identifier: Apache-2.0

import TNP

extension PairingToken {
    /// Parses the pairing token in a text that somebody pasted: what mail programs, editors and web pages do to it (line
    /// breaks, quotation marks, quoted-printable, HTML, look-alike letters, a signature after it) is undone.
    /// - Throws: ``FormatError`` if no pairing token remains, or Google cannot have issued its device token.
    public init(pasted text: String) throws(FormatError) { self = try PastedToken.read(text).token }
}

/// A pairing token as people paste it.
package enum PastedToken {
    /// The longest pasted text that is looked at, in bytes of UTF-8.
    static let longest = 16 * 1024
    /// Characters after the colon of Google's device tokens that begin with APA91b, as issued since 2015.
    static let googleLength = 140

    /// The pairing token of a pasted text, and its text as the phone showed it.
    package static func read(_ text: String) throws(PairingToken.FormatError) -> (token: PairingToken, text: String) {
        do throws(PairingToken.FormatError) {
            return (try issued(text), text)
        } catch {
            let undamaged = token(in: text)
            return (try issued(undamaged), undamaged)
        }
    }

    private static func issued(_ text: String) throws(PairingToken.FormatError) -> PairingToken {
        let token = try PairingToken(text)
        if let doubt = doubt(token.magic, token.deviceToken) { throw PairingToken.FormatError(description: doubt) }
        return token
    }

    /// The pairing token that a pasted text holds, as the phone showed it; another text if it holds none.
    static func token(in text: String) -> String {
        guard text.utf8.count <= longest else { return text }
        var text = String(
            String.UnicodeScalarView(text.unicodeScalars.filter { $0.properties.generalCategory != .format }))
        text = text.replacing(/\r\n|[\r\u{2028}\u{2029}]/.matchingSemantics(.unicodeScalar), with: "\n")
        if text.contains(/=7[Cc]|=3[Dd]|=[ \t]*\n(?!\|)/) {
            // Quoted-printable (RFC 2045 §6.7): a line break after = belongs to the mail.
            text = unescaped("=", text.replacing(/=[ \t]*\n(?!\|)/, with: ""))
        }
        if text.contains(/%7[Cc]/) { text = unescaped("%", text) }
        text = text.replacing(/<(br|p|\/p|div|\/div)(\s[^<>]*|\/)?>/.ignoresCase(), with: "\n")
        text = text.replacing(/<\/?[A-Za-z][^<>|]*>/, with: "")
        text = text.replacing(/&(#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,12});/) {
            entity(String($0.1)) ?? String($0.0)
        }
        text = String(String.UnicodeScalarView(text.unicodeScalars.map(plain)))
        // Markdown.
        text = text.replacing(/\\([|_\-*+.:=\/])/) { String($0.1) }
        return tidied(joined(text.split(separator: "\n", omittingEmptySubsequences: false)))
    }

    /// Why a token that conforms to the protocol is still no token that Google issues.
    static func doubt(_ magic: Magic, _ deviceToken: String) -> String? {
        guard magic == .android else { return nil }
        if let scalar = deviceToken.unicodeScalars.first(where: { !$0.isASCII }) {
            let code = String(scalar.value, radix: 16, uppercase: true)
            return
                "the device token contains \(scalar) (U+\(String(repeating: "0", count: max(0, 4 - code.count)))\(code)), "
                + "which Google does not use: a mail program or an editor may have put it in place of another character; "
                + "copy the pairing token again"
        }
        guard let match = deviceToken.wholeMatch(of: /[A-Za-z0-9_-]+:(APA91b[A-Za-z0-9_-]*)/),
            match.1.count < googleLength
        else { return nil }
        return
            "the device token was cut off: after the colon, Google's have \(googleLength) characters, this one "
            + "\(match.1.count); copy the whole pairing token"
    }

    private static let bars: Set<Unicode.Scalar> = ["│", "┃", "¦", "｜", "￨", "ǀ", "∣", "❘", "︱", "║", "‖"]
    private static let quotes: Set<Unicode.Scalar> = ["\"", "'", "`", "“", "”", "„", "‘", "’", "«", "»"]
    /// Cyrillic and Greek letters that look like Latin ones.
    private static let letters = Dictionary(
        uniqueKeysWithValues: zip(
            "АВЕЅІЈКМНОРСТХаеосрхѕіјΑΒΕΖΗΙΚΜΝΟΡΤΧο".unicodeScalars,
            "ABESIJKMHOPCTXaeocpxsijABEZHIKMNOPTXo".unicodeScalars))
    private static let entities = [
        "amp": "&", "lt": "<", "gt": ">", "quot": "\"", "apos": "'", "nbsp": " ", "vert": "|", "verbar": "|",
        "VerticalLine": "|", "plus": "+", "sol": "/", "equals": "=", "colon": ":", "lowbar": "_", "hyphen": "-",
    ]
    private static let magics: [String: Magic] = ["ios": .iOS, "iosdev": .iOSDev, "android": .android, "web": .web]

    private static func plain(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        switch scalar {
        case _ where bars.contains(scalar): "|"
        case "\u{FF01}"..."\u{FF5E}": Unicode.Scalar(UInt8(scalar.value - 0xFEE0))
        case "\u{2010}", "\u{2011}", "\u{2212}": "-"
        case _ where scalar.properties.generalCategory == .spaceSeparator: " "
        default: letters[scalar] ?? scalar
        }
    }

    private static func unescaped(_ mark: Unicode.Scalar, _ text: String) -> String {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            let digits = rest.prefix(2).compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
            if byte == UInt8(ascii: mark), digits.count == 2 {
                bytes.append(UInt8(digits[0] << 4 | digits[1]))
                rest = rest.dropFirst(2)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func entity(_ name: String) -> String? {
        guard name.hasPrefix("#") else { return entities[name] }
        let isHexadecimal = name.dropFirst().first?.lowercased() == "x"
        let code = UInt32(name.dropFirst(isHexadecimal ? 2 : 1), radix: isHexadecimal ? 16 : 10)
        return code.flatMap { (0x20..<0xD800).contains($0) ? Unicode.Scalar($0) : nil }.map { String($0) }
    }

    /// The lines of the token as one: without quotation marks of mail, and without what stands before and after.
    private static func joined(_ lines: [Substring]) -> String {
        var joined = ""
        for line in lines {
            var line = line.drop { $0.isWhitespace || $0 == ">" }
            while line.last?.isWhitespace == true { line.removeLast() }
            if joined.isEmpty {
                let start = /(^|[^A-Za-z])((iOSDev|iOS|android|web)\s*\|)/.ignoresCase()
                if let found = line.firstMatch(of: start) { joined = String(line[found.2.startIndex...]) }
            } else if line.isEmpty || line == "--" || (joined.count { $0 == "|" } >= 3 && line.contains(" "))
                || isWhole(joined, before: line)
            {
                break
            } else {
                joined += line
            }
        }
        return joined
    }

    /// Whether a token ends here, although another line follows.
    private static func isWhole(_ token: String, before line: Substring) -> Bool {
        let parts = token.split(separator: "|", omittingEmptySubsequences: false)
        guard parts.count == 4, let magic = magics[trimmed(parts[0]).lowercased()] else { return false }
        switch magic {
        case .android: return parts[3].wholeMatch(of: /[A-Za-z0-9_-]+:(APA91b[A-Za-z0-9_-]*)/)?.1.count == googleLength
        case .iOS, .iOSDev: return !String(line).isHexadecimal && !parts[3].hasPrefix(Handle.prefix)
        case .web: return false
        }
    }

    private static func tidied(_ token: String) -> String {
        var parts = token.split(separator: "|", omittingEmptySubsequences: false).enumerated().map { index, part in
            index == 1
                ? trimmed(part)
                : String(
                    String.UnicodeScalarView(
                        part.unicodeScalars.filter { !quotes.contains($0) && !$0.properties.isWhitespace }))
        }
        parts[0] = magics[parts[0].lowercased()]?.rawValue ?? parts[0]
        while let last = parts[parts.count - 1].last, ".,;:!?)]}>*".contains(last) {
            parts[parts.count - 1].removeLast()
        }
        guard parts.count > 3 else { return parts.joined(separator: "|") }
        if parts[3].lowercased().hasPrefix(Handle.prefix) {
            parts[3] = Handle.prefix + digits(parts[3].dropFirst(Handle.prefix.count))
        } else if parts[0].hasPrefix("iOS") {
            parts[3] = digits(parts[3][...])
        }
        return parts.joined(separator: "|")
    }

    private static func trimmed(_ text: Substring) -> String {
        let isAround = { (character: Character) in
            character == " " || character.unicodeScalars.allSatisfy(quotes.contains)
        }
        var rest = text.drop(while: isAround)
        while rest.last.map(isAround) == true { rest.removeLast() }
        return String(rest)
    }

    /// Hexadecimal digits, of which O, l and I are none.
    private static func digits(_ text: Substring) -> String {
        String(text.map { $0 == "O" || $0 == "o" ? "0" : $0 == "l" || $0 == "I" ? "1" : $0 })
    }
}
