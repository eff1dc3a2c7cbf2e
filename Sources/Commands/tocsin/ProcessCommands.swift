// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import KeyHolder
import NodeConfiguration
import TocsinNode

/// `tocsin supervisor`: a process of a running node, started by it.
struct SupervisorCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "supervisor", shouldDisplay: false)

    @Argument var configuration: String

    func run() {
        SupervisorProcess.run(configuration: configuration) { Configuration.makeLogger(format: $0) }
    }
}

/// `tocsin resolver`: a process of a running node, started by its supervisor.
struct ResolverCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "resolver", shouldDisplay: false)

    func run() { ResolverProcess.run(logger: Configuration.makeLogger(format: .text)) }
}

/// `tocsin key-holder`: a process of a running node, started by its supervisor.
struct KeyHolderCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "key-holder", shouldDisplay: false)

    @Argument var configuration: String

    func run() {
        HolderProcess.run(configuration: configuration) { $0.makeLogger() }
    }
}
