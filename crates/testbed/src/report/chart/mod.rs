//! Charts: a figure of panels, each with points, error bars and lines; as SVG and as PNG.

mod draw;
mod png;
mod scale;
mod svg;

pub use png::{PngError, png};
pub use scale::Scale;

/// One or more panels under one title, with one legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What is shown.
    pub title: String,
    /// Under what conditions, in a smaller line below the title; may be empty.
    pub note: String,
    /// Drawn from left to right, three in a row; four as a square.
    pub panels: Vec<Panel>,
}

impl Figure {
    /// Tells whether there is nothing to draw.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        (self.panels.iter()).all(|panel| panel.series.iter().all(|series| series.points.is_empty()))
    }

    /// Draws the figure as a stand-alone SVG file. Points that an axis cannot show (not finite, or
    /// not above zero on a logarithmic vertical axis) are left out.
    #[must_use]
    pub fn svg(&self) -> String {
        draw::figure(self)
    }
}

/// A pair of axes and what is drawn between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What sets the panel apart from the others.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis; its scale has no categories.
    pub y: Axis,
    /// What is drawn. Series of one name look alike in all panels.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The quantity and its unit.
    pub label: String,
    /// Where values go.
    pub scale: Scale,
}

impl Axis {
    /// Makes an axis.
    #[must_use]
    pub fn new(label: impl Into<String>, scale: Scale) -> Self {
        Self {
            label: label.into(),
            scale,
        }
    }
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// For the legend.
    pub name: String,
    /// How it is drawn.
    pub look: Look,
    /// Joined in this order, where the look joins them.
    pub points: Vec<Point>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Look {
    /// Marks with error bars, joined: measurements.
    Line,
    /// Marks with error bars, not joined and side by side: measurements of categories.
    Marks,
    /// A dashed line without marks: a bound, or figures of others.
    Dashed,
    /// A thin line without marks: many points, such as a course over time.
    Trace,
}

/// A point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Along the horizontal axis; with categories, the number of the category.
    pub x: f64,
    /// Along the vertical axis.
    pub y: f64,
    /// The error bar goes this far up and down; 0 for none.
    pub error: f64,
}

impl Point {
    /// A point without an error bar.
    #[must_use]
    pub const fn at(x: f64, y: f64) -> Self {
        Self { x, y, error: 0.0 }
    }
}
