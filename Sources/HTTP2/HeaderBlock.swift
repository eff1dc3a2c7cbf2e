// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// Header fields in the order they were added, in one buffer. A block that is the same for all requests is made once;
/// a copy of it takes what differs.
package struct HeaderBlock: Sendable, Redacted {
    /// What HPACK may do with a field (RFC 7541 §6.2).
    package enum Indexing: Sendable {
        /// Goes into the peer's table: for values that come again.
        case allowed
        /// Only with the first request of a connection, so that the name is in the table; later values are literals.
        case firstOnly
        /// Never: for secrets and for values that never come again.
        case never
    }

    struct Field {
        let name: Range<Int>
        let value: Range<Int>
        let indexing: Indexing
    }

    package private(set) var bytes: [UInt8] = []
    private(set) var fields: [Field] = []

    /// A block without fields.
    package init() {}

    /// A block without fields that has room for so many, and for so many bytes of names and values.
    package init(bytes: Int, fields: Int) {
        self.bytes.reserveCapacity(bytes)
        self.fields.reserveCapacity(fields)
    }

    /// Appends a field; `name` is in lower case.
    package mutating func append(
        _ name: StaticString, _ value: some Collection<UInt8>, indexing: Indexing = .allowed
    ) {
        append(UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount), value, indexing: indexing)
    }

    /// Appends a field with a text as its value; `name` is in lower case.
    package mutating func append(_ name: StaticString, _ value: String, indexing: Indexing = .allowed) {
        append(name, value.utf8, indexing: indexing)
    }

    /// Appends a field whose value `write` appends to the buffer it is given.
    package mutating func append(_ name: StaticString, indexing: Indexing, writing write: (inout [UInt8]) -> Void) {
        let start = bytes.count
        bytes.append(contentsOf: UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
        let middle = bytes.count
        write(&bytes)
        fields.append(Field(name: start..<middle, value: middle..<bytes.count, indexing: indexing))
    }

    package mutating func append(
        _ name: UnsafeBufferPointer<UInt8>, _ value: some Collection<UInt8>, indexing: Indexing = .allowed
    ) {
        let start = bytes.count
        bytes.append(contentsOf: name)
        let middle = bytes.count
        bytes.append(contentsOf: value)
        fields.append(Field(name: start..<middle, value: middle..<bytes.count, indexing: indexing))
    }

    /// Appends a field whose name is only known at run time; it must be in lower case.
    package mutating func append(_ name: String, _ value: String) {
        Array(name.utf8).withUnsafeBufferPointer { append($0, value.utf8) }
    }

    /// Appends all fields of another block.
    package mutating func append(_ other: HeaderBlock) {
        let offset = bytes.count
        bytes += other.bytes
        for field in other.fields {
            fields.append(
                Field(
                    name: (field.name.lowerBound + offset)..<(field.name.upperBound + offset),
                    value: (field.value.lowerBound + offset)..<(field.value.upperBound + offset),
                    indexing: field.indexing))
        }
    }

    /// How many fields there are.
    package var count: Int { fields.count }

    /// The value of the first field of this name; nil where there is none.
    package subscript(name: StaticString) -> ArraySlice<UInt8>? {
        let wanted = UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        for field in fields where bytes[field.name].elementsEqual(wanted) { return bytes[field.value] }
        return nil
    }

    /// The value of the first field of this name as text; nil where there is none.
    package func text(_ name: StaticString) -> String? { self[name].map { String(decoding: $0, as: UTF8.self) } }

    /// Every field as text, for whoever checks them all.
    package var all: [(name: String, value: String)] {
        fields.map {
            (String(decoding: bytes[$0.name], as: UTF8.self), String(decoding: bytes[$0.value], as: UTF8.self))
        }
    }
}
