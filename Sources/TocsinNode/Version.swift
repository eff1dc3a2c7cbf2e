// SPDX-License-Identifier: Apache-2.0

/// Which Tocsin this is.
package enum Version {
    /// By semantic versioning; the package and the manual take it from here.
    package static let current = "1.0.0"
}
