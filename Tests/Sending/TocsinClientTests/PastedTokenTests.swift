// SPDX-License-Identifier: Apache-2.0

import Foundation
import TNP
import TestSupport
import Testing

@testable import TocsinClient

/// Pairing tokens that mail programs, editors and web pages have changed; the other clients read the same vectors.
@Suite(.tags(.computing)) struct PastedTokenTests {
    struct Vector: Decodable, Sendable {
        let name: String
        let text: String
        let token: String?
        let refused: String?
    }

    static let vectors: [Vector] = {
        let file = Repository.file("Tests/Conformance/vectors/pasted.json")
        do { return try JSONDecoder().decode([Vector].self, from: Data(contentsOf: file)) } catch {
            fatalError("\(error)")
        }
    }()

    @Test(arguments: vectors.indices)
    func `what is unambiguous is undone, and the rest is named`(_ index: Int) throws {
        let vector = Self.vectors[index]
        do throws(PairingToken.FormatError) {
            #expect(try PastedToken.read(vector.text).text == vector.token, "\(vector.name)")
            #expect(PairingReview(vector.text).isAcceptedByTocsin, "\(vector.name)")
        } catch {
            let says = try #require(vector.refused, "\(vector.name): \(error)")
            #expect(error.description.contains(says), "\(vector.name)")
            #expect(!PairingReview(vector.text).isAcceptedByTocsin, "\(vector.name)")
        }
    }

    @Test func `a review shows the parts as the phone wrote them, and that other apps do not undo damage`() throws {
        let vector = try #require(Self.vectors.first { $0.name == "quoted-printable with bars" })
        let review = PairingReview(vector.text)
        #expect(review.parts.allSatisfy { $0.fault == nil })
        #expect(review.hints.last?.hasPrefix("Tocsin undoes what mail programs") == true)
        #expect(review.compatibilities.filter(\.isAccepted).map(\.app) == [.tocsin])
    }
}
