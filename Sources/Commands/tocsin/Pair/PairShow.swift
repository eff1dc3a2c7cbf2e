// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Glibc
import QRCode
import StandIns
import TNP
import TocsinClient

extension Magic: ExpressibleByArgument {}

struct PairShow: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Create a pairing token as a phone would, and show it with its QR code.",
        discussion: """
            A new token has a new key and a device token that no phone has: use it for tests, with tocsin simulate or \
            a desktop's camera. --token shows an existing token instead.

            EXIT CODES
              0   shown
              64  wrong usage
              65  the pairing token is invalid
              78  the file cannot be written

            EXAMPLES
              tocsin pair show
              tocsin pair show --magic android --model "Google Pixel 8" --png pairing.png
              tocsin pair show --token - < pairing
            """)

    @Option(help: "The kind of phone. Default: iOS.")
    var magic: Magic?

    @Option(help: "The phone's model. Default: iPhone 15, Google Pixel 8 or Fairphone 5.")
    var model: String?

    @Option(help: "The form of the key: pipe (Bisq 1, Haveno) or sealed (Base64 of 32 bytes). Default: pipe.")
    var format: EnvelopeFormat?

    @Option(help: "Show this pairing token; - reads it from standard input.")
    var token: String?

    @Option(help: "Also write the QR code to this new file, a PNG image that only you can read.")
    var png: String?

    @Flag(help: "Overwrite the file.")
    var force = false

    private static let maximumModelLength = 64

    func validate() throws {
        guard token == nil || magic == nil && model == nil && format == nil else {
            throw ValidationError("--token shows an existing pairing token: omit --magic, --model and --format")
        }
        guard !force || png != nil else { throw ValidationError("--force requires --png") }
        guard png?.isEmpty != true else { throw ValidationError("--png must name a file") }
        if let model {
            guard (1...Self.maximumModelLength).contains(model.utf8.count), !model.contains("|"),
                TerminalText.safe(model) == model
            else {
                throw ValidationError(
                    "--model must be 1 to \(Self.maximumModelLength) bytes without a bar or control characters")
            }
        }
    }

    func run() throws {
        let text = try pairingToken()
        let code: QRCode
        do {
            code = try QRCode(text)
            if let png { try SecretFile.write(code.png(), to: png, replacing: force) }
        } catch let error as QRCodeError {
            throw fail("\(error)", .rejected)
        } catch {
            throw fail("\(error)", .configuration)
        }
        Terminal.error("tocsin: this contains the key: with it, anyone can read and forge notifications to the phone")
        Terminal.print(text)
        guard Terminal.outputColumns.map({ code.terminalWidth <= $0 }) ?? true else {
            Terminal.error(
                "tocsin: the QR code needs \(code.terminalWidth) columns: make the terminal wider, or use --png FILE")
            return
        }
        Terminal.print("")
        for line in code.terminalLines(isColoured: Terminal.isOutputATerminal) { Terminal.print(line) }
    }

    private func pairingToken() throws -> String {
        if let token {
            do throws(PairingToken.FormatError) {
                return try PastedToken.read(PairingArgument.text(token)).text
            } catch {
                throw fail("\(error); for details: tocsin pair read", .rejected)
            }
        }
        let magic = magic ?? .iOS
        return Phone.new(magic, model: model ?? Phone.usualModel(magic), app: format == .sealed ? .custom : .bisq)
            .pairingToken
    }
}

extension Terminal {
    /// The columns of the terminal; `nil` if standard output is not a terminal or its size is unknown.
    fileprivate static var outputColumns: Int? {
        var size = winsize()
        guard isOutputATerminal, ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }
}
