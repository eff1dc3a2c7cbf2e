// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// Header fields in the order they were added, in one buffer. Build one block with the fields that all requests share as
/// a template; each request starts with it.
package struct HeaderBlock: Sendable, Redacted {
    /// How HPACK encodes a field (RFC 7541 §6.2).
    package enum Indexing: Sendable {
        /// The dynamic table may take it: for values that repeat.
        case allowed
        /// Added only with the first request of a connection, so that the name is in the table; later values are
        /// literals.
        case firstOnly
        /// Never added: for secrets and for values that do not repeat.
        case never
    }

    /// One field, as ranges of ``bytes``.
    package struct Field: Sendable {
        package let name: Range<Int>
        package let value: Range<Int>
        let indexing: Indexing
    }

    /// The names and values of all fields.
    package private(set) var bytes: [UInt8] = []
    /// The fields, in the order they were added.
    package private(set) var fields: [Field] = []

    package init() {}

    /// An empty block with capacity for this many fields, and bytes of names and values.
    package init(bytes: Int, fields: Int) {
        self.bytes.reserveCapacity(bytes)
        self.fields.reserveCapacity(fields)
    }

    /// Removes all fields; keeps the memory.
    package mutating func removeAll() {
        guard !fields.isEmpty else { return }
        bytes.removeAll(keepingCapacity: true)
        fields.removeAll(keepingCapacity: true)
    }

    /// Appends a field; `name` must be in lower case.
    package mutating func append(
        _ name: StaticString, _ value: some Collection<UInt8>, indexing: Indexing = .allowed
    ) {
        append(name, indexing: indexing) { $0 += value }
    }

    /// Appends a field with a text as its value; `name` must be in lower case.
    package mutating func append(_ name: StaticString, _ value: String, indexing: Indexing = .allowed) {
        append(name, value.utf8, indexing: indexing)
    }

    /// Appends a field whose value `write` appends to the given buffer.
    package mutating func append(_ name: StaticString, indexing: Indexing, writing write: (inout [UInt8]) -> Void) {
        let start = bytes.count
        bytes.append(copying: name)
        let middle = bytes.count
        write(&bytes)
        fields.append(Field(name: start..<middle, value: middle..<bytes.count, indexing: indexing))
    }

    /// Appends a field without a value, which ``setValue(ofField:writing:)`` sets.
    /// - Returns: the index of the field.
    package mutating func reserve(_ name: StaticString, indexing: Indexing) -> Int {
        append(name, indexing: indexing) { _ in }
        return fields.count - 1
    }

    /// Appends a received field.
    package mutating func append(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
        let start = bytes.count
        bytes.append(copying: UnsafeRawBufferPointer(name))
        let middle = bytes.count
        bytes.append(copying: UnsafeRawBufferPointer(value))
        fields.append(Field(name: start..<middle, value: middle..<bytes.count, indexing: .allowed))
    }

    /// Replaces all fields by those of a template; keeps the memory.
    package mutating func start(with template: HeaderBlock) {
        removeAll()
        bytes.append(copying: template.bytes)
        template.fields.withUnsafeBufferPointer { fields.append(contentsOf: $0) }
    }

    /// Replaces the value of the field at `index` by what `write` appends to the given buffer.
    package mutating func setValue(ofField index: Int, writing write: (inout [UInt8]) -> Void) {
        let start = bytes.count
        write(&bytes)
        let field = fields[index]
        fields[index] = Field(name: field.name, value: start..<bytes.count, indexing: field.indexing)
    }

    /// The value of the first field with this name; `nil` if there is none.
    package subscript(name: StaticString) -> ArraySlice<UInt8>? {
        let wanted = UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        for field in fields where bytes[field.name].elementsEqual(wanted) { return bytes[field.value] }
        return nil
    }

    /// The value of the first field with this name as text; `nil` if there is none.
    package func text(_ name: StaticString) -> String? { self[name].map { String(decoding: $0, as: UTF8.self) } }
}
