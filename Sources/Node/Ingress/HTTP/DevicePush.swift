// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials
import TNP

/// Parses the body of `POST /v1/apns/device/…`, `/v1/fcm/device/…` and `/v1/handle/…`: `{"encrypted": "…", "isUrgent": true,
/// "isMutableContent": false}`; an absent flag is false.
enum DevicePush {
    private struct Body: Decodable {
        let encrypted: String
        let isUrgent: Bool?
        let isMutableContent: Bool?
    }

    /// - Throws: `Rejection` with a text that names the fault.
    static func parse(body: [UInt8], for phone: APIRequest.Phone) throws(Rejection) -> APIRequest {
        let push: Body
        do {
            push = try JSONDecoder().decode(Body.self, from: Data(body))
        } catch {
            throw Rejection(.malformed, problem(error, body))
        }
        return APIRequest(
            phone: phone, text: Array(push.encrypted.utf8),
            priority: push.isUrgent == true ? .immediate : .conservePower,
            mutableContent: push.isMutableContent ?? false)
    }

    /// Describes a decoding error; the decoder's own description could quote the body.
    private static func problem(_ error: any Error, _ body: [UInt8]) -> String {
        switch error {
        case _ where body.isEmpty: "the body is empty: it must be a JSON object with the key \"encrypted\""
        case DecodingError.keyNotFound, DecodingError.valueNotFound: "the body lacks the key \"encrypted\""
        case DecodingError.typeMismatch:
            "the body must be a JSON object: \"encrypted\" is a string, \"isUrgent\" and \"isMutableContent\" are booleans"
        default: "the body is not JSON"
        }
    }
}
