// SPDX-License-Identifier: Apache-2.0

import NodeConfiguration

/// A component of a running node. The node calls its components in the order of a list, and closes them in reverse.
protocol NodeComponent: AnyObject {
    /// Does the work of each second.
    func secondPassed()
    /// Takes the configuration that a reload has put in force.
    func configurationChanged(to configuration: Configuration)
    /// Ends the component's work and frees what it holds.
    func close(isolation: isolated (any Actor)?) async
}

extension NodeComponent {
    func secondPassed() {}
    func configurationChanged(to configuration: Configuration) {}
    func close(isolation: isolated (any Actor)?) async {}
}
