// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Glibc
import QRCode
import Simulator
import TNP

extension Magic: ExpressibleByArgument {}

struct PairShow: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Make a pairing token as a phone would, and show it with its QR code.",
        discussion: """
            A new one has a key of its own and a device token that no phone has: it is for trying things out, with \
            `tocsin simulate` or a desktop's camera. With --token it is one that is there already.

            EXIT CODES
              0 shown · 64 wrong usage · 65 the pairing token is none · 78 the file cannot be written

            EXAMPLES
              tocsin pair show
              tocsin pair show --magic android --model "Google Pixel 8" --png pairing.png
              tocsin pair show --token - < pairing
            """)

    @Option(help: "The kind of phone. Default: iOS.")
    var magic: Magic?

    @Option(help: "The phone's model. Default: iPhone 15, or Google Pixel 8.")
    var model: String?

    @Option(help: "The form of its key: pipe (Bisq 1, Haveno) or sealed (Base64 of 32 bytes). Default: pipe.")
    var format: EnvelopeFormat?

    @Option(help: "Show this pairing token; - reads it from standard input.")
    var token: String?

    @Option(help: "Write the QR code to a new file too, a PNG picture that only you may read.")
    var png: String?

    @Flag(help: "Overwrite the file.")
    var force = false

    private static let longestModel = 64

    func validate() throws {
        guard token == nil || magic == nil && model == nil && format == nil else {
            throw ValidationError(
                "--token shows a pairing token that is there already: leave out --magic, --model and --format")
        }
        guard !force || png != nil else { throw ValidationError("--force goes with --png") }
        guard png?.isEmpty != true else { throw ValidationError("--png must name a file") }
        if let model {
            guard (1...Self.longestModel).contains(model.utf8.count), !model.contains("|"),
                TerminalText.safe(model) == model
            else {
                throw ValidationError(
                    "--model must be 1 to \(Self.longestModel) bytes without a bar or control characters")
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
            throw fail("\(error)", ExitStatus.rejected)
        } catch {
            throw fail("\(error)", ExitStatus.configuration)
        }
        Terminal.error("tocsin: this holds the key: whoever sees it can read and forge what the phone is sent")
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
            let pairing = PairingArgument.oneLine(PairingArgument.text(token))
            do {
                _ = try PairingToken(pairing)
            } catch {
                throw fail("\(error); tocsin pair read says more", ExitStatus.rejected)
            }
            return pairing
        }
        let magic = magic ?? .iOS
        return Phone.new(
            magic, model: model ?? (magic == .android ? "Google Pixel 8" : "iPhone 15"),
            app: format == .sealed ? .own : .bisq
        ).pairingToken
    }
}

extension Terminal {
    /// Characters that fit into a line; nil where nobody looks or the terminal does not tell.
    fileprivate static var outputColumns: Int? {
        var size = winsize()
        guard isOutputATerminal, ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }
}
