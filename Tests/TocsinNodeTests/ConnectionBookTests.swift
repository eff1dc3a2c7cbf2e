import Testing

@testable import TocsinNode

@Suite struct ConnectionBookTests {
    private func makeBook(_ numbers: ClosedRange<UInt64>) -> ConnectionBook {
        var book = ConnectionBook()
        for number in numbers { book.came(number) }
        return book
    }

    @Test func `the oldest without HELLO goes, and each is told once`() {
        var book = makeBook(1...5)
        book.greeted(1)
        book.ended(2)
        #expect(book.halfOpen == 3)
        #expect(book.strangerToGo(most: 3) == nil)
        #expect(book.strangerToGo(most: 2) == 3)
        #expect(book.strangerToGo(most: 2) == nil)
        #expect(book.halfOpen == 2)
        book.ended(3)
        #expect(book.halfOpen == 2)
    }

    @Test func `of the quiet ones that goes which never had a phone rung, and else the oldest`() {
        var book = makeBook(1...6)
        let uses: [UInt64: ConnectionBook.Use] = [1: .busy, 2: .served, 3: .served, 4: .unused, 5: .unused, 6: .busy]
        #expect(book.oneToSpare { uses[$0] ?? .busy } == 4)
        book.ended(4)
        #expect(book.oneToSpare { uses[$0] ?? .busy } == 5)
        book.ended(5)
        let last = book.oneToSpare { uses[$0] ?? .busy }
        #expect(last == 2 || last == 3)
        #expect(book.oneToSpare { _ in .busy } == nil)
    }

    @Test func `no more than a few are looked at`() {
        var book = makeBook(1...1000)
        var seen: [UInt64] = []
        for _ in 0..<2 {
            #expect(
                book.oneToSpare {
                    seen.append($0)
                    return .busy
                } == nil)
        }
        // Those that were spared have gone to the end of the line.
        #expect(seen == Array(1...UInt64(2 * ConnectionBook.looked)))
    }

    @Test func `who comes and goes leaves nothing behind, though one is silent at the front`() {
        var book = makeBook(1...1)
        for number in 2...10_000 as ClosedRange<UInt64> {
            book.came(number)
            if number.isMultiple(of: 2) { book.greeted(number) }
            book.ended(number)
        }
        #expect(book.halfOpen == 1)
        let lists = Mirror(reflecting: book).children.compactMap { $0.value as? any Collection }
        #expect(lists.count == 4)
        for list in lists { #expect(list.count <= 70) }
    }
}
