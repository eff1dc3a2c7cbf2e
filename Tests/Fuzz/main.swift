// SPDX-License-Identifier: Apache-2.0

// libFuzzer over the protocol's decoder: `make fuzz`. The first byte of an input says in how large pieces the stream
// comes (0: at once); whatever is in it, reading it must end in messages, a rejection or a protocol error.
import Glibc
import TNP

@_silgen_name("LLVMFuzzerRunDriver")
func runDriver(
    _ count: UnsafeMutablePointer<Int32>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ test: @convention(c) (UnsafePointer<UInt8>?, Int) -> Int32
) -> Int32

func read(_ input: UnsafeBufferPointer<UInt8>) {
    guard let first = input.first else { return }
    let stream = Array(input.dropFirst())
    let size = first == 0 ? max(stream.count, 1) : Int(first)
    var decoder = FrameDecoder(maximumLength: Frame.defaultMaximumLength)
    var proxyLine = ProxyLineDecoder()
    _ = try? proxyLine.append(stream.span.bytes)
    for start in stride(from: 0, to: stream.count, by: size) {
        decoder.append(stream[start..<min(start + size, stream.count)])
        do {
            while let frame = try decoder.next() { use(try Message(frame)) }
        } catch { return }
    }
}

func use(_ message: Message) {
    var written: [UInt8] = []
    switch message {
    case .hello(let hello): written.append(hello)
    case .welcome(let welcome): written.append(welcome)
    case .submit(let fields):
        for format in EnvelopeFormat.allCases {
            let phone = fields.handle.map { _ in (magic: Magic.iOS, deviceToken: Array("ab".utf8)) }
            guard let submission = try? fields.checked(format: format, phone: phone) else { continue }
            written.append(submission)
            submission.envelope.appendDeliveredJSON(format: format, messageMagic: [], to: &written)
            precondition(submission.envelope.apnsID.count == 36)
        }
    case .result(let result): written.append(result)
    case .ping(let opaque), .pong(let opaque): written.append(pong: opaque)
    case .puzzle(let puzzle): written.append(puzzle)
    case .goAway(let goAway): written.append(goAway)
    case .handleRequest(let fields):
        guard let request = try? fields.checked() else { break }
        written.append(request)
        precondition(!request.isSigned(by: []))
    case .registered(let result): written.append(result)
    case .authentication(let authentication):
        written.append(authentication)
        precondition(!authentication.isValid(seed: [], onion: []))
    case .authenticated(let result): written.append(result)
    case .skipped: break
    }
}

// The driver keeps these for as long as it runs.
var count = CommandLine.argc
var arguments = CommandLine.unsafeArgv
exit(
    withUnsafeMutablePointer(to: &arguments) { arguments in
        runDriver(&count, arguments) { bytes, length in
            read(UnsafeBufferPointer(start: bytes, count: length))
            return 0
        }
    })
