// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials
import HTTP2

/// The response of Google's token endpoint (RFC 6749 §5.1 and §5.2; Google, "Using OAuth 2.0 for Server to Server
/// Applications", "Error codes").
enum AccessTokenResponse: Equatable {
    /// The value of the `authorization` header, and how many seconds it is valid.
    case granted(header: [UInt8], lifetime: Int64)
    /// The endpoint issues no token, for this reason.
    case failed(FCMAccessToken.Failure)

    /// Seconds for which a token is used whose lifetime the endpoint does not name (RFC 6749 §5.1 makes that optional).
    private static let assumedLifetime: Int64 = 600
    private static let maximumLifetime: Int64 = 86_400
    /// The longest reason that is quoted, in characters.
    private static let maximumQuotationLength = 200

    /// The body of a grant.
    private struct Grant: Decodable {
        let token: String
        /// `nil` if there is none.
        let lifetime: Int64?

        private enum Key: String, CodingKey {
            case accessToken = "access_token"
            case tokenType = "token_type"
            case expiresIn = "expires_in"
        }

        init(from decoder: any Decoder) throws {
            let fields = try decoder.container(keyedBy: Key.self)
            token = try fields.decode(String.self, forKey: .accessToken)
            let type = try? fields.decode(String.self, forKey: .tokenType)
            guard !token.isEmpty, token.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }),
                type?.lowercased() ?? "bearer" == "bearer"
            else { throw DecodingError.dataCorruptedError(forKey: .accessToken, in: fields, debugDescription: "") }
            // Some endpoints send the number as a string.
            let number = try? fields.decode(Double.self, forKey: .expiresIn)
            let text = try? fields.decode(String.self, forKey: .expiresIn)
            lifetime = (number ?? text.flatMap(Double.init)).flatMap { Int64(exactly: $0.rounded(.down)) }
        }
    }

    /// The body of an error.
    private struct Refusal: Decodable {
        let error: String
        let error_description: String?
    }

    init(_ response: Response) {
        let body = Data(response.body)
        let refusal = try? JSONDecoder().decode(Refusal.self, from: body)
        switch response.status {
        case 200:
            guard let grant = try? JSONDecoder().decode(Grant.self, from: body) else {
                self = .failed(.unreachable(ForeignAnswer.text(response, inPlaceOf: "Google")))
                return
            }
            let lifetime = min(max(1, grant.lifetime ?? Self.assumedLifetime), Self.maximumLifetime)
            self = .granted(header: Array("Bearer \(grant.token)".utf8), lifetime: lifetime)
        case 400, 401, 403, 404:
            guard let refusal else {
                self = .failed(.unreachable(ForeignAnswer.text(response, inPlaceOf: "Google")))
                return
            }
            self = .failed(.refused(Self.text(of: refusal)))
        case 300..<400:
            self = .failed(
                .unreachable("the token endpoint answers with a redirect (\(response.status)): is token_uri correct?"))
        default:
            let text =
                response.status >= 500 || refusal != nil
                ? "the token endpoint answers \(response.status)"
                : ForeignAnswer.text(response, inPlaceOf: "Google")
            self = .failed(.unreachable(text))
        }
    }

    /// What Google says, and what to do about it.
    private static func text(of refusal: Refusal) -> String {
        let description = printable(refusal.error_description ?? "")
        let quotation = "\(printable(refusal.error))\(description.isEmpty ? "" : ": \(description)")"
        return advice(refusal.error, description.lowercased()).map { "\(quotation). \($0)" } ?? quotation
    }

    /// The remedy for an error. Google has few error codes: the description says what is wrong.
    private static func advice(_ error: String, _ description: String) -> String? {
        if description.contains("timeframe") || description.contains("iat") || description.contains("exp ") {
            return "This machine's clock is wrong: correct it, e.g. with timedatectl set-ntp true"
        }
        if description.contains("signature") {
            return "Google does not have this key any more: make a new one in the Google Cloud console under IAM, "
                + "Service accounts, Keys"
        }
        if description.contains("account not found") || description.contains("deleted") {
            return "The service account was deleted: make another one in the Firebase console"
        }
        if description.contains("disabled") || error == "disabled_client" || error == "account_disabled" {
            return "The service account is disabled: enable it in the Google Cloud console under IAM, Service accounts"
        }
        switch error {
        case "invalid_scope", "unauthorized_client":
            return "The service account may not use Firebase Cloud Messaging: enable its API for the project"
        case "invalid_grant", "invalid_client":
            return "Check the service account's key in the Google Cloud console under IAM, Service accounts, Keys"
        default: return nil
        }
    }

    private static func printable(_ text: String) -> String {
        String(decoding: text.utf8.filter { (0x20...0x7E).contains($0) }.prefix(maximumQuotationLength), as: UTF8.self)
    }
}
