// SPDX-License-Identifier: Apache-2.0

/// Callbacks that wait for a result each, up to a bound. Take one out before you call it: it may add another.
package struct PendingCalls<Result> {
    private let maximum: Int
    private var calls: [Int: (Result) -> Void] = [:]
    private var lastNumber = 0

    package init(maximum: Int) { self.maximum = maximum }

    /// Adds a callback.
    /// - Returns: its number; `nil` if too many wait.
    package mutating func add(_ call: @escaping (Result) -> Void) -> Int? {
        guard calls.count < maximum else { return nil }
        lastNumber += 1
        calls[lastNumber] = call
        return lastNumber
    }

    /// Removes a callback; `nil` if it was removed before.
    package mutating func take(_ number: Int) -> ((Result) -> Void)? { calls.removeValue(forKey: number) }
}
