// SPDX-License-Identifier: Apache-2.0

import Tor

/// A process of ours, as whoever tests against other programs starts one.
package typealias ChildProcess = Tor.ChildProcess
