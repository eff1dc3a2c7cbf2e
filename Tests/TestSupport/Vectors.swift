// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Foundation

/// The vectors that a second implementation (Tests/Vectors/tnp1.py) made and checks as well.
package struct Vectors: Decodable {
    package struct PuzzleParts: Decodable {
        package let seed: String
        package let effort: UInt32
        package let lifetime: UInt32
    }
    package struct ProofParts: Decodable {
        package let seed_prefix: String
        package let effort: UInt32
        package let nonce: String
    }
    package struct Field: Decodable {
        package let tag: UInt8
        package let value: String
    }
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
        package let app: String?
        package let proof: ProofParts?
        package let sender_key: String?
        package let signature: String?
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
    package struct DigestVector: Decodable {
        package let name: String
        package let app: String
        package let magic: String
        package let device_token: String
        package let iv: String
        package let ciphertext: String
        package let digest: String
        package let apns_id: String
        package let collapse_id: String
    }
    package struct PuzzleVector: Decodable {
        package let name: String
        package let seed: String
        package let digest: String
        package let effort: UInt32
        package let nonce: String
        package let hash: String
        package let holds: Bool
    }
    package struct SignatureVector: Decodable {
        package let name: String
        package let private_seed: String
        package let sender_key: String
        package let digest: String
        package let signature: String
        package let holds: Bool
    }
    package struct SenderKeyVector: Decodable {
        package let name: String
        package let format: String
        package let key: String
        package let device_token: String
        package let private_seed: String
        package let sender_key: String
    }
    package struct SealingVector: Decodable {
        package let name: String?
        package let format: String
        package let key: String
        package let iv: String
        package let plaintext: String
        package let ciphertext: String
        package let delivered: String
    }
    package struct RejectedVector: Decodable {
        package let name: String
        package let bytes: String
        package let format: String
        package let reason: UInt16
    }
    package struct RefusedVector: Decodable {
        package let name: String
        package let bytes: String
        package let reader: String
        package let identified: Bool
        package let goaway: UInt16
    }

    package let messages: [MessageVector]
    package let digests: [DigestVector]
    package let puzzles: [PuzzleVector]
    package let signatures: [SignatureVector]
    package let sender_keys: [SenderKeyVector]
    package let sealing: [SealingVector]
    package let rejected: [RejectedVector]
    package let refused: [RefusedVector]

    package static let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Vectors/tnp1.json")
    /// Frames that end a connection, by who reads them: `node` or `sender`.
    package static func refused(by reader: String) -> [RefusedVector] { all.refused.filter { $0.reader == reader } }

    package static let all: Vectors = {
        do {
            return try JSONDecoder().decode(Vectors.self, from: Data(contentsOf: file))
        } catch {
            fatalError("the vectors cannot be read: \(error)")
        }
    }()
}

/// The bytes of hexadecimal text; none where it is not hexadecimal.
package func hex(_ text: String) -> [UInt8] { Hex.decode(text) ?? [] }
