// SPDX-License-Identifier: Apache-2.0

/// A value that crosses between actors of one loop.
package struct LoopBound<Value>: @unchecked Sendable {
    // Unchecked: created and used on one loop's thread, which the receiving actor checks (`assumeIsolated`).

    /// The value.
    package let value: Value

    /// Wraps a value that only the loop's thread uses.
    package init(_ value: Value) { self.value = value }
}
