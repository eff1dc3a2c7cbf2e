// SPDX-License-Identifier: Apache-2.0

import HTTP2

extension HeaderBlock {
    /// Appends a field whose name is only known at run time; it must be in lower case.
    package mutating func append(_ name: String, _ value: String) {
        Array(name.utf8).withUnsafeBufferPointer { name in
            Array(value.utf8).withUnsafeBufferPointer { append(name, $0) }
        }
    }

    /// All fields as text.
    package var all: [(name: String, value: String)] {
        fields.map {
            (String(decoding: bytes[$0.name], as: UTF8.self), String(decoding: bytes[$0.value], as: UTF8.self))
        }
    }
}
