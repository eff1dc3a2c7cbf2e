// SPDX-License-Identifier: Apache-2.0

import HTTP2

/// An answer that does not have the form of the push service's answers: something between the node and the push service has
/// answered, such as a filter, a captive portal, or a page that Google shows to addresses it suspects. It says nothing about
/// a notification or a device token.
package enum ForeignAnswer {
    /// The name in logs and metrics.
    package static let answer = "foreign-answer"

    /// The result of an attempt with such an answer.
    /// - Parameter service: the push service's name in the text.
    static func attemptResult(on response: Response, inPlaceOf service: String) -> AttemptResult {
        var result = Disposition.unavailable(seconds: 60, minimum: 5).attemptResult(
            answer: answer, retryAfter: retryAfter(response.headers))
        result.detail = text(response, inPlaceOf: service)
        return result
    }

    /// Describes the answer for the operator, without quoting its body.
    static func text(_ response: Response, inPlaceOf service: String) -> String {
        let form =
            switch response.body.first {
            case nil: "without content"
            case UInt8(ascii: "<"): "with HTML"
            default: "with content"
            }
        return """
            status \(response.status) \(form) that \(service) does not send: something between the node and \(service) \
            answers, such as a proxy or a filter
            """
    }
}
