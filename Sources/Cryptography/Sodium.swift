// SPDX-License-Identifier: Apache-2.0

import CSodium

/// Initialises libsodium, which selects its fastest implementations. Every use of libsodium evaluates ``ready`` first.
enum Sodium {
    static let initialised: Void = {
        precondition(sodium_init() >= 0, "libsodium could not be initialised")
    }()
}
