// SPDX-License-Identifier: Apache-2.0

import NodeConfiguration
import Settings

/// The dashboard page. It is complete without JavaScript, and contains no inline script or style, which the
/// Content-Security-Policy forbids.
struct DashboardPage {
    let snapshot: NodeSnapshot
    private let health: Health

    init(_ snapshot: NodeSnapshot) {
        self.snapshot = snapshot
        health = Health(snapshot)
    }

    /// The whole page in UTF-8.
    var document: [UInt8] {
        let page: HTML = """
            <!DOCTYPE html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="color-scheme" content="light dark">
            <title>\(snapshot.name ?? "Tocsin"): \(health.summary)</title>
            <link rel="icon" href="data:image/svg+xml,\(DashboardFiles.icon)">
            <link rel="stylesheet" href="/dashboard.css">
            <script src="/dashboard.js" defer></script>
            </head>
            <body>
            <header><h1>\(Self.bell) \(snapshot.name ?? "Tocsin")</h1>
            <noscript><p>JavaScript is off: this page does not update. Reload it for current values.</p></noscript></header>
            <p id="link" role="status"></p>
            <main>
            \(main)
            </main>
            </body>
            </html>

            """
        return Array(page.text.utf8)
    }

    /// ``main`` as a server-sent event, the format that `EventSource` reads: a `data` field for each line.
    var event: [UInt8] {
        let lines = main.text.split(separator: "\n", omittingEmptySubsequences: false).map { "data: \($0)\n" }
        return Array("event: main\n\(lines.joined())\n".utf8)
    }

    /// The part that changes: one section per line, each with an id.
    var main: HTML {
        """
        \(summary)
        \(flow)
        \(chart("hour", "Last hour, per minute", snapshot.hour, width: 60))
        \(chart("day", "Last day, per 10 minutes", snapshot.day, width: 600))
        \(alarms)
        \(routes)
        \(latencies)
        \(refusals)
        \(attack)
        \(tor)
        \(credentials)
        \(upstreams)
        \(cluster)
        \(canary)
        \(machine)
        \(setUp)
        """
    }

    // MARK: Sections

    private var summary: HTML {
        let marks: HTML =
            switch health.grade {
            case .good: #"<path d="M5 12.5l4.5 4.5L19 7.5"/>"#
            case .untried: #"<path d="M6 12h12"/>"#
            case .warning: #"<path d="M12 5v9M12 18v.5"/>"#
            case .bad: #"<path d="M6.5 6.5l11 11M17.5 6.5l-11 11"/>"#
            }
        let reasons: HTML = health.reasons.isEmpty ? "" : "<ul>\(health.reasons.map { "<li>\($0)</li>" as HTML })</ul>"
        let help: HTML =
            health.sections.isEmpty
            ? ""
            : "<p>What to do: operations.md, \(health.sections.map(\.rawValue).joined(separator: ", "))</p>"
        return """
            <section id="attemptResult" class="wide \(health.grade.rawValue)"><svg class="mark" viewBox="0 0 24 24" \
            aria-hidden="true">\(marks)</svg><div><h2>\(health.summary)</h2>\(reasons)\(help)<p class="quiet">As of \
            <time>\(Format.clockWithSeconds(snapshot.now)) UTC</time> · version \(snapshot.version) · up for \
            \(Format.span(snapshot.uptime))\(recentAlarms)</p></div></section>
            """
    }

    private var recentAlarms: HTML {
        let recent = snapshot.alarms.count { !$0.isSetUp && snapshot.now - $0.time < 3600 }
        return recent == 0 ? "" : " · <a href=\"#alarms\">\(Format.count(recent, "alarm")) in the last hour</a>"
    }

