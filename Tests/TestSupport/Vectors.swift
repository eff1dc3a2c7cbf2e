// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Foundation

/// Test vectors that a second implementation (Tests/Conformance/vectors/tnp1.py) generates and checks as well. The properties have
/// the names of the JSON keys; byte strings are hexadecimal.
package struct Vectors: Decodable {
    /// A puzzle in a message.
    package struct PuzzleParts: Decodable {
        package let seed: String
        package let effort: UInt32
        package let lifetime: UInt32
    }
    /// A proof of work in a message.
    package struct ProofParts: Decodable {
        package let seed_prefix: String
        package let effort: UInt32
        package let nonce: String
    }
    /// A field with an unknown tag.
    package struct Field: Decodable {
        package let tag: UInt8
        package let value: String
    }
    /// An encoded message with its fields; `type` determines which fields are set.
    package struct MessageVector: Decodable {
        package let name: String
        package let type: String
        package let bytes: String
        package let lowest: UInt8?
        package let highest: UInt8?
        package let agent: String?
        package let version: UInt8?
        package let features: UInt16?
        package let max_frame: UInt32?
        package let max_in_flight: UInt16?
        package let idle_timeout: UInt32?
        package let server_time: String?
        package let puzzle: PuzzleParts?
        package let routes: [String]?
        package let request: UInt32?
        package let magic: String?
        package let device_token: String?
        package let iv: String?
        package let ciphertext: String?
        package let ttl: UInt32?
        package let priority: UInt8?
        package let sound: UInt8?
        package let collapse_id: String?
        package let accept_queued: UInt8?
        package let hops: UInt8?
        package let handle: String?
        package let owner: String?
        package let sender_keys: String?
        package let sequence: String?
        package let owner_signature: String?
        package let site_key: String?
        package let site_signature: String?
        package let site_name: String?
        package let app: String?
        package let proof: ProofParts?
        package let sender_key: String?
        package let signature: String?
        package let succession: String?
        package let unknown: [Field]?
        package let outcome: UInt8?
        package let reason: UInt16?
        package let retry_after: UInt32?
        package let provider_id: String?
        package let text: String?
        package let gone_since: String?
        package let left: UInt32?
        package let full_in: UInt32?
        package let opaque: String?
        package let seed: String?
        package let effort: UInt32?
        package let lifetime: UInt32?
        package let code: UInt16?
    }
    /// The digest of an envelope, and the ids derived from it.
    package struct DigestVector: Decodable {
        package let name: String
        package let app: String
        package let magic: String?
        package let device_token: String?
        package let handle: String?
        package let iv: String
        package let ciphertext: String
        package let digest: String
        package let apns_id: String
        package let collapse_id: String
    }
    /// A nonce for a puzzle, and whether its hash meets the effort (`holds`).
    package struct PuzzleVector: Decodable {
        package let name: String
        package let seed: String
        package let digest: String
        package let effort: UInt32
        package let nonce: String
        package let hash: String
        package let holds: Bool
    }
    /// A signature of a digest, and whether it is valid (`holds`).
    package struct SignatureVector: Decodable {
        package let name: String
        package let private_seed: String
        package let sender_key: String
        package let digest: String
        package let signature: String
        package let holds: Bool
    }
    /// A request of a handle's owner, the hash that the owner signs, and whether the signature is valid (`holds`).
    package struct HandleSignatureVector: Decodable {
        package let name: String
        package let type: String
        package let bytes: String
        package let private_seed: String
        package let onion: String
        package let owner: String
        package let hash: String
        package let holds: Bool
    }
    /// A field 0x82, and whether it names the sender key as the earlier one's successor (`holds`).
    package struct SuccessionVector: Decodable {
        package let name: String
        package let magic: String
        package let device_token: String
        package let earlier_private_seed: String
        package let sender_key: String
        package let succession: String
        package let holds: Bool
    }
    /// A device token, and whether a node accepts it (`valid`).
    package struct DeviceTokenVector: Decodable {
        package let name: String
        package let magic: String
        package let device_token: String
        package let valid: Bool
    }
    /// The sender key derived from a pairing key and a device token or handle.
    package struct SenderKeyVector: Decodable {
        package let name: String
        package let format: String
        package let key: String
        package let device_token: String?
        package let handle: String?
        package let private_seed: String
        package let sender_key: String
    }
    /// A plaintext with its sealed and its delivered form.
    package struct SealingVector: Decodable {
        package let name: String?
        package let format: String
        package let key: String
        package let iv: String
        package let plaintext: String
        package let ciphertext: String
        package let delivered: String
    }
    /// A plaintext with its encryption for a receiver of Web Push.
    package struct WebPushVector: Decodable {
        package let name: String
        package let p256dh: String
        package let auth: String
        package let sender_private_key: String
        package let salt: String
        package let plaintext: String
        package let ciphertext: String
    }
    /// The clear text of a notification, as Bisq 1's apps and apps of one's own read it.
    package struct NotificationVector: Decodable {
        package let name: String
        package let type: String
        package let title: String
        package let message: String
        package let tx_id: String
        package let action_required: String
        package let sent_date: Int64
        package let text: String
    }
    /// A submission that the node rejects with this reason.
    package struct RejectedVector: Decodable {
        package let name: String
        package let bytes: String
        package let format: String
        package let reason: UInt16
    }
    /// A frame that makes the reader close the connection with this GOAWAY code.
    package struct RefusedVector: Decodable {
        package let name: String
        package let bytes: String
        package let reader: String
        package let identified: Bool
        package let goaway: UInt16
    }

    /// Messages and their encoding.
    package let messages: [MessageVector]
    /// Envelope digests.
    package let digests: [DigestVector]
    /// Puzzles and nonces.
    package let puzzles: [PuzzleVector]
    /// Signatures of digests.
    package let signatures: [SignatureVector]
    /// Derived sender keys.
    package let sender_keys: [SenderKeyVector]
    /// Requests of handles' owners.
    package let handle_signatures: [HandleSignatureVector]
    /// Device tokens, valid and not.
    package let device_tokens: [DeviceTokenVector]
    /// New sender keys in place of earlier ones.
    package let successions: [SuccessionVector]
    /// Sealed plaintexts.
    package let sealing: [SealingVector]
    /// Plaintexts encrypted for Web Push.
    package let web_push: [WebPushVector]
    /// Clear texts of notifications.
    package let notifications: [NotificationVector]
    /// Submissions that the node rejects.
    package let rejected: [RejectedVector]
    /// Frames that close a connection.
    package let refused: [RefusedVector]

    /// The vector file.
    package static let file = Repository.file("Tests/Conformance/vectors/tnp1.json")
    /// Returns the frames that close a connection, for one reader: `node` or `sender`.
    package static func refused(by reader: String) -> [RefusedVector] { all.refused.filter { $0.reader == reader } }

    /// All vectors, read from ``file``.
    package static let all: Vectors = {
        do {
            return try JSONDecoder().decode(Vectors.self, from: Data(contentsOf: file))
        } catch {
            fatalError("cannot read the vectors: \(error)")
        }
    }()
}

/// Decodes hexadecimal text; empty if it is malformed.
package func hex(_ text: String) -> [UInt8] { Hex.decode(text) ?? [] }
