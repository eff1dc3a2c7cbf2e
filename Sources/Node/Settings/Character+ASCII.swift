// SPDX-License-Identifier: Apache-2.0

extension Character {
    package var isASCIILetterOrDigit: Bool { isASCII && (isLetter || isNumber) }
}
