// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Foundation

/// The vectors that a second implementation (Tests/Vectors/tnp1.py) made and checks as well.
struct Vectors: Decodable {
    struct PuzzleParts: Decodable {
        let seed: String
        let effort: UInt32
        let lifetime: UInt32
    }
    struct ProofParts: Decodable {
        let seed_prefix: String
        let effort: UInt32
        let nonce: String
    }
    struct Field: Decodable {
        let tag: UInt8
        let value: String
    }
    struct MessageVector: Decodable {
        let name: String
        let type: String
        let bytes: String
        let lowest: UInt8?
        let highest: UInt8?
        let agent: String?
        let version: UInt8?
        let features: UInt16?
        let max_frame: UInt32?
        let max_in_flight: UInt16?
        let idle_timeout: UInt32?
        let server_time: String?
        let puzzle: PuzzleParts?
        let routes: [String]?
        let request: UInt32?
        let magic: String?
        let device_token: String?
        let iv: String?
        let ciphertext: String?
        let ttl: UInt32?
        let priority: UInt8?
        let sound: UInt8?
        let collapse_id: String?
        let accept_queued: UInt8?
        let app: String?
        let proof: ProofParts?
        let sender_key: String?
        let signature: String?
        let unknown: [Field]?
        let outcome: UInt8?
        let reason: UInt16?
        let retry_after: UInt32?
        let provider_id: String?
        let text: String?
        let gone_since: String?
        let left: UInt32?
        let full_in: UInt32?
        let opaque: String?
        let seed: String?
        let effort: UInt32?
        let lifetime: UInt32?
        let code: UInt16?
    }
    struct DigestVector: Decodable {
        let name: String
        let app: String
        let magic: String
        let device_token: String
        let iv: String
        let ciphertext: String
        let digest: String
        let apns_id: String
        let collapse_id: String
    }
    struct PuzzleVector: Decodable {
        let name: String
        let seed: String
        let digest: String
        let effort: UInt32
        let nonce: String
        let hash: String
        let holds: Bool
    }
    struct SignatureVector: Decodable {
        let name: String
        let private_seed: String
        let sender_key: String
        let digest: String
        let signature: String
        let holds: Bool
    }
    struct SenderKeyVector: Decodable {
        let name: String
        let format: String
        let key: String
        let device_token: String
        let private_seed: String
        let sender_key: String
    }
    struct SealingVector: Decodable {
        let name: String?
        let format: String
        let key: String
        let iv: String
        let plaintext: String
        let ciphertext: String
        let delivered: String
    }
    struct RejectedVector: Decodable {
        let name: String
        let bytes: String
        let format: String
        let reason: UInt16
    }
    struct RefusedVector: Decodable {
        let name: String
        let bytes: String
        let reader: String
        let identified: Bool
        let goaway: UInt16
    }

    let messages: [MessageVector]
    let digests: [DigestVector]
    let puzzles: [PuzzleVector]
    let signatures: [SignatureVector]
    let sender_keys: [SenderKeyVector]
    let sealing: [SealingVector]
    let rejected: [RejectedVector]
    let refused: [RefusedVector]

    static let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Vectors/tnp1.json")
    static let all: Vectors = {
        do {
            return try JSONDecoder().decode(Vectors.self, from: Data(contentsOf: file))
        } catch {
            fatalError("the vectors cannot be read: \(error)")
        }
    }()
}

func hex(_ text: String) -> [UInt8] { Hex.decode(text) ?? [] }
