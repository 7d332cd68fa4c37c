//! Scales: they map values to positions on an axis, and choose the labelled values.

/// The scale of an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// A linear scale that starts at zero.
    Linear,
    /// A logarithmic scale. On a horizontal axis, zero has a position left of all other values.
    Log,
    /// One position for each of these names. Value n has the position of name n.
    Categories(Vec<String>),
}

/// A scale fitted to values. Positions are from 0 (start of the axis) to 1 (its end).
#[derive(Clone, Debug)]
pub(super) struct Fitted {
    kind: Kind,
    low: f64,
    high: f64,
    /// Labelled values with their labels, ascending.
    pub(super) ticks: Vec<(f64, String)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Linear,
    /// `zero` is the logarithm at whose position the value 0 is drawn. None if the axis does not
    /// show 0.
    Log {
        zero: Option<f64>,
    },
    Categories,
}

/// Distance between zero and the smallest positive value on a logarithmic axis, in decades.
const ZERO_GAP: f64 = 0.8;

impl Fitted {
    /// Fits a scale to values. If `zero` is true, a logarithmic axis also has a position for 0.
    pub(super) fn new(scale: &Scale, values: &[f64], zero: bool) -> Self {
        let finite = values.iter().copied().filter(|value| value.is_finite());
        match scale {
            Scale::Linear => Self::linear(finite.fold(0.0, f64::max)),
            Scale::Log => {
                let positive = || finite.clone().filter(|value| *value > 0.0);
                let has_zero = zero && finite.clone().any(|value| value == 0.0);
                let low = positive().min_by(f64::total_cmp).unwrap_or(1.0);
                let high = positive().max_by(f64::total_cmp).unwrap_or(1.0);
                Self::log(low, high, has_zero)
            }
            Scale::Categories(names) => Self {
                kind: Kind::Categories,
                low: -0.5,
                high: names.len().max(1) as f64 - 0.5,
                ticks: (names.iter().enumerate())
                    .map(|(place, name)| (place as f64, name.clone()))
                    .collect(),
            },
        }
    }

    /// Returns the position of a value, from 0 to 1. `None` if the axis cannot show the value.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let along = match self.kind {
            Kind::Linear | Kind::Categories => value,
            Kind::Log { zero } if value == 0.0 => zero?,
            Kind::Log { .. } if value > 0.0 => value.log10(),
            Kind::Log { .. } => return None,
        };
        let place = (along - self.low) / (self.high - self.low);
        place.is_finite().then(|| place.clamp(0.0, 1.0))
    }

    /// Returns whether values are indices of categories.
    pub(super) fn has_categories(&self) -> bool {
        self.kind == Kind::Categories
    }

    fn linear(largest: f64) -> Self {
        let largest = if largest > 0.0 { largest } else { 1.0 };
        let step = nice_step(largest / 5.0);
        let steps = (largest / step * (1.0 - 1e-9)).ceil();
        Self {
            kind: Kind::Linear,
            low: 0.0,
            high: steps * step,
            // There are at most ten steps, because a step is at least a tenth of the largest value.
            ticks: (0..=steps as u32)
                .map(|number| f64::from(number) * step)
                .map(|value| (value, tick_name(value)))
                .collect(),
        }
    }

    fn log(low: f64, high: f64, zero: bool) -> Self {
        let first = low.log10();
        let last = high.log10();
        // An axis of less than two decades has labels at 1, 2 and 5 times a power of ten.
        let factors: &[f64] = if last - first < 2.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let mut marks: Vec<f64> = (first.floor() as i32..=last.ceil() as i32)
            .flat_map(|decade| {
                factors
                    .iter()
                    .map(move |factor| factor * 10f64.powi(decade))
            })
            .collect();
        // The axis starts and ends at the marks that enclose all values.
        let below = marks
            .iter()
            .rposition(|mark| *mark <= low * (1.0 + 1e-9))
            .unwrap_or(0);
        let above = (marks.iter().position(|mark| *mark >= high * (1.0 - 1e-9)))
            .unwrap_or(marks.len().saturating_sub(1))
            .max(below + 1);
        marks.truncate(above + 1);
        marks.drain(..below);
        let (start, end) = match marks[..] {
            [start, .., end] => (start.log10(), end.log10()),
            _ => (first - 0.5, last + 0.5),
        };
        let zero_place = start - ZERO_GAP;
        let every = (marks.len() / 9).max(1);
        let named = marks.into_iter().step_by(every);
        let mut ticks: Vec<_> = named.map(|mark| (mark, tick_name(mark))).collect();
        if zero {
            ticks.insert(0, (0.0, "0".to_owned()));
        }
        Self {
            kind: Kind::Log {
                zero: zero.then_some(zero_place),
            },
            low: if zero { zero_place - 0.15 } else { start },
            high: end,
            ticks,
        }
    }
}

