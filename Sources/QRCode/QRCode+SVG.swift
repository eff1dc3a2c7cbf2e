// SPDX-License-Identifier: Apache-2.0

extension QRCode {
    /// Returns the code as an SVG image, dark on white, with one unit per module.
    /// - Parameter border: the width of the light border in modules, at least 0; the standard requires 4.
    package func svg(border: Int = 4) -> String {
        precondition(border >= 0, "the border must be at least 0")
        let side = size + 2 * border
        // Each horizontal run of dark modules becomes one rectangle of the path.
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
