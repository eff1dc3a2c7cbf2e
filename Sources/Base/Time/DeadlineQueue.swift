// SPDX-License-Identifier: Apache-2.0

import DequeModule

/// Elements that all have the same time limit, and so reach their deadlines in the order in which they were added.
package struct DeadlineQueue<Element> {
    private let limit: Duration
    private var elements: Deque<(element: Element, deadline: MonotonicTime)> = []

    /// - Parameter limit: from an element's addition to its deadline.
    package init(limit: Duration) { self.limit = limit }

    /// The earliest deadline; `nil` if there is no element.
    package var next: MonotonicTime? { elements.first?.deadline }

    /// Adds an element.
    package mutating func append(_ element: Element, now: MonotonicTime) { elements.append((element, now + limit)) }

    /// Removes and returns the first element if its deadline has passed.
    package mutating func popOverdue(now: MonotonicTime) -> Element? {
        guard let first = elements.first, first.deadline <= now else { return nil }
        elements.removeFirst()
        return first.element
    }
}
