//! Charts: a figure of panels, each with points, error bars and lines, as SVG and as PNG.

mod draw;
mod png;
mod scale;
mod svg;

pub use png::{PngError, png};
pub use scale::Scale;

/// One or more panels with a common title and legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The title.
    pub title: String,
    /// The conditions that all panels share, as a line below the title. It may be empty.
    pub note: String,
    /// The panels, from left to right in rows of three. Four panels form a square.
    pub panels: Vec<Panel>,
}

impl Figure {
    /// Returns whether there is nothing to draw.
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

/// A pair of axes with series.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// The title, which distinguishes the panel from others.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis. Its scale has no categories.
    pub y: Axis,
    /// The series. Series of the same name have the same style in all panels.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The label of the axis: the quantity and its unit.
    pub label: String,
    /// The mapping of values to positions.
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

/// Points of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The drawing style.
    pub look: SeriesStyle,
    /// The points, in the order of the connecting line.
    pub points: Vec<Point>,
}

/// The drawing style of a series.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SeriesStyle {
    /// Marks with error bars, connected by a line, for measurements.
    Line,
    /// Marks with error bars, side by side, for measurements by category.
    Marks,
    /// A dashed line without marks, for bounds or published figures.
    Dashed,
    /// A thin line without marks, for many points such as a time series.
    Trace,
}

/// A point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The horizontal value. On an axis of categories, it is the index of the category.
    pub x: f64,
    /// Vertical value.
    pub y: f64,
    /// Length of the error bar above and below the point. 0 for no error bar.
    pub error: f64,
}

impl Point {
    /// Makes a point without an error bar.
    #[must_use]
    pub const fn at(x: f64, y: f64) -> Self {
        Self { x, y, error: 0.0 }
    }
}
