// SPDX-License-Identifier: Apache-2.0

import HTTP2

/// Who gets the result of an exchange with a push service.
enum Requester {
    /// Delivery, for the attempt with this number.
    case attempt(UInt64, any AttemptReceiver)
    /// A task that probes the push service.
    case probe(UnsafeContinuation<ProbeAnswer, Never>)

    /// Passes on the result.
    /// - Parameter response: the push service's response, if there was one.
    func finish(_ result: AttemptResult, _ response: Response? = nil) {
        switch self {
        case .attempt(let number, let receiver): receiver.attempted(number, result)
        case .probe(let continuation): continuation.resume(returning: ProbeAnswer(result, response))
        }
    }
}
