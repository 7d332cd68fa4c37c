//! Computes the layout of a figure and draws it as SVG.

use super::{
    Figure, Panel, Point, Series, SeriesStyle,
    scale::Fitted,
    svg::{Anchor, Font, Svg},
};

/// Colours of series, darkest first. Colour-blind readers can distinguish them (Okabe and Ito,
/// 2008).
const COLORS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
];
/// Colour of all dashed series. Their dash patterns distinguish them.
const GREY: &str = "#777777";
const DASHES: [&str; 3] = ["6 4", "2 3", "10 3 2 3"];
const FRAME: &str = "#444444";
const GRID: &str = "#e4e4e4";

const PLOT: (f64, f64) = (330.0, 250.0);
const LEFT: f64 = 74.0;
const RIGHT: f64 = 18.0;
const ABOVE: f64 = 28.0;
const BELOW: f64 = 52.0;
const LEGEND_LINE: f64 = 20.0;
/// Approximate width of a letter in the legend, as a fraction of the font size.
const LETTER: f64 = 0.62;

const TITLE: Font = Font {
    size: 16.0,
    bold: true,
    color: "#111111",
};
const NOTE: Font = Font {
    size: 11.5,
    bold: false,
    color: "#555555",
};
const PANEL_TITLE: Font = Font {
    size: 13.0,
    bold: true,
    color: "#222222",
};
const LABEL: Font = Font {
    size: 12.0,
    bold: false,
    color: "#222222",
};
const TICK: Font = Font {
    size: 11.0,
    bold: false,
    color: "#444444",
};
const LEGEND: Font = Font {
    size: 12.0,
    bold: false,
    color: "#222222",
};

/// The style of all series that have the same name.
struct Style {
    name: String,
    color: &'static str,
    mark: usize,
    look: SeriesStyle,
}

pub(super) fn figure(figure: &Figure) -> String {
    let styles = styles(figure);
    // Four panels form a square, because rows of three would leave one panel alone in its row.
    let across = match figure.panels.len() {
        4 => 2,
        count => count.clamp(1, 3),
    };
    let down = figure.panels.len().div_ceil(across).max(1);
    // The names of many categories are rotated, and need space below the axis.
    let slant = figure.panels.iter().map(slant_room).fold(0.0, f64::max);
    // A single panel may be wide.
    let plot = if across == 1 {
        (PLOT.0 * 1.9, PLOT.1 * 1.2)
    } else {
        PLOT
    };
    let cell = (LEFT + plot.0 + RIGHT, ABOVE + plot.1 + BELOW + slant);
    let width = cell.0 * across as f64;
    let head = if figure.note.is_empty() { 38.0 } else { 56.0 };
    let legend = legend_lines(&styles, width);
    let height = head + cell.1 * down as f64 + LEGEND_LINE * legend.len() as f64 + 14.0;

    let mut svg = Svg::new(width, height);
    svg.text((width / 2.0, 24.0), Anchor::Middle, TITLE, &figure.title);
    svg.text((width / 2.0, 42.0), Anchor::Middle, NOTE, &figure.note);
    for (number, panel) in figure.panels.iter().enumerate() {
        let column = (number % across) as f64;
        let record = (number / across) as f64;
        let corner = (cell.0 * column + LEFT, head + cell.1 * record + ABOVE);
        draw_panel(&mut svg, panel, &styles, corner, plot);
    }
    let top = head + cell.1 * down as f64 + 12.0;
    for (line, entries) in legend.iter().enumerate() {
        draw_legend(&mut svg, entries, (width, top + LEGEND_LINE * line as f64));
    }
    svg.finish()
}

/// Gives each name a style, in order of first appearance.
fn styles(figure: &Figure) -> Vec<Style> {
    let mut styles: Vec<Style> = Vec::new();
    let (mut colored, mut dashed) = (0, 0);
    for series in figure.panels.iter().flat_map(|panel| &panel.series) {
        if styles.iter().any(|style| style.name == series.name) {
            continue;
        }
        let (color, mark) = if series.look == SeriesStyle::Dashed {
            dashed += 1;
            (GREY, dashed - 1)
        } else {
            colored += 1;
            (COLORS[(colored - 1) % COLORS.len()], colored - 1)
        };
        styles.push(Style {
            name: series.name.clone(),
            color,
            mark,
            look: series.look,
        });
    }
    styles
}

