// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// What a sender sends to a node, with a request number that the node's answer repeats.
package enum SenderRequest: Sendable {
    /// SUBMIT, answered by RESULT.
    case submission(Submission)
    /// REGISTER, ROTATE or FORGET, answered by REGISTERED.
    case handle(HandleRequest)

    var number: UInt32 {
        get {
            switch self {
            case .submission(let submission): submission.request
            case .handle(let request): request.request
            }
        }
        set {
            switch self {
            case .submission(var submission):
                submission.request = newValue
                self = .submission(submission)
            case .handle(var request):
                request.request = newValue
                self = .handle(request)
            }
        }
    }

    /// The proof of work; `nil` if there is none.
    var proof: Proof? {
        get {
            switch self {
            case .submission(let submission): submission.proof
            case .handle(let request): request.proof
            }
        }
        set {
            switch self {
            case .submission(var submission):
                submission.proof = newValue
                self = .submission(submission)
            case .handle(var request):
                request.proof = newValue
                self = .handle(request)
            }
        }
    }

    /// The hash that a proof of work covers.
    var digest: Digest256 {
        switch self {
        case .submission(let submission): submission.envelope.digest
        case .handle(let request): request.hash
        }
    }

    /// Whether this is the request of a handle's owner. It waits for WELCOME, which says whether the node keeps handles.
    var isAboutHandle: Bool { if case .handle = self { true } else { false } }

    /// Whether the node may require a proof of work: not for ROTATE and FORGET.
    var mayNeedProof: Bool {
        guard case .handle(let request) = self else { return true }
        if case .register = request.action { return true }
        return false
    }

    /// Appends the frame.
    func append(to output: inout [UInt8]) {
        switch self {
        case .submission(let submission): output.append(submission)
        case .handle(let request): output.append(request)
        }
    }
}