    /// The stages of a notification, with the number of notifications in each.
    private var flow: HTML {
        let waiting = snapshot.routes.reduce(0) { $0 + $1.waiting }
        let delivered = snapshot.hour.reduce(0) { $0 + $1.delivered }
        var stations: [HTML] = [
            Self.station(
                "Senders", snapshot.connections.tnp + snapshot.connections.http,
                "\(Format.count(snapshot.connections.tnp)) over TNP, \(Format.count(snapshot.connections.http)) over HTTP, "
                    + Format.count(snapshot.circuits, "circuit")),
            Self.station("In flight", snapshot.inFlight, "\(Format.count(waiting)) of them queued"),
        ]
        if let spool = snapshot.spool {
            stations.append(Self.station("Stored on disk", spool.envelopes, "\(Format.bytes(spool.bytes)), encrypted"))
        }
        stations.append(Self.station("Delivered", delivered, "in the last hour"))
        return """
            <section id="flow" class="wide"><h2 class="unseen">Current load</h2><ol>\(stations)</ol></section>
            """
    }

    private static func station(_ name: String, _ figure: Int, _ words: String) -> HTML {
        """
        <li><span class="name">\(name)</span> <strong>\(Format.count(figure))</strong> \
        <span class="quiet">\(words)</span></li>
        """
    }

    private func chart(_ name: String, _ title: String, _ buckets: [NodeSnapshot.Bucket], width: Int64) -> HTML {
        let chart = OutcomeChart(name: name, title: title, buckets: buckets, width: width, starts: snapshot.starts)
        return """
            <section id="\(name)" class="half"><h2>\(title)</h2>\(chart.html)</section>
            """
    }

    private var alarms: HTML {
        let rows = snapshot.alarms.filter { !$0.isSetUp }.map { alarm -> [HTML] in
            let isToday = Format.date(alarm.time) == Format.date(snapshot.now)
            let time = (isToday ? "" : Format.date(alarm.time) + " ") + Format.clock(alarm.time)
            let level = Self.sign(alarm.level == "warning" ? "warning" : "bad", alarm.level)
            return ["<time>\(time)</time>", level, "\(alarm.text)", "\(Format.count(alarm.count))"]
        }
        let table = Self.table(
            "Warnings and errors, latest first; times in UTC",
            [.text("Last time"), .text("Level"), .head("Message"), .figure("Count")], rows,
            none: "No alarms since the start.")
        return Self.card("alarms", "Alarms", table, "wide")
    }

    private var routes: HTML {
        let rows = RouteConditions(snapshot.routes, at: snapshot.now).routes.map { route, condition -> [HTML] in
            var state: HTML =
                switch condition {
                case .untried: "not tried yet"
                case .probed: "not tried yet; it answers a probe"
                case .working: Self.sign("good", "working")
                case .suspect where route.isOptional: "fails a probe; only builds from Xcode need it"
                case .suspect:
                    Self.sign(
                        "bad", route.record.probe?.verdict == .bad ? "fails a probe" : "its credential does not work")
                case .shut: Self.sign("bad", route.breaker == "open" ? "shut" : "shut: probing")
                }
            if condition == .suspect, let probe = route.record.probe, probe.verdict == .bad {
                state += "<br>\(probe.answer), at \(Format.time(probe.time))"
            }
            if let shut = route.record.shut { state += "<br>\(shut.answer), since \(Format.time(shut.since))" }
            if route.isSurge { state += "<br>\(Self.sign("warning", "surge of token refusals"))" }
            let answers = route.answers.prefix(5).map { "\($0.reason): \(Format.count($0.count))" }
            return [
                "\(route.name)", state,
                "\(route.record.lastDelivery.map { "\(Format.span(snapshot.now - $0)) ago" } ?? "–")",
                RouteChart(buckets: route.day).html,
                "\(Format.count(route.inFlight))", "\(Format.count(route.waiting))",
                Self.seconds(route.p50), Self.seconds(route.p99), "\(answers.joined(separator: ", "))",
            ]
        }
        let table = Self.table(
            "Each app on each platform; latency of the last hour, answers since the start",
            [
                .head("Route"), .text("State"), .text("Last delivery"), .text("Last day, by hour"),
                .figure("In flight"), .figure("Queued"), .figure("p50"), .figure("p99"), .text("Answers"),
            ], rows)
        return Self.card("routes", "Push services", table, "wide")
    }

