// SPDX-License-Identifier: Apache-2.0

import NodeConfiguration
import Settings

/// A fragment of HTML, built from string literals. Literals are copied as they are; interpolated strings are escaped, so
/// that no external text becomes markup. Interpolated fragments are not escaped again.
struct HTML: ExpressibleByStringInterpolation, Sendable {
    private(set) var text: String

    init(stringLiteral value: String) { text = value }

    init(stringInterpolation: StringInterpolation) { text = stringInterpolation.text }

    static func + (one: HTML, other: HTML) -> HTML { "\(one)\(other)" }

    static func += (one: inout HTML, other: HTML) { one.text += other.text }

    struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var text = ""

        init(literalCapacity: Int, interpolationCount: Int) { text.reserveCapacity(literalCapacity) }

        mutating func appendLiteral(_ literal: String) { text += literal }

        mutating func appendInterpolation(_ piece: HTML) { text += piece.text }

        mutating func appendInterpolation(_ pieces: [HTML]) { for piece in pieces { text += piece.text } }

        mutating func appendInterpolation(_ number: Int) { text += "\(number)" }
        /// Appends a coordinate, with one decimal place.
        mutating func appendInterpolation(_ coordinate: Double) { text += Format.decimal(coordinate, 1) }

        mutating func appendInterpolation(_ words: String) {
            for scalar in words.unicodeScalars {
                switch scalar {
                case "&": text += "&amp;"
                case "<": text += "&lt;"
                case ">": text += "&gt;"
                case "\"": text += "&quot;"
                case "'": text += "&#39;"
                // HTML does not allow control characters, and a line break would split the line of a server-sent event.
                case _ where scalar.value < 0x20 || (0x7F..<0xA0).contains(scalar.value): text += " "
                default: text.unicodeScalars.append(scalar)
                }
            }
        }
    }
}
