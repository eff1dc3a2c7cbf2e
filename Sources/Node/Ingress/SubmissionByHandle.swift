// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// A submission to a phone that the sender knows by its handle. The node looks the handle up before it checks the other
/// fields, because their rules depend on the phone's app.
package struct SubmissionByHandle: Redacted {
    /// What the sender has sent, by the protocol of its endpoint.
    enum Content {
        case tnp(SubmissionFields)
        case http(APIRequest)
    }

    /// The request number on the sender's connection.
    package let request: UInt32
    /// The handle of the phone.
    package let handle: Handle
    private let content: Content

    init(request: UInt32, handle: Handle, _ content: Content) {
        self.request = request
        self.handle = handle
        self.content = content
    }

    /// The submission as if the sender had named the device token, but with the digest of one by handle.
    /// - Parameters:
    ///   - phone: what stands behind the handle.
    ///   - app: the app of the phone.
    /// - Throws: `Rejection` with the first rule that a field breaks.
    package func resolved(
        to phone: HandleRequest.Registration, of app: (name: String, format: EnvelopeFormat)
    ) throws(Rejection) -> Submission {
        switch content {
        case .tnp(let fields):
            guard fields.app.isEmpty || fields.app.elementsEqual(app.name.utf8) else {
                throw Rejection(.unknownApp, "the handle is for another app")
            }
            return try fields.checked(format: app.format, phone: (phone.magic, phone.deviceToken))
        case .http(let request):
            let text = try SealedText(request.text)
            guard (text.magic == nil) == (app.format == .sealed) else {
                throw Rejection(.unknownApp, "the encrypted text does not have the form that the handle's app requires")
            }
            let envelope = try request.envelope(
                of: text, app: app, magic: phone.magic, deviceToken: phone.deviceToken[...], handle: handle)
            return Submission(request: self.request, envelope: envelope, acceptQueued: true)
        }
    }
}
