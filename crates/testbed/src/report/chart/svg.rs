//! Writes the shapes of SVG 1.1 that charts use.

use std::fmt::Write;

/// An SVG file that is being written. Lengths are in pixels.
pub(super) struct Svg {
    body: String,
    width: f64,
    height: f64,
}

/// The alignment of a text: its start, middle or end is at the given position.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// The font of a text.
#[derive(Clone, Copy)]
pub(super) struct Font {
    pub(super) size: f64,
    pub(super) bold: bool,
    pub(super) color: &'static str,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Self {
        let mut svg = Self {
            body: String::new(),
            width,
            height,
        };
        svg.shape(format_args!(
            r##"<rect width="{width:.0}" height="{height:.0}" fill="#ffffff"/>"##
        ));
        svg
    }

    /// Draws a line. A line too short to be visible is left out, because renderers warn about it.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), color: &str, width: f64) {
        let ((x1, y1), (x2, y2)) = (from, to);
        if (x1 - x2).abs() < 0.1 && (y1 - y2).abs() < 0.1 {
            return;
        }
        self.shape(format_args!(
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{color}" stroke-width="{width}"/>"#
        ));
    }

    /// Draws a line through points. `dashes` is an SVG dash pattern. It is empty for a solid line.
    pub(super) fn path(&mut self, points: &[(f64, f64)], color: &str, width: f64, dashes: &str) {
        if points.is_empty() {
            return;
        }
        let points: Vec<_> = (points.iter())
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let dashes = if dashes.is_empty() {
            String::new()
        } else {
            format!(r#" stroke-dasharray="{dashes}""#)
        };
        self.shape(format_args!(
            r#"<polyline points="{}" fill="none" stroke="{color}" stroke-width="{width}" stroke-linejoin="round"{dashes}/>"#,
            points.join(" ")
        ));
    }

    /// Draws a mark. The numbers 0 to 3 of `kind` select circle, square, triangle and diamond.
    pub(super) fn mark(&mut self, kind: usize, (x, y): (f64, f64), color: &str) {
        const R: f64 = 4.0;
        let corners: &[(f64, f64)] = match kind % 4 {
            0 => {
                self.shape(format_args!(
                    r##"<circle cx="{x:.1}" cy="{y:.1}" r="{R}" fill="{color}" stroke="#ffffff"/>"##
                ));
                return;
            }
            1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            2 => &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
            _ => &[(0.0, -1.3), (1.2, 0.0), (0.0, 1.3), (-1.2, 0.0)],
        };
        let corners: Vec<_> = (corners.iter())
            .map(|(dx, dy)| format!("{:.1},{:.1}", x + dx * R, y + dy * R))
            .collect();
        self.shape(format_args!(
            r##"<polygon points="{}" fill="{color}" stroke="#ffffff"/>"##,
            corners.join(" ")
        ));
    }

    pub(super) fn text(&mut self, at: (f64, f64), anchor: Anchor, font: Font, text: &str) {
        self.turned_text(at, anchor, font, 0.0, text);
    }

    /// Writes a text that is rotated clockwise around its anchor, in degrees.
    pub(super) fn turned_text(
        &mut self,
        (x, y): (f64, f64),
        anchor: Anchor,
        font: Font,
        degrees: f64,
        text: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if font.bold {
            r#" font-weight="bold""#
        } else {
            ""
        };
        let turn = if degrees == 0.0 {
            String::new()
        } else {
            format!(r#" transform="rotate({degrees} {x:.1} {y:.1})""#)
        };
        self.shape(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" font-size="{}" text-anchor="{anchor}" fill="{}"{weight}{turn}>{}</text>"#,
            font.size,
            font.color,
            escaped(text)
        ));
    }

    /// Returns the text of the SVG file.
    pub(super) fn finish(self) -> String {
        let Self {
            body,
            width,
            height,
        } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" \
             font-family=\"DejaVu Sans, Verdana, Arial, sans-serif\">\n{body}</svg>\n"
        )
    }

    fn shape(&mut self, shape: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "{shape}");
    }
}

/// Escapes a text for XML, because names of files and scenarios may contain any character.
fn escaped(text: &str) -> String {
    (text.chars()).filter(|letter| !letter.is_control()).fold(
        String::new(),
        |mut escaped, letter| {
            match letter {
                '&' => escaped.push_str("&amp;"),
                '<' => escaped.push_str("&lt;"),
                '>' => escaped.push_str("&gt;"),
                '"' => escaped.push_str("&quot;"),
                _ => escaped.push(letter),
            }
            escaped
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(
            escaped("<b> & \"c\"\n\u{0}"),
            "&lt;b&gt; &amp; &quot;c&quot;"
        );
    }
}
