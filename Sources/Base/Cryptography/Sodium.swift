// SPDX-License-Identifier: Apache-2.0

import CSodium

/// Initialises libsodium, which then selects its fastest implementations. Evaluate ``initialised`` before each use of a
/// hash, cipher, signature, key or random number of libsodium.
enum Sodium {
    static let initialised: Void = {
        precondition(sodium_init() >= 0, "libsodium could not be initialised")
    }()
}
