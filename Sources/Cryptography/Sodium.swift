// SPDX-License-Identifier: Apache-2.0

import CSodium

/// libsodium picks its fastest implementations when it is initialised; every use goes through here first.
enum Sodium {
    static let ready: Void = {
        precondition(sodium_init() >= 0, "libsodium could not be initialised")
    }()
}