    private var latencies: HTML {
        let rows = snapshot.latencies.map { latency -> [HTML] in
            ["\(latency.stage)", Self.seconds(latency.p50), Self.seconds(latency.p90), Self.seconds(latency.p99)]
        }
        let table = Self.table(
            "Latency of each stage in the last hour",
            [.head("Stage"), .figure("p50"), .figure("p90"), .figure("p99")], rows)
        return Self.card("latencies", "Latency", table, "half")
    }

    private var refusals: HTML {
        let most = max(1, snapshot.refusals.map(\.lastHour).max() ?? 1)
        let rows = snapshot.refusals.map { refusal -> [HTML] in
            [
                "\(refusal.reason)", "\(Format.count(refusal.lastHour))",
                Self.meter(Double(refusal.lastHour) / Double(most), "retry"), "\(Format.count(refusal.total))",
            ]
        }
        let table = Self.table(
            "Submissions that the node did not accept, most frequent reason first",
            [.head("Reason"), .figure("Last hour"), .picture("Relative"), .figure("Since the start")], rows,
            none: "No rejections since the start.")
        return Self.card("refusals", "Rejected at admission", table, "half")
    }

    private var attack: HTML {
        let (all, unproven) = (snapshot.effort.all, snapshot.effort.unproven)
        let state =
            if all > 0 {
                Self.sign("warning", "required for all submissions")
            } else if unproven > 0 {
                Self.sign("warning", "required for new device tokens only")
            } else {
                Self.sign("good", "off")
            }
        let rows = [("all submissions", all), ("new device tokens", unproven)].map { target, effort -> [HTML] in
            [
                "\(target)", "\(effort == 0 ? "none" : Format.effort(effort))",
                Self.meter(Self.height(effort), "retry"),
            ]
        }
        let table = Self.table(
            "Effort that senders must spend; the bar is logarithmic",
            [.head("Required for"), .text("Effort"), .picture("Level")], rows)
        return Self.card("attack", "Proof of work", "<p>\(state)</p>\(table)", "half")
    }

    /// The fraction of the bar for an effort in expected hashes: logarithmic, from 2^12, which take a negligible time,
    /// to 2^26, which take about half a minute.
    private static func height(_ effort: UInt32) -> Double {
        let bits = UInt32.bitWidth - effort.leadingZeroBitCount
        return effort == 0 ? 0 : Double(min(max(bits - 12, 1), 14)) / 14
    }

    private var tor: HTML {
        guard let tor = snapshot.tor else {
            return Self.card("tor", "Tor", "<p>This node does not run its own tor.</p>", "half")
        }
        let isUp = tor.bootstrap >= 100
        let network: HTML =
            isUp
            ? Self.sign("good", "connected")
            : """
            \(Self.sign("warning", "connecting: \(tor.bootstrap) %")) \(Self.meter(Double(tor.bootstrap) / 100, "delivered"))
            """
        func published(_ isPublished: Bool) -> HTML {
            isPublished ? Self.sign("good", "published") : Self.sign("bad", "not published")
        }
        var rows: [[HTML]] = [
            ["Network", network], ["Onion service", published(tor.isPublished)],
            ["Address", "<code>\(tor.address ?? "none yet")</code>"],
        ]
        for onion in tor.onions {
            rows.append(["Onion \(onion.name)", "\(published(onion.isPublished))<br><code>\(onion.address)</code>"])
        }
        rows.append(["Restarts", "\(Format.count(tor.restarts))"])
        if let warning = tor.warning { rows.append(["Last warning", "\(warning)"]) }
        let table = Self.table("The tor process of the node", [.head("Property"), .text("State")], rows)
        return Self.card("tor", "Tor", table, "half")
    }