fn draw_panel(
    svg: &mut Svg,
    panel: &Panel,
    styles: &[Style],
    corner: (f64, f64),
    plot: (f64, f64),
) {
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let xs: Vec<f64> = points().map(|point| point.x).collect();
    let ys: Vec<f64> = points()
        .flat_map(|point| [point.y, point.y + point.error])
        .collect();
    let x = Fitted::new(&panel.x.scale, &xs, true);
    let y = Fitted::new(&panel.y.scale, &ys, false);
    let (left, top) = corner;
    let (right, bottom) = (left + plot.0, top + plot.1);

    for (value, name) in &y.ticks {
        let Some(place) = y.place(*value) else {
            continue;
        };
        let height = bottom - place * plot.1;
        svg.line((left, height), (right, height), GRID, 1.0);
        svg.text((left - 7.0, height + 4.0), Anchor::End, TICK, name);
    }
    let slanted = slant_room(panel) > 0.0;
    for (value, name) in &x.ticks {
        let Some(place) = x.place(*value) else {
            continue;
        };
        let along = left + place * plot.0;
        if !x.has_categories() {
            svg.line((along, top), (along, bottom), GRID, 1.0);
        }
        svg.line((along, bottom), (along, bottom + 4.0), FRAME, 1.0);
        if slanted {
            svg.turned_text((along + 4.0, bottom + 14.0), Anchor::End, TICK, -35.0, name);
        } else {
            svg.text((along, bottom + 18.0), Anchor::Middle, TICK, name);
        }
    }
    let frame = [(left, top), (left, bottom), (right, bottom)];
    svg.path(&frame, FRAME, 1.2, "");
    svg.text(
        (left + plot.0 / 2.0, top - 10.0),
        Anchor::Middle,
        PANEL_TITLE,
        &panel.title,
    );
    let below = bottom + 38.0 + slant_room(panel);
    svg.text(
        (left + plot.0 / 2.0, below),
        Anchor::Middle,
        LABEL,
        &panel.x.label,
    );
    let beside = (left - 56.0, top + plot.1 / 2.0);
    svg.turned_text(beside, Anchor::Middle, LABEL, -90.0, &panel.y.label);

    let marked = panel
        .series
        .iter()
        .filter(|series| series.look == SeriesStyle::Marks)
        .count();
    let mut mark = 0;
    for series in &panel.series {
        let Some(style) = styles.iter().find(|style| style.name == series.name) else {
            continue;
        };
        let mut shift = 0.0;
        if series.look == SeriesStyle::Marks {
            // Points of different series are placed side by side within about half of the width of
            // a category.
            let width = plot.0 / x.ticks.len().max(1) as f64 * 0.55;
            shift = width * ((mark as f64 + 0.5) / marked as f64 - 0.5);
            mark += 1;
        }
        let place = |point: &Point, y_value: f64| {
            let (along, up) = (x.place(point.x)?, y.place(y_value)?);
            Some((left + along * plot.0 + shift, bottom - up * plot.1))
        };
        draw_series(svg, series, style, &place);
    }
}

fn draw_series(
    svg: &mut Svg,
    series: &Series,
    style: &Style,
    place: &impl Fn(&Point, f64) -> Option<(f64, f64)>,
) {
    let line: Vec<_> = series
        .points
        .iter()
        .filter_map(|point| place(point, point.y))
        .collect();
    match series.look {
        SeriesStyle::Line => svg.path(&line, style.color, 1.8, ""),
        SeriesStyle::Dashed => svg.path(&line, style.color, 1.6, DASHES[style.mark % DASHES.len()]),
        SeriesStyle::Trace => svg.path(&line, style.color, 1.2, ""),
        SeriesStyle::Marks => {}
    }
    if !matches!(series.look, SeriesStyle::Line | SeriesStyle::Marks) {
        return;
    }
    for point in &series.points {
        let Some(middle) = place(point, point.y) else {
            continue;
        };
        if point.error > 0.0
            && let Some(high) = place(point, point.y + point.error)
        {
            // An error bar that would reach zero or less on a logarithmic axis ends at the mark.
            let low = place(point, point.y - point.error).unwrap_or(middle);
            svg.line(low, high, style.color, 1.2);
            for end in [low, high] {
                svg.line((end.0 - 3.5, end.1), (end.0 + 3.5, end.1), style.color, 1.2);
            }
        }
        svg.mark(style.mark, middle, style.color);
    }
}

