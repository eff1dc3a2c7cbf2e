// SPDX-License-Identifier: Apache-2.0

import HTTP2
import TestSupport
import Testing

@testable import Providers

@Suite(.tags(.computing)) struct AccessTokenResponseTests {
    private func grant(_ body: String, status: Int = 200) -> AccessTokenResponse {
        AccessTokenResponse(Response(status: status, body: Array(body.utf8)))
    }

    @Test(arguments: [
        ("\"expires_in\":3599", 3599), ("\"expires_in\":\"3599\"", 3599), ("\"expires_in\":3599.7", 3599),
        ("\"expires_in\":1e300", 600), ("\"expires_in\":\"soon\"", 600), ("\"expires_in\":null", 600),
        ("\"scope\":\"x\"", 600), ("\"expires_in\":0", 1), ("\"expires_in\":-5", 1), ("\"expires_in\":999999", 86_400),
        ("\"token_type\":\"bearer\"", 600),
    ])
    func `a token is used for as long as the endpoint says, within bounds`(field: String, lifetime: Int64) {
        let expected = AccessTokenResponse.granted(header: Array("Bearer ya29.a0".utf8), lifetime: lifetime)
        #expect(grant("{\"access_token\":\"ya29.a0\",\(field)}") == expected)
    }

    @Test(arguments: [
        "", "<!DOCTYPE html><title>Sorry</title>", "{}", "[]", "{\"access_token\":\"\"}", "{\"access_token\":\"a b\"}",
        "{\"access_token\":\"a\\r\\nb: c\"}", "{\"access_token\":7}", "{\"access_token\":\"a\",\"token_type\":\"mac\"}",
    ])
    func `whatever is no token is named as what it is`(_ body: String) {
        guard case .failed(.unreachable(let text)) = grant(body) else {
            Issue.record("a token")
            return
        }
        #expect(text.contains("between the node and Google") && text.contains("HTML") == body.hasPrefix("<"))
    }

    @Test(arguments: [
        ("invalid_grant", "Invalid JWT Signature.", "does not have this key any more"),
        (
            "invalid_grant",
            "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your iat and exp values in the JWT claim.",
            "clock is wrong"
        ),
        ("invalid_grant", "Invalid grant: account not found", "was deleted"),
        ("invalid_grant", "The account has been deleted", "was deleted"),
        ("disabled_client", "The OAuth client was disabled.", "is disabled"),
        ("unauthorized_client", "Client is unauthorized to retrieve access tokens using this method", "enable its API"),
        ("invalid_grant", "", "Check the service account's key"),
        ("something_new", "what is this", "something_new: what is this"),
    ])
    func `a refusal quotes Google's reason and says what to do`(error: String, description: String, advice: String) {
        let body = "{\"error\":\"\(error)\",\"error_description\":\"\(description)\"}"
        for status in [400, 401, 403] {
            guard case .failed(.refused(let text)) = grant(body, status: status) else {
                Issue.record("not refused")
                return
            }
            #expect(text.hasPrefix(error) && text.contains(description) && text.contains(advice), "\(text)")
        }
    }

    @Test func `a refusal that is not Google's, a redirect and a failing endpoint are no fault of the account`() {
        for (body, status, text) in [
            ("<html>blocked</html>", 403, "with HTML"), ("", 404, "between the node and Google"), ("", 302, "redirect"),
            ("", 503, "answers 503"), ("{\"error\":\"rate_limit_exceeded\"}", 429, "answers 429"),
            ("<html>", 429, "between the node and Google"),
        ] {
            guard case .failed(.unreachable(let found)) = grant(body, status: status) else {
                Issue.record("\(status)")
                continue
            }
            #expect(found.contains(text), "\(status): \(found)")
        }
    }

    @Test func `a quotation is short and printable`() {
        let body = "{\"error\":\"a\\u001b[31m\\n\",\"error_description\":\"\(String(repeating: "x", count: 5000))\"}"
        guard case .failed(.refused(let text)) = grant(body, status: 400) else {
            Issue.record("not refused")
            return
        }
        #expect(text.utf8.count < 300 && text.utf8.allSatisfy { (0x20...0x7E).contains($0) })
    }
}
