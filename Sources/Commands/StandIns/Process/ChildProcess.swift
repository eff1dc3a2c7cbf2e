// SPDX-License-Identifier: Apache-2.0

import Tor

/// A child process, for tests and benchmarks that run other programs.
package typealias ChildProcess = Tor.ChildProcess