/// Returns the additional height that rotated names of categories need. It is 0 if the names fit
/// side by side without rotation.
fn slant_room(panel: &Panel) -> f64 {
    let super::Scale::Categories(names) = &panel.x.scale else {
        return 0.0;
    };
    let longest = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0) as f64;
    let width = longest * TICK.size * LETTER;
    if width <= PLOT.0 / names.len().max(1) as f64 {
        return 0.0;
    }
    // 0.574 is the sine of the angle, 35 degrees. 8 pixels for one line of text are available
    // anyway.
    (width * 0.574 - 8.0).max(0.0)
}

/// Breaks the legend into lines that are at most `width` wide.
fn legend_lines(styles: &[Style], width: f64) -> Vec<Vec<(&Style, f64)>> {
    let mut lines: Vec<Vec<(&Style, f64)>> = Vec::new();
    let mut used = f64::INFINITY;
    for style in styles {
        let entry = style.name.chars().count() as f64 * LEGEND.size * LETTER + 52.0;
        if used + entry > width - 20.0 {
            lines.push(Vec::new());
            used = 0.0;
        }
        used += entry;
        if let Some(line) = lines.last_mut() {
            line.push((style, entry));
        }
    }
    lines
}

fn draw_legend(svg: &mut Svg, entries: &[(&Style, f64)], (width, top): (f64, f64)) {
    let used: f64 = entries.iter().map(|(_, entry)| entry).sum();
    let mut left = (width - used) / 2.0;
    for (style, entry) in entries {
        let stroke = [(left, top), (left + 26.0, top)];
        match style.look {
            SeriesStyle::Line => svg.path(&stroke, style.color, 1.8, ""),
            SeriesStyle::Dashed => {
                svg.path(&stroke, style.color, 1.6, DASHES[style.mark % DASHES.len()])
            }
            SeriesStyle::Trace => svg.path(&stroke, style.color, 2.0, ""),
            SeriesStyle::Marks => {}
        }
        if matches!(style.look, SeriesStyle::Line | SeriesStyle::Marks) {
            svg.mark(style.mark, (left + 13.0, top), style.color);
        }
        svg.text((left + 32.0, top + 4.0), Anchor::Start, LEGEND, &style.name);
        left += entry;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Scale};
    use super::*;

    fn sample(x: Scale, look: SeriesStyle) -> Figure {
        let series = |name: &str, up: f64| Series {
            name: name.to_owned(),
            look,
            points: (0..3)
                .map(|number| Point {
                    x: f64::from(number),
                    y: up * f64::from(number + 1),
                    error: 1.0,
                })
                .collect(),
        };
        let panel = Panel {
            title: "<AES>".to_owned(),
            x: Axis::new("x", x),
            y: Axis::new("time (ms)", Scale::Log),
            series: vec![series("tcp", 10.0), series("udp & co", 5.0)],
        };
        Figure {
            title: "A title".to_owned(),
            note: "a note".to_owned(),
            panels: vec![panel.clone(), panel],
        }
    }

    #[test]
    fn everything_is_in_the_picture() {
        let svg = sample(Scale::Linear, SeriesStyle::Line).svg();
        for text in [
            "A title",
            "a note",
            "&lt;AES&gt;",
            "time (ms)",
            "udp &amp; co",
        ] {
            assert!(svg.contains(text), "{text} is not in the figure");
        }
        // Each panel has circles for one series and squares for the other. The legend has one of
        // each.
        assert_eq!(svg.matches("<circle").count(), 3 * 2 + 1);
        assert_eq!(svg.matches("<polygon").count(), 3 * 2 + 1);
    }

    #[test]
    fn renderers_take_it() {
        let names = ["a long name", "another long name", "third"]
            .map(str::to_owned)
            .to_vec();
        for (scale, look) in [
            (Scale::Linear, SeriesStyle::Trace),
            (Scale::Log, SeriesStyle::Dashed),
            (Scale::Categories(names), SeriesStyle::Marks),
        ] {
            match super::super::png(&sample(scale, look).svg()) {
                Ok(png) => assert!(png.starts_with(b"\x89PNG")),
                // A machine without fonts cannot draw text, so the test cannot check the PNG.
                Err(super::super::PngError::NoFont) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }

    #[test]
    fn figures_without_points_are_empty() {
        let mut figure = sample(Scale::Linear, SeriesStyle::Line);
        assert!(!figure.is_empty());
        for series in figure.panels.iter_mut().flat_map(|panel| &mut panel.series) {
            series.points.clear();
        }
        assert!(figure.is_empty());
        assert!(figure.svg().contains("A title"));
    }
}
