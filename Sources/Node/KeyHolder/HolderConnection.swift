// SPDX-License-Identifier: Apache-2.0

import Dispatch
import EventLoop
import Providers
import Settings

/// Lets the supervisor start key holders.
package final class SupervisedHolders: HolderSource {
    /// How long a key holder may take to start.
    private static let startTimeout = Duration.seconds(30)

    private let supervisor: Supervisor
    /// Waits for key holders to start.
    private let starting = DispatchQueue(label: "key holder's start")

    package init(_ supervisor: Supervisor) { self.supervisor = supervisor }

    package func startBlocking() throws(HolderProblem) -> any RunningHolder {
        do {
            return try Self.connection(through: try supervisor.startHolder())
        } catch {
            throw HolderProblem(error)
        }
    }

    package func start(
        on loop: EventLoop, _ result: @escaping @Sendable (Result<any RunningHolder, HolderProblem>) -> Void
    ) {
        let socket: LocalSocket
        do throws(LocalSocket.Failure) {
            socket = try supervisor.startHolder()
        } catch {
            return result(.failure(HolderProblem(error)))
        }
        starting.async {
            let holder = Result { () throws(LocalSocket.Failure) in try Self.connection(through: socket) }
            Task(executorPreference: loop) { result(holder.mapError { HolderProblem($0) }) }
        }
    }

    private static func connection(through socket: LocalSocket) throws(LocalSocket.Failure) -> any RunningHolder {
        let frame = try socket.receiveFrame(atMost: HolderRequest.maximumReport, within: startTimeout)
        return HolderConnection(socket, try HolderReport(json: frame))
    }
}

/// The connection to a key holder. A queue of its own waits for one answer after another.
final class HolderConnection: RunningHolder {
    let report: HolderReport
    private let socket: LocalSocket
    private let answerTimeout: Duration
    private let asking = DispatchQueue(label: "key holder")

    /// - Parameter answerTimeout: how long the key holder may take to answer.
    init(_ socket: LocalSocket, _ report: HolderReport, answerTimeout: Duration = .seconds(1)) {
        self.socket = socket
        self.report = report
        self.answerTimeout = answerTimeout
    }

    var hasEnded: Bool { socket.isClosed }

    func ask(
        _ request: HolderRequest, on loop: EventLoop,
        _ result: @escaping @Sendable (Result<[UInt8], HolderProblem>) -> Void
    ) {
        asking.async { [self] in
            let answer = answer(to: request)
            Task(executorPreference: loop) { result(answer) }
        }
    }

    func askBlocking(_ request: HolderRequest) -> Result<[UInt8], HolderProblem> {
        asking.sync { answer(to: request) }
    }

    /// Waits for the answer, and ends the connection if none comes: a late answer would be taken for that to the next request,
    /// and requests that wait for their turn would each wait as long.
    private func answer(to request: HolderRequest) -> Result<[UInt8], HolderProblem> {
        let answer = Result { () throws(LocalSocket.Failure) in
            try socket.sendFrame(request.json, within: answerTimeout)
            return try socket.receiveFrame(atMost: HolderRequest.maximumBytes, within: answerTimeout)
        }
        if case .failure = answer { socket.shutDown() }
        return answer.mapError { HolderProblem($0) }
    }
}

extension HolderProblem {
    fileprivate init(_ failure: LocalSocket.Failure) { self = failure == .timedOut ? .doesNotAnswer : .hasEnded }
}
