// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Sender
import TNP
import Time

/// Connects to nodes and performs the actions of their sessions.
extension TocsinClient {
    /// The silence of a node that owes an answer after which the client sends PING.
    private static let pingAfter = Duration.seconds(20)
    /// The silence of such a node after which the client gives up the connection.
    private static let silenceLimit = Duration.seconds(40)
    /// How long an idle connection stays open; less if the node's idle timeout is short.
    private static let idleTime = Duration.seconds(60)
    /// The largest number of searches for proofs at a time, so that the machine keeps processors for other work.
    private static let maximumSearches = 2
    /// The bytes of unsent output above which the client does not answer PING.
    private static let maximumUnsent = 1024 * 1024

    // MARK: Connecting

    /// Connects if there is a reason to and nothing speaks against it; then flushes.
    func wake(_ link: Link) {
        let now = MonotonicTime.now
        if link.node.revive(now: now) { assignWaiting(link.channel) }
        if link.wire == nil, link.dial == nil, !isClosed {
            if link.node.state == .unused, !link.session.isEmpty {
                dial(link, after: .zero)
            } else if link.node.state == .down, link.channel.isActive {
                dial(link, after: max(.zero, link.node.retryAt - now))
            }
        }
        flush(link)
    }

    private func dial(_ link: Link, after pause: Duration) {
        if link.node.state == .unused { link.node.state = .connecting }
        let (id, node, timeout) = (link.id, options.nodes[link.index], options.connectTimeout)
        let proxy: Proxy? =
            if case .socks5(let endpoint, _) = options.proxy {
                .socks5(endpoint, link.channel.credentials)
            } else {
                options.proxy
            }
        link.dial = Task {
            if pause > .zero { await loop.sleep(for: pause) }
            guard !isClosed, !Task.isCancelled, let link = links[id] else { return }
            guard link.channel.isActive else {
                link.dial = nil
                if link.node.state == .connecting { link.node.state = .unused }
                return
            }
            progress?(.connecting(node))
            do throws(StreamError) {
                connected(id, try await loop.dial(node, through: proxy, timeout: timeout))
            } catch {
                let failure: ClientError =
                    if case .proxyUnreachable(let endpoint, let reason) = error {
                        .proxyUnreachable(endpoint, reason)
                    } else {
                        .unreachable(error.description)
                    }
                guard let link = links[id] else { return }
                link.dial = nil
                fail(link, failure)
            }
        }
    }

    private func connected(_ id: Int, _ stream: ByteStream) {
        guard let link = links[id] else { return stream.close() }
        let wire = Wire(stream, link: id, client: self)
        link.dial = nil
        link.wire = wire
        link.leaving = nil
        link.hasPinged = false
        link.idleSince = nil
        link.node.state = .connected
        link.connectedAt = .now
        link.lastFrame = .now
        progress?(.connected)
        wire.send(link.session.connected(agent: options.agent))
        assignWaiting(link.channel)
        flush(link)
        wire.start()
    }

    /// Marks a node as down. Its submissions move to other nodes, and it is tried again later.
    private func fail(_ link: Link, _ failure: ClientError, atLeast minimum: Duration = .zero) {
        link.failure = failure
        link.node.state = .down
        pause(link, atLeast: minimum)
        move(link.session.requests, from: link)
        wake(link)
    }

    @discardableResult
    private func pause(_ link: Link, atLeast minimum: Duration = .zero) -> Duration {
        let pause = link.node.failed(now: .now, random: Double.random(in: 0..<1), atLeast: minimum)
        progress?(.retrying(reason: link.failure?.reason ?? "", after: pause))
        return pause
    }

    // MARK: Connected

    func received(_ bytes: [UInt8], from id: Int) {
        guard let link = links[id] else { return }
        var actions: [SenderSession.Action] = []
        var fault: ProtocolError?
        do throws(ProtocolError) {
            if try link.session.received(bytes.span.bytes, &actions) {
                link.lastFrame = .now
                link.hasPinged = false
            }
        } catch {
            fault = error
        }
        for action in actions { perform(action, link) }
        if let fault {
            refuse(link, GoAway(code: .protocolError, text: "the node does not speak TNP (\(fault))"))
        } else {
            flush(link)
        }
    }

    /// Handles the end of a connection. After a GOAWAY, the node is down; else the client connects to it again, because
    /// it may know the submissions in flight already.
    func ended(_ reason: String, _ id: Int) {
        guard let link = links[id], link.wire != nil else { return }
        let isProved = link.session.welcome != nil && !link.node.isUnreliable
        disconnect(link)
        if let leaving = link.leaving, leaving.code != .idle {
            let text = leaving.text.isEmpty ? "the node sent GOAWAY" : leaving.text
            fail(link, .unreachable(text), atLeast: .milliseconds(Int64(leaving.retryAfter)))
        } else if isProved {
            reconnect(link, reason)
        } else {
            fail(link, .unreachable(reason))
        }
    }

