// SPDX-License-Identifier: Apache-2.0

/// How often a condition is checked, 10 ms apart: for so long that only a hang exceeds it.
private let checks = 12_000

/// Waits until a condition holds, which is checked where the caller runs.
/// - Returns: whether it holds.
package func eventually(
    isolation: isolated (any Actor)? = #isolation, _ condition: () throws -> Bool
) async rethrows -> Bool {
    for _ in 0..<checks {
        if try condition() { return true }
        try? await Task.sleep(for: .milliseconds(10))
    }
    return false
}

/// Waits until a condition holds that others have to be asked for.
/// - Returns: whether it holds.
package func eventually(_ condition: () async throws -> Bool) async rethrows -> Bool {
    for _ in 0..<checks {
        if try await condition() { return true }
        try? await Task.sleep(for: .milliseconds(10))
    }
    return false
}
