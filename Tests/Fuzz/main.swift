// SPDX-License-Identifier: Apache-2.0

// libFuzzer over what strangers send: FUZZ_TARGET=frames tocsin-fuzz [OPTION or CORPUS] ...
// The target is in the environment because libFuzzer starts processes of its own with the same arguments.
import Glibc

@_silgen_name("LLVMFuzzerRunDriver")
func runDriver(
    _ count: UnsafeMutablePointer<Int32>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ test: @convention(c) (UnsafePointer<UInt8>?, Int) -> Int32
) -> Int32

let named = getenv("FUZZ_TARGET").map { String(cString: $0) } ?? ""
guard let chosen = Target(rawValue: named) else {
    print("Set FUZZ_TARGET to one of: \(Target.allCases.map(\.rawValue).joined(separator: " "))")
    exit(2)
}

let target = chosen

// The driver keeps the arguments for as long as it runs.
var count = CommandLine.argc
var arguments = CommandLine.unsafeArgv
exit(
    withUnsafeMutablePointer(to: &arguments) { arguments in
        runDriver(&count, arguments) { bytes, length in
            var input = FuzzInput(UnsafeBufferPointer(start: bytes, count: length))
            target.run(&input)
            return 0
        }
    })