    private var credentials: HTML {
        let rows = snapshot.credentials.map { credential -> [HTML] in
            var end: HTML = Self.sign("good", "never")
            var left: HTML = ""
            if let expires = credential.expires {
                let seconds = expires - snapshot.now
                let grade = seconds <= 0 ? "bad" : seconds < Health.expiryNotice ? "warning" : "good"
                end = Self.sign(grade, Format.expiry(expires, at: snapshot.now))
                // A full bar is 13 months, for which Apple's certificates are valid.
                left = Self.meter(Double(seconds) / (395 * 86_400), grade == "good" ? "delivered" : "rejected")
            }
            return ["\(credential.app)", "\(credential.kind)<br><code>\(credential.file)</code>", end, left]
        }
        let table = Self.table(
            "Credentials for APNs and FCM",
            [.head("App"), .text("Credential"), .text("Expires"), .picture("Time left")], rows)
        return Self.card("credentials", "Credentials", table, "wide")
    }

    /// The upstream nodes; empty if there are none.
    private var upstreams: HTML {
        guard !snapshot.upstreams.isEmpty else { return "" }
        let rows = snapshot.upstreams.map { upstream -> [HTML] in
            let state: HTML =
                switch upstream.isReachable {
                case true?: Self.sign("good", "answers")
                case false?: Self.sign("bad", "unreachable: \(upstream.failure ?? "")")
                case nil: "not used yet"
                }
            return [
                "\(upstream.app)", "<code>\(upstream.node)</code>", state, "\(Format.count(upstream.connections))",
                "\(upstream.effort == 0 ? "none" : Format.count(Int(upstream.effort)))",
            ]
        }
        let table = Self.table(
            "Upstream nodes",
            [.head("App"), .text("Node"), .text("State"), .figure("Connections"), .figure("Proof of work")], rows)
        return Self.card("upstreams", "Upstream nodes", table, "wide")
    }

    /// The cluster; empty if the node belongs to none.
    private var cluster: HTML {
        guard let cluster = snapshot.cluster else { return "" }
        let time = Format.span(cluster.seconds)
        let state =
            switch (cluster.isAvailable, cluster.isSlow) {
            case (true, false): Self.sign("good", "engine available for \(time)")
            case (true, true): Self.sign("bad", "engine slow, available for \(time)")
            case (false, _): Self.sign("bad", "engine unavailable for \(time): \(cluster.problem ?? "")")
            }
        let rows = cluster.nodes.map { node -> [HTML] in
            [
                "\(node.name)",
                node.isAlive
                    ? Self.sign("good", "alive") : Self.sign("bad", "absent for \(Format.span(node.absence))"),
                "\(node.version)",
            ]
        }
        let table = Self.table(
            "Nodes that share their state; round trip to the engine \(cluster.roundTrip.map(Format.latency) ?? "unknown")",
            [.head("Node"), .text("State"), .text("Version")], rows, none: "No node is known yet.")
        return Self.card("cluster", "Cluster", "<p>\(state)</p>\(table)", "half")
    }

    /// The advice about settings; empty if there is none.
    private var setUp: HTML {
        let advice = snapshot.alarms.filter(\.isSetUp)
        guard !advice.isEmpty else { return "" }
        return Self.card("set-up", "Set-up", "<ul>\(advice.map { "<li>\($0.text)</li>" as HTML })</ul>", "wide")
    }

    /// Memory, disk and descriptors.
    private var machine: HTML {
        let rows = snapshot.machine.map { gauge -> [HTML] in
            func text(_ number: Int) -> String { gauge.isBytes ? Format.bytes(number) : Format.count(number) }
            return [
                "\(gauge.name)", "\(text(gauge.used))", "\(gauge.bound.map(text) ?? "no limit")",
                gauge.bound.map { Self.meter(Double(gauge.used) / Double(max(1, $0)), "delivered") } ?? "",
            ]
        }
        let table = Self.table(
            "What the node uses of the machine",
            [.head("What"), .figure("Used"), .figure("Of"), .picture("Relative")], rows, none: "Nothing is known.")
        return Self.card("machine", "Machine", table, "half")
    }

