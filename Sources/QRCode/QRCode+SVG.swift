// SPDX-License-Identifier: Apache-2.0

extension QRCode {
    /// The code as an SVG picture, one unit a module: dark on white, to be scaled to any size.
    /// - Parameter border: light modules around it, at least 0; the standard asks for 4.
    package func svg(border: Int = 4) -> String {
        precondition(border >= 0, "a picture has a border of at least 0")
        let side = size + 2 * border
        // Each run of dark modules in a row is one rectangle of the path.
        var path = ""
        for y in 0..<size {
            var x = 0
            while x < size {
                let start = x
                while self[x, y] { x += 1 }
                if x > start { path += "M\(start + border) \(y + border)h\(x - start)v1H\(start + border)z" }
                x += 1
            }
        }
        return """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(side) \(side)" shape-rendering="crispEdges">\
            <path fill="#fff" d="M0 0h\(side)v\(side)H0z"/><path d="\(path)"/></svg>
            """
    }
}
