//! The traits of values that can be an input, an output or an operand of [`Bit::select`]. These are
//! bits, numbers, and arrays, vectors and tuples of such values.

use super::Bit;

/// A value that consists of bits. An implementation for a struct concatenates the bits of its
/// fields.
pub trait Value<'b>: Clone {
    /// Returns the number of bits of this value.
    fn width(&self) -> usize;

    /// Appends the bits of this value to `bits`, in the order of the wires of an input or output.
    fn append_bits(&self, bits: &mut Vec<Bit<'b>>);

    /// Returns a value of the same shape as this one, with `bits` as its bits.
    ///
    /// # Panics
    /// Panics if the number of bits is not [`Value::width`].
    #[must_use]
    fn with_bits(&self, bits: &[Bit<'b>]) -> Self;
}

/// A [`Value`] whose width follows from its type, so that it can be declared as an input.
pub trait FixedValue<'b>: Value<'b> {
    /// The number of bits of each value of this type.
    const WIDTH: usize;

    /// Returns the value whose bits are `bits`.
    ///
    /// # Panics
    /// Panics if the number of bits is not [`FixedValue::WIDTH`].
    #[must_use]
    fn from_bits(bits: &[Bit<'b>]) -> Self;
}

/// Implements [`Value::width`] and [`Value::with_bits`] for a type that implements [`FixedValue`].
macro_rules! fixed_shape {
    () => {
        fn width(&self) -> usize {
            Self::WIDTH
        }

        fn with_bits(&self, bits: &[Bit<'b>]) -> Self {
            Self::from_bits(bits)
        }
    };
}

pub(super) use fixed_shape;

impl<'b> Value<'b> for Bit<'b> {
    fixed_shape!();

    fn append_bits(&self, bits: &mut Vec<Self>) {
        bits.push(*self);
    }
}

impl<'b> FixedValue<'b> for Bit<'b> {
    const WIDTH: usize = 1;

    fn from_bits(bits: &[Self]) -> Self {
        check_width(bits, 1);
        bits[0]
    }
}

impl<'b, T: FixedValue<'b>, const M: usize> Value<'b> for [T; M] {
    fixed_shape!();

    fn append_bits(&self, bits: &mut Vec<Bit<'b>>) {
        self.iter().for_each(|item| item.append_bits(bits));
    }
}

impl<'b, T: FixedValue<'b>, const M: usize> FixedValue<'b> for [T; M] {
    const WIDTH: usize = M * T::WIDTH;

    fn from_bits(bits: &[Bit<'b>]) -> Self {
        check_width(bits, Self::WIDTH);
        std::array::from_fn(|i| T::from_bits(&bits[i * T::WIDTH..][..T::WIDTH]))
    }
}

impl<'b, T: Value<'b>> Value<'b> for Vec<T> {
    fn width(&self) -> usize {
        self.iter().map(Value::width).sum()
    }

    fn append_bits(&self, bits: &mut Vec<Bit<'b>>) {
        self.iter().for_each(|item| item.append_bits(bits));
    }

    fn with_bits(&self, bits: &[Bit<'b>]) -> Self {
        check_width(bits, self.width());
        let mut rest = bits;
        self.iter()
            .map(|item| {
                let (bits, more) = rest.split_at(item.width());
                rest = more;
                item.with_bits(bits)
            })
            .collect()
    }
}

macro_rules! tuple_value {
    ($($type:ident $field:tt),+) => {
        impl<'b, $($type: Value<'b>),+> Value<'b> for ($($type,)+) {
            fn width(&self) -> usize {
                0 $(+ self.$field.width())+
            }

            fn append_bits(&self, bits: &mut Vec<Bit<'b>>) {
                $(self.$field.append_bits(bits);)+
            }

            fn with_bits(&self, bits: &[Bit<'b>]) -> Self {
                check_width(bits, self.width());
                let mut rest = bits;
                ($({
                    let (bits, more) = rest.split_at(self.$field.width());
                    rest = more;
                    let _ = rest;
                    self.$field.with_bits(bits)
                },)+)
            }
        }

        impl<'b, $($type: FixedValue<'b>),+> FixedValue<'b> for ($($type,)+) {
            const WIDTH: usize = 0 $(+ $type::WIDTH)+;

            fn from_bits(bits: &[Bit<'b>]) -> Self {
                check_width(bits, Self::WIDTH);
                let mut rest = bits;
                ($({
                    let (bits, more) = rest.split_at($type::WIDTH);
                    rest = more;
                    let _ = rest;
                    $type::from_bits(bits)
                },)+)
            }
        }
    };
}

tuple_value!(A 0, B 1);
tuple_value!(A 0, B 1, C 2);
tuple_value!(A 0, B 1, C 2, D 3);
tuple_value!(A 0, B 1, C 2, D 3, E 4);
tuple_value!(A 0, B 1, C 2, D 3, E 4, F 5);

/// Checks that there are `width` bits.
///
/// # Panics
/// Panics if the number of bits is not `width`.
pub(super) fn check_width(bits: &[Bit<'_>], width: usize) {
    assert_eq!(
        bits.len(),
        width,
        "width mismatch: {} bits for a value of {width}",
        bits.len()
    );
}
