// SPDX-License-Identifier: Apache-2.0

/// A type that contains a secret or a token. It prints as `<redacted>`, also in dumps and test failures.
package protocol Redacted: CustomStringConvertible, CustomReflectable {}

extension Redacted {
    /// Always `<redacted>`.
    public var description: String { "<redacted>" }
    /// A mirror without children, so that dumps do not show the contents.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