/// Returns the smallest value that is not below the given step, and is 1, 2 or 5 times a power of
/// ten.
fn nice_step(step: f64) -> f64 {
    let decade = 10f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * decade)
        .find(|nice| *nice >= step * (1.0 - 1e-9))
        .unwrap_or(step)
}

/// Formats the value of a tick without trailing zeros.
fn tick_name(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-5..1e7).contains(&size) {
        return format!("{value:.0e}");
    }
    let digits = format!("{value:.6}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    let (whole, rest) = digits
        .find('.')
        .map_or((digits, ""), |dot| digits.split_at(dot));
    if whole.len() <= 4 {
        return digits.to_owned();
    }
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(scale: &Fitted) -> Vec<&str> {
        scale.ticks.iter().map(|(_, name)| name.as_str()).collect()
    }

    #[test]
    fn linear_axes_start_at_zero_and_end_at_a_round_number() {
        let scale = Fitted::new(&Scale::Linear, &[3.0, 47.0, f64::NAN], false);
        assert_eq!(names(&scale), ["0", "10", "20", "30", "40", "50"]);
        assert_eq!(scale.place(0.0), Some(0.0));
        assert_eq!(scale.place(25.0), Some(0.5));
        assert_eq!(scale.place(f64::NAN), None);
        let exact = Fitted::new(&Scale::Linear, &[50.0], false);
        assert_eq!(exact.place(50.0), Some(1.0));
    }

    #[test]
    fn logarithmic_axes_name_decades_or_finer_steps() {
        let wide = Fitted::new(&Scale::Log, &[2.4, 13_805.0], false);
        assert_eq!(
            names(&wide),
            ["1", "10", "100", "1000", "10 000", "100 000"]
        );
        assert_eq!(wide.place(0.0), None);
        assert_eq!(wide.place(-1.0), None);
        assert!((wide.place(10.0).unwrap() - 0.2).abs() < 1e-12);
        let narrow = Fitted::new(&Scale::Log, &[30.0, 180.0], false);
        assert_eq!(names(&narrow), ["20", "50", "100", "200"]);
    }

    #[test]
    fn zero_has_a_place_left_of_all_others() {
        let loss = Fitted::new(&Scale::Log, &[0.0, 1e-4, 5e-4, 1e-2], true);
        assert_eq!(names(&loss), ["0", "0.0001", "0.001", "0.01"]);
        let places: Vec<_> = [0.0, 1e-4, 5e-4, 1e-2]
            .map(|loss_| loss.place(loss_).unwrap())
            .into();
        assert!(places.is_sorted() && places[0] > 0.0 && places[0] < places[1]);
    }

    #[test]
    fn odd_values_make_an_axis_all_the_same() {
        for values in [
            &[][..],
            &[0.0],
            &[5.0],
            &[f64::INFINITY],
            &[-3.0],
            &[1e-300, 1e300],
        ] {
            for scale in [Scale::Linear, Scale::Log, Scale::Categories(vec![])] {
                let fitted = Fitted::new(&scale, values, true);
                assert!(fitted.ticks.len() < 100, "{scale:?} {values:?}");
                for value in values {
                    let place = fitted.place(*value);
                    assert!(place.is_none_or(|place| (0.0..=1.0).contains(&place)));
                }
            }
        }
    }

    #[test]
    fn names_have_no_digits_that_say_nothing() {
        let written = [
            (0.0, "0"),
            (0.5, "0.5"),
            (12_500.0, "12 500"),
            (1e9, "1e9"),
            (2e-6, "2e-6"),
        ];
        for (value, name) in written {
            assert_eq!(tick_name(value), name);
        }
    }
}