    private func reconnect(_ link: Link, _ reason: String) {
        link.failure = .unreachable(reason)
        link.node.state = .unused
        guard !link.session.isEmpty else { return }
        dial(link, after: pause(link))
    }

    func disconnect(_ link: Link) {
        link.wire?.close()
        link.wire = nil
        link.session.disconnected()
    }

    /// Ends the connection for good.
    private func refuse(_ link: Link, _ goAway: GoAway) {
        disconnect(link)
        link.dial?.cancel()
        link.dial = nil
        link.failure = .connectionClosed(goAway)
        link.node.refused(now: .now, atLeast: .milliseconds(Int64(goAway.retryAfter)))
        move(link.session.requests, from: link)
    }

    /// Performs what is due in the session.
    func flush(_ link: Link) {
        for action in link.session.flush(now: .now) { perform(action, link) }
        if link.wire != nil, link.session.isBlockedByAbandoned {
            disconnect(link)
            reconnect(link, "abandoned submissions occupy all slots")
        }
    }

    private func perform(_ action: SenderSession.Action, _ link: Link) {
        switch action {
        case .welcomed(let welcome):
            progress?(.welcomed(welcome))
        case .result(let result):
            link.node.answered()
            answered(result, by: link)
        case .goAway(let goAway, let isFatal):
            guard link.wire != nil else { return }
            isFatal ? refuse(link, goAway) : leave(link, goAway)
        case .send(let bytes): link.wire?.send(bytes)
        case .pong(let bytes):
            // A node that sends PING but does not read gets no answer.
            if let wire = link.wire, wire.unsent < Self.maximumUnsent { wire.send(bytes) }
        case .solve(let request, let digest, let puzzle, let deadline):
            progress?(.solvingPuzzle(effort: puzzle.effort))
            solve(request, digest, puzzle, until: deadline, for: link)
        case .stopSolving(let request): link.searches.removeValue(forKey: request)?.cancel()
        }
    }

    private func leave(_ link: Link, _ goAway: GoAway) {
        link.leaving = goAway
        if goAway.code == .idle {
            // The node works: submissions it has not accepted wait for the next connection.
            link.node.state = .connecting
        } else {
            link.node.state = .down
            move(link.session.waiting, from: link)
        }
        if !goAway.code.answersInFlight || !link.session.isInFlight { ended("", link.id) }
    }

    // MARK: Proof of work

    private func solve(
        _ request: UInt32, _ digest: Digest256, _ puzzle: Puzzle, until deadline: MonotonicTime, for link: Link
    ) {
        let id = link.id
        let limit = deadline - .now
        link.searches[request] = Task(priority: .utility) {
            await startSearch()
            defer { endSearch() }
            guard !Task.isCancelled else { return }
            // The search may have waited: its time begins now.
            let deadline = MonotonicTime.now + limit
            let proof = await puzzle.proof(for: digest, until: deadline, from: UInt64.random(in: 0...UInt64.max))
            // Ignore a cancelled search: another may be running for the same request.
            guard !Task.isCancelled, let link = links[id] else { return }
            link.searches[request] = nil
            if let proof {
                link.session.solved(request, proof, now: .now)
            } else {
                for action in link.session.searchEnded(request) { perform(action, link) }
            }
            flush(link)
        }
    }

    /// Waits until fewer than ``maximumSearches`` searches run in this client.
    private func startSearch() async {
        while searchCount >= Self.maximumSearches {
            await withCheckedContinuation {
                if searchCount < Self.maximumSearches { $0.resume() } else { waitingSearches.append($0) }
            }
        }
        searchCount += 1
    }

    private func endSearch() {
        searchCount -= 1
        if !waitingSearches.isEmpty { waitingSearches.removeFirst().resume() }
    }

    // MARK: Time

    /// Watches for silence and idleness.
    func watch(_ link: Link, now: MonotonicTime) {
        guard let wire = link.wire else { return wake(link) }
        let session = link.session
        if link.leaving != nil, !session.isInFlight {
            ended("", link.id)
        } else if session.isInFlight || session.welcome == nil || link.leaving != nil {
            link.idleSince = nil
            if now - link.lastFrame >= Self.silenceLimit {
                ended("the node stopped responding", link.id)
            } else if now - link.lastFrame >= Self.pingAfter, !link.hasPinged, session.welcome != nil {
                link.hasPinged = true
                var ping: [UInt8] = []
                ping.append(ping: SecureRandom.bytes(8)[...])
                wire.send(ping)
            }
        } else if session.isEmpty {
            let since = link.idleSince ?? now
            link.idleSince = since
            link.lastFrame = now
            let limit = Duration.milliseconds(Int64(session.welcome?.idleTimeout ?? 0) * 750)
            if now - since >= min(Self.idleTime, limit) {
                disconnect(link)
                link.node.state = .unused
            }
        } else {
            link.idleSince = nil
            // A node that owes nothing may be silent.
            link.lastFrame = now
        }
    }
}
