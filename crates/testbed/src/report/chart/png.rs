//! Figures as PNG, rendered from their SVG.

use std::sync::Arc;

use resvg::{
    tiny_skia::{Pixmap, Transform},
    usvg::{self, fontdb},
};

/// Pixels per unit of the SVG, so that text is sharp on high-resolution screens.
const ZOOM: f32 = 2.0;

/// Maximum width and height of an image, in pixels.
const MAX_SIDE: f32 = 16_384.0;

/// An error of rendering a chart as PNG.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PngError {
    /// This machine has no font, so the text of the chart cannot be drawn.
    #[error(
        "no font found on this machine to write PNG charts with: install one, such as DejaVu Sans"
    )]
    NoFont,
    /// The text is not SVG.
    #[error("cannot read the chart as SVG")]
    Svg(#[from] usvg::Error),
    /// The image would exceed 16,384 pixels in width or height.
    #[error("a picture of {width} x {height} pixels is too large: at most 16384 each way")]
    Size {
        /// Width in pixels.
        width: f32,
        /// Height in pixels.
        height: f32,
    },
    /// The encoder failed.
    #[error("cannot encode the picture: {0}")]
    Encode(String),
}

/// Renders an SVG file as a PNG of twice its nominal size, with the fonts of this machine.
///
/// # Errors
/// The machine has no font, the text is not SVG, or the image is too large.
pub fn png(svg: &str) -> Result<Vec<u8>, PngError> {
    let mut fonts = fontdb::Database::new();
    fonts.load_system_fonts();
    let family = (fonts.faces())
        .filter_map(|face| face.families.first())
        .map(|(name, _)| name.clone())
        // These fonts are designed for screens. If none of them exists, any font is used.
        .min_by_key(|name| {
            let liked = [
                "DejaVu Sans",
                "Verdana",
                "Arial",
                "Liberation Sans",
                "Noto Sans",
            ];
            (liked.iter().position(|like| like == name)).unwrap_or(liked.len())
        })
        .ok_or(PngError::NoFont)?;
    fonts.set_sans_serif_family(&family);
    let options = usvg::Options {
        font_family: family,
        fontdb: Arc::new(fonts),
        ..usvg::Options::default()
    };
    let tree = usvg::Tree::from_str(svg, &options)?;
    let (width, height) = (tree.size().width() * ZOOM, tree.size().height() * ZOOM);
    let too_large = PngError::Size { width, height };
    if width > MAX_SIDE || height > MAX_SIDE {
        return Err(too_large);
    }
    let mut pixels = Pixmap::new(width.ceil() as u32, height.ceil() as u32).ok_or(too_large)?;
    resvg::render(
        &tree,
        Transform::from_scale(ZOOM, ZOOM),
        &mut pixels.as_mut(),
    );
    pixels
        .encode_png()
        .map_err(|error| PngError::Encode(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_picture_is_refused() {
        for wrong in [
            "",
            "<svg",
            "<svg xmlns='http://www.w3.org/2000/svg' width='0' height='0'/>",
        ] {
            assert!(
                matches!(png(wrong), Err(PngError::Svg(_) | PngError::NoFont)),
                "{wrong}"
            );
        }
        let huge = "<svg xmlns='http://www.w3.org/2000/svg' width='9000' height='10'/>";
        assert!(matches!(
            png(huge),
            Err(PngError::Size { .. } | PngError::NoFont)
        ));
    }
}
