// SPDX-License-Identifier: Apache-2.0

/// What holds a secret or a token: prints as `<redacted>`, also in a dump and where a test fails.
package protocol Redacted: CustomStringConvertible, CustomReflectable {}

extension Redacted {
    public var description: String { "<redacted>" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
