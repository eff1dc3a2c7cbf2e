// SPDX-License-Identifier: Apache-2.0

// libFuzzer over what strangers send: tocsin-fuzz TARGET [OPTION or CORPUS] ...
import Glibc

@_silgen_name("LLVMFuzzerRunDriver")
func runDriver(
    _ count: UnsafeMutablePointer<Int32>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ test: @convention(c) (UnsafePointer<UInt8>?, Int) -> Int32
) -> Int32

guard CommandLine.argc > 1, let chosen = Target(rawValue: CommandLine.arguments[1]) else {
    print(
        "usage: tocsin-fuzz TARGET [OPTION or CORPUS] ...; targets: \(Target.allCases.map(\.rawValue).joined(separator: " "))"
    )
    exit(2)
}
let target = chosen

// The driver does not see the target's name, and keeps the others for as long as it runs.
var count = CommandLine.argc - 1
var arguments = CommandLine.unsafeArgv + 1
arguments[0] = CommandLine.unsafeArgv[0]
exit(
    withUnsafeMutablePointer(to: &arguments) { arguments in
        runDriver(&count, arguments) { bytes, length in
            var input = FuzzInput(UnsafeBufferPointer(start: bytes, count: length))
            target.run(&input)
            return 0
        }
    })