    /// The canary; empty if there is none.
    private var canary: HTML {
        guard let canary = snapshot.canary else { return "" }
        let state: HTML =
            switch canary.last {
            case let last?:
                last.isDelivered
                    ? Self.sign("good", "the phone was rung") : Self.sign("bad", "not rung: \(last.text)")
            case nil: "not tried yet"
            }
        let rows: [[HTML]] = [
            ["Last attempt", state],
            [
                canary.last == nil ? "Time without a success" : "Last success",
                "\(Format.span(max(0, snapshot.now - canary.lastSuccess)))\(canary.last == nil ? "" : " ago")",
            ],
            ["Every", "\(Format.span(Int64(canary.interval)))"],
        ]
        let table = Self.table("The operator's phone", [.head("Property"), .text("State")], rows)
        return Self.card("canary", "Canary", table, "half")
    }

    // MARK: Pieces

    private static func card(_ id: String, _ title: String, _ content: HTML, _ width: String) -> HTML {
        "<section id=\"\(id)\" class=\"\(width)\"><h2>\(title)</h2>\(content)</section>"
    }

    /// A column of a table, with its header.
    private enum Column {
        /// Contains the names of the rows.
        case head(String)
        case text(String)
        case figure(String)
        /// Only illustrates the column next to it; hidden on small screens.
        case picture(String)

        var header: HTML {
            switch self {
            case .head(let name), .text(let name), .figure(let name): "<th scope=\"col\">\(name)</th>"
            case .picture(let name): "<th scope=\"col\" class=\"picture\">\(name)</th>"
            }
        }

        func cell(_ content: HTML) -> HTML {
            switch self {
            // On a small screen each cell is a line that begins with the column's name.
            case .head: "<th scope=\"row\">\(content)</th>"
            case .text(let name): "<td data-name=\"\(name)\"><div>\(content)</div></td>"
            case .figure(let name): "<td class=\"figure\" data-name=\"\(name)\"><div>\(content)</div></td>"
            case .picture: "<td class=\"picture\">\(content)</td>"
            }
        }
    }

    /// A table with a caption and column headers.
    /// - Parameter none: replaces a table without rows.
    private static func table(_ caption: String, _ columns: [Column], _ rows: [[HTML]], none: String? = nil) -> HTML {
        if rows.isEmpty, let none { return "<p>\(none)</p>" }
        let lines = rows.map { row -> HTML in "<tr>\(zip(columns, row).map { $0.cell($1) })</tr>" }
        return """
            <div class="scroll"><table><caption>\(caption)</caption><thead><tr>\(columns.map(\.header))</tr></thead>\
            <tbody>\(lines)</tbody></table></div>
            """
    }

    /// A state as text, with a symbol and colour for its grade.
    private static func sign(_ grade: String, _ words: String) -> HTML {
        let shape: HTML =
            switch grade {
            case "good": #"<circle cx="6" cy="6" r="5"/>"#
            case "warning": #"<path d="M6 1l5.5 10h-11z"/>"#
            default: #"<rect x="1" y="1" width="10" height="10"/>"#
            }
        return """
            <span class="sign \(grade)"><svg viewBox="0 0 12 12" aria-hidden="true">\(shape)</svg>&nbsp;\(words)</span>
            """
    }

    /// A bar from 0 to 1. It only repeats the text next to it, so screen readers skip it.
    private static func meter(_ fraction: Double, _ kind: String) -> HTML {
        let filled = min(max(fraction, 0), 1) * 100
        return """
            <svg class="meter" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">\
            <rect class="empty" width="100" height="8"/><rect class="\(kind)" width="\(filled)" height="8"/></svg>
            """
    }

    private static func seconds(_ seconds: Double?) -> HTML { "\(seconds.map(Format.latency) ?? "–")" }

    private static let bell: HTML = """
        <svg class="bell" viewBox="0 0 24 24" aria-hidden="true"><path d="M12 3a6 6 0 0 0-6 6v4.5L4 17h16l-2-3.5V9\
        a6 6 0 0 0-6-6zM9.5 19a2.5 2.5 0 0 0 5 0z"/></svg>
        """
}
