// SPDX-License-Identifier: Apache-2.0

/// Returns 64 pseudorandom bits, and the state of the next call: the same ones for the same state on every machine
/// (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014). Not for secrets.
package func splitMix64(_ state: inout UInt64) -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
}
