// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Settings
import TNP

/// Checks whether an upstream node serves what a node passes on to it, according to its WELCOME.
package struct UpstreamCheck {
    let node: Endpoint
    /// The name of the `[[app]]` in this node.
    let app: String
    /// `app` of `[app.upstream]`; `nil` if it is not set.
    let nameThere: String?
    /// The platforms for which this node has no credential.
    let magics: [Magic]
    let welcome: Welcome

    package init(node: Endpoint, app: String, nameThere: String?, magics: [Magic], welcome: Welcome) {
        self.node = node
        self.app = app
        self.nameThere = nameThere
        self.magics = magics
        self.welcome = welcome
    }

    package var finding: Finding {
        let name = nameThere ?? app
        let served = magics.filter { welcome.routes.contains("\(name)/\($0.rawValue)") }
        let missing = magics.filter { !served.contains($0) }.map(\.rawValue).joined(separator: ", ")
        let routes = welcome.routes.isEmpty ? "nothing" : welcome.routes.joined(separator: ", ")
        guard !served.isEmpty else {
            return finding(
                .failed,
                "serves \(routes), not \(name): set app in [app.upstream] to the app's name there, or ask that node's operator to serve it"
            )
        }
        guard missing.isEmpty else {
            return finding(
                .warning,
                "serves \(name), but not on \(missing): notifications for these phones fail. Add a credential here, or ask that node's operator"
            )
        }
        let apps = Set(welcome.routes.compactMap { $0.split(separator: "/").first })
        if nameThere == nil, apps.count > 1 {
            return finding(
                .warning,
                "serves several apps (\(routes)): senders that name no app reach its first one. If that is not \(name), set"
                    + " app = \"\(name)\" in [app.upstream]")
        }
        var text = "the node answers and serves \(name) on \(magics.map(\.rawValue).joined(separator: ", "))"
        if welcome.features.contains(.senderKeysRequired) { text += "; it requires sender keys" }
        if welcome.puzzle.effort > 0 { text += "; it requires proof of work, effort \(welcome.puzzle.effort)" }
        return finding(.ok, text)
    }

    private func finding(_ grade: Finding.Grade, _ text: String) -> Finding {
        Finding(.upstream, "\(app) \(node)", grade, text)
    }
}
