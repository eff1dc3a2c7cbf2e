// SPDX-License-Identifier: Apache-2.0

import Testing

/// The groups of suites: each suite has one of these tags, and a test may override its suite's. `Tests/run` reads them
/// from the program that it runs, and its levels (`quick`, `test`, `all`) are lists of groups.
extension Tag {
    /// Computes only: no socket, no timer, no child process, no lock of a file. Runs in parallel, in one process.
    @Tag package static var computing: Self
    /// Uses sockets, timers, locks of files or child processes, one test after another.
    @Tag package static var sockets: Self
    /// Runs nodes on loopback, with stand-ins for Apple, Google and push servers.
    @Tag package static var node: Self
    /// Runs a private Tor network.
    @Tag package static var tor: Self
    /// Opens pages with Chromium.
    @Tag package static var browser: Self
    /// Needs programs that `make test` does not install, such as OnionBalance and Prosody: `make test-all` only.
    @Tag package static var foreign: Self
    /// Takes minutes, and computes meanwhile: `make test-all` only.
    @Tag package static var extended: Self
    /// Measures the release build, alone: `make test-all` only.
    @Tag package static var released: Self
}
