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
    static let maximumLength = 16 * 1024
    /// A bound on the length of a pairing token, in bytes of UTF-8: no real one is so long.
    private static let maximumTokenLength = 2048

    /// The pairing token of a pasted text, and its text as the phone showed it.
    package static func read(_ text: String) throws(PairingToken.FormatError) -> (token: PairingToken, text: String) {
        do throws(PairingToken.FormatError) {
            let text = trimmed(text, " \t\r\n")
            return (try issued(text), text)
        } catch {
            let undamaged = token(in: text)
            let token = try issued(undamaged)
            if let cut = DeviceTokenForm.cut(token.deviceToken, of: token.magic) {
                throw PairingToken.FormatError(description: cut)
            }
            return (token, undamaged)
        }
    }

    private static func issued(_ text: String) throws(PairingToken.FormatError) -> PairingToken {
        let token = try PairingToken(text)
        if let doubt = DeviceTokenForm.doubt(token.deviceToken, of: token.magic) {
            throw PairingToken.FormatError(description: doubt)
        }
        return token
    }

    /// The pairing token that a pasted text holds, as the phone showed it; another text if it holds none.
    static func token(in text: String) -> String {
        guard text.utf8.count <= maximumLength else { return text }
        // A line may break after `up=` in the query of a push endpoint; that is no soft line break.
        var text = plainSpaces(text).replacing(/([?&]up=) *\n/) { String($0.1) }
        if text.contains(/=7[Cc]|=3[Dd](1?\||=| *(\n|$))|(^|\n)[^\n]{69,76}= *\n(?!\|)/) {
            // Quoted-printable (RFC 2045 §6.7): the mail program has added each line break after =.
            text = plainSpaces(unescaped("=", text.replacing(/= *\n(?!\|)/, with: "")))
        }
        if text.contains(/%7[Cc]/) { text = plainSpaces(unescaped("%", text)) }
        text = text.replacing(/<(br|p|\/p|div|\/div)( [^<>]*|\/)?>/.ignoresCase(), with: "\n")
        text = text.replacing(/<\/?[A-Za-z][^<>|]*>/, with: "")
        text = text.replacing(/&(#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,12});/) {
            entity(String($0.1)) ?? String($0.0)
        }
        text = String(String.UnicodeScalarView(plainSpaces(text).unicodeScalars.map(plain)))
        // Markdown puts a backslash before punctuation.
        text = text.replacing(/\\([|_\-*+.:=\/])/) { String($0.1) }
        return tidied(
            joined(text.unicodeScalars.split(separator: "\n", omittingEmptySubsequences: false).map { String($0) }))
    }

    /// The text without invisible characters, and with two kinds of white space: spaces and line feeds.
    private static func plainSpaces(_ text: String) -> String {
        var output = String.UnicodeScalarView()
        var last: Unicode.Scalar?
        for scalar in text.unicodeScalars where scalar.properties.generalCategory != .format {
            defer { last = scalar }
            switch scalar {
            case "\n" where last == "\r": break
            case "\n", "\r", "\u{B}", "\u{C}", "\u{85}", "\u{2028}", "\u{2029}": output.append("\n")
            case "\t", "\u{1C}"..."\u{1F}": output.append(" ")
            default: output.append(scalar.properties.generalCategory == .spaceSeparator ? " " : scalar)
            }
        }
        return String(output)
    }

    static let bars: Set<Unicode.Scalar> = ["│", "┃", "¦", "｜", "￨", "ǀ", "∣", "❘", "︱", "║", "‖"]
    static let quotes: Set<Unicode.Scalar> = ["\"", "'", "`", "“", "”", "„", "‘", "’", "«", "»"]
    /// Cyrillic and Greek letters that look like Latin ones.
    private static let letters = Dictionary(
        uniqueKeysWithValues: zip(
            "АВЕЅІЈКМНОРСТХаеосрхѕіјΑΒΕΖΗΙΚΜΝΟΡΤΧο".unicodeScalars,
            "ABESIJKMHOPCTXaeocpxsijABEZHIKMNOPTXo".unicodeScalars))
    private static let entities = [
        "amp": "&", "lt": "<", "gt": ">", "quot": "\"", "apos": "'", "nbsp": " ", "vert": "|", "verbar": "|",
        "VerticalLine": "|", "plus": "+", "sol": "/", "equals": "=", "colon": ":", "lowbar": "_", "hyphen": "-",
    ]
    private static let magics = Dictionary(uniqueKeysWithValues: Magic.allCases.map { ($0.rawValue.lowercased(), $0) })

    private static func plain(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        switch scalar {
        case _ where bars.contains(scalar): "|"
        case "\u{FF01}"..."\u{FF5E}": Unicode.Scalar(UInt8(scalar.value - 0xFEE0))
        case "\u{2010}", "\u{2011}", "\u{2212}": "-"
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

    /// Joins the lines of the token, without the > of quoted mail and the text before and after the token.
    private static func joined(_ lines: [String]) -> String {
        var joined = ""
        var bars = 0
        for line in lines {
            var line = trimmed(line, " >", end: " ")
            if joined.isEmpty {
                let start = /(^|[^A-Za-z])((iOSDev|iOS|android|web) *\|)/.ignoresCase().matchingSemantics(
                    .unicodeScalar)
                line = line.firstMatch(of: start).map { String(line[$0.2.startIndex...]) } ?? ""
            } else if line.isEmpty || line == "--" || (bars >= 3 && (line.utf8.contains(0x20) || ends(joined, line))) {
                break
            }
            joined += line
            bars += line.utf8.count { $0 == UInt8(ascii: "|") }
            if joined.utf8.count > maximumTokenLength { break }
        }
        return joined
    }

    /// Whether a token is whole, so that the following line is not part of it. A line of hexadecimal digits may be part
    /// of it even then: Apple may issue longer tokens.
    private static func ends(_ token: String, _ following: String) -> Bool {
        let parts = parts(token)
        return isWhole(magic(parts[0]), parts.count, parts[parts.count - 1])
            && !(following.utf8.count >= 16 && following.isHexadecimal)
    }

    /// Whether the last part of a token has the length of a handle, of a secret of Web Push, or of the device tokens
    /// that Apple and Google issue.
    private static func isWhole(_ magic: Magic?, _ count: Int, _ part: String) -> Bool {
        let last = bareLast(magic, count, part)
        guard let magic else { return false }
        if count == 6 { return last.wholeMatch(of: /[A-Za-z0-9_-]{22}/) != nil }
        if last.hasPrefix(Handle.prefix) { return Handle(text: last) != nil }
        return count == 4 && DeviceTokenForm.isOfToday(last, of: magic)
    }

    private static func tidied(_ token: String) -> String {
        var parts = parts(token)
        let magic = magic(parts[0])
        let words = trimmed(parts[parts.count - 1], " ").split(separator: " ", omittingEmptySubsequences: false)
        if words.count > 1, isWhole(magic, parts.count, String(words[0])) { parts[parts.count - 1] = String(words[0]) }
        for index in parts.indices { parts[index] = index == 1 ? trimmed(parts[index], around) : bare(parts[index]) }
        parts[0] = magic?.rawValue ?? parts[0]
        parts[parts.count - 1] = bareLast(magic, parts.count, parts[parts.count - 1])
        return parts.joined(separator: "|")
    }

    private static func parts(_ token: String) -> [String] {
        token.unicodeScalars.split(separator: "|", omittingEmptySubsequences: false).map { String($0) }
    }

    /// Spaces and quotation marks.
    private static let around = " " + String(String.UnicodeScalarView(quotes))

    private static func magic(_ part: String) -> Magic? { magics[trimmed(part, around).lowercased()] }

    private static func bare(_ part: String) -> String {
        String(String.UnicodeScalarView(part.unicodeScalars.filter { !quotes.contains($0) && $0 != " " }))
    }

    /// The last part without the punctuation around it.
    private static func bareLast(_ magic: Magic?, _ count: Int, _ part: String) -> String {
        let last = trimmed(bare(part), "", end: ".,;:!?)]}>*")
        guard count == 4 else { return last }
        if last.lowercased().hasPrefix(Handle.prefix) {
            return Handle.prefix + digits(last.dropFirst(Handle.prefix.count))
        }
        return magic?.isApple == true ? digits(last[...]) : last
    }

    /// The text without these characters at its ends.
    private static func trimmed(_ text: String, _ start: String, end: String? = nil) -> String {
        let (before, after) = (start.unicodeScalars, (end ?? start).unicodeScalars)
        var rest = text.unicodeScalars[...]
        while let first = rest.first, before.contains(first) { rest.removeFirst() }
        while let last = rest.last, after.contains(last) { rest.removeLast() }
        return String(rest)
    }

    /// Replaces O by 0, and l and I by 1: they are no hexadecimal digits.
    private static func digits(_ text: Substring) -> String {
        String(text.map { $0 == "O" || $0 == "o" ? "0" : $0 == "l" || $0 == "I" ? "1" : $0 })
    }
}
