// SPDX-License-Identifier: Apache-2.0

/// The version of Tocsin.
package enum Version {
    /// A semantic version. The Debian package and the manual read it from here.
    package static let current = "1.1.0"
}
