// SPDX-License-Identifier: Apache-2.0

/// Waits until a condition holds, for so long that only a hang exceeds it.
/// - Returns: whether it holds.
package func eventually(
    isolation: isolated (any Actor)? = #isolation, _ condition: () async throws -> Bool
) async rethrows -> Bool {
    for _ in 0..<12_000 {
        if try await condition() { return true }
        try? await Task.sleep(for: .milliseconds(10))
    }
    return false
}
