// SPDX-License-Identifier: Apache-2.0

import Sender
import TNP

/// A caller that waits for the outcome of its submission.
struct Waiter {
    /// What the caller gets.
    struct Answer {
        let outcome: Outcome
        /// The handle, in the answer to a request about one.
        let handle: Handle?
    }

    let continuation: CheckedContinuation<Answer, any Error>
    /// The submission while no node has it.
    var submission: PendingSubmission?
    /// The handle in the node's answer.
    var handle: Handle?
    /// What becomes of the submission.
    var routing: SubmissionRouting
}
