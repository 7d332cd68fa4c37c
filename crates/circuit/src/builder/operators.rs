//! A macro that implements the operators of [`Word`](super::Word), [`UInt`](super::UInt) and
//! [`Int`](super::Int).

/// Implements the operators of a number type. The operands may be values or references, and the
/// right operand of a binary operator may also be a constant.
macro_rules! number_operators {
    ([$($generics:tt)*] $type:ty, $constant:ty, $signed:literal) => {
        number_operators!(@binary [$($generics)*] $type, $constant, Add add AddAssign add_assign,
            |g, a, b| arith::add(g, a, b, Lit::ZERO).0);
        number_operators!(@binary [$($generics)*] $type, $constant, Sub sub SubAssign sub_assign,
            |g, a, b| arith::subtract(g, a, b).0);
        number_operators!(@binary [$($generics)*] $type, $constant, Mul mul MulAssign mul_assign,
            |g, a, b| multiply::multiply(g, a, b));
        number_operators!(@binary [$($generics)*] $type, $constant, Div div DivAssign div_assign,
            |g, a, b| if $signed { multiply::divide_signed(g, a, b).0 } else { multiply::divide(g, a, b).0 });
        number_operators!(@binary [$($generics)*] $type, $constant, Rem rem RemAssign rem_assign,
            |g, a, b| if $signed { multiply::divide_signed(g, a, b).1 } else { multiply::divide(g, a, b).1 });
        number_operators!(@binary [$($generics)*] $type, $constant, BitAnd bitand BitAndAssign bitand_assign,
            |g, a, b| a.iter().zip(b).map(|(&a, &b)| g.and(a, b)).collect());
        number_operators!(@binary [$($generics)*] $type, $constant, BitOr bitor BitOrAssign bitor_assign,
            |g, a, b| a.iter().zip(b).map(|(&a, &b)| g.or(a, b)).collect());
        number_operators!(@binary [$($generics)*] $type, $constant, BitXor bitxor BitXorAssign bitxor_assign,
            |g, a, b| a.iter().zip(b).map(|(&a, &b)| g.xor(a, b)).collect());
        number_operators!(@shift [$($generics)*] $type, Shl shl, |bits| number::shift_left);
        number_operators!(@shift [$($generics)*] $type, Shr shr, |bits| |bits: &[Lit], distance| {
            let top = bits.last().copied().unwrap_or(Lit::ZERO);
            number::shift_right(bits, distance, if $signed { top } else { Lit::ZERO })
        });
        number_operators!(@unary [$($generics)*] $type, Not not,
            |_g, a| a.iter().map(|bit| bit.negate()).collect());
        number_operators!(@unary [$($generics)*] $type, Neg neg,
            |g, a| arith::negate_if(g, a, Lit::ONE));
    };
    (@binary [$($generics:tt)*] $type:ty, $constant:ty,
     $trait:ident $method:ident $assign_trait:ident $assign:ident, |$g:ident, $a:ident, $b:ident| $body:expr) => {
        impl<$($generics)*> ops::$trait<&$type> for &$type {
            type Output = $type;
            fn $method(self, other: &$type) -> $type {
                self.like(self.binary(other, |$g, $a, $b| $body))
            }
        }
        impl<$($generics)*> ops::$trait<$type> for &$type {
            type Output = $type;
            fn $method(self, other: $type) -> $type {
                ops::$trait::$method(self, &other)
            }
        }
        impl<$($generics)*> ops::$trait<&$type> for $type {
            type Output = $type;
            fn $method(self, other: &$type) -> $type {
                ops::$trait::$method(&self, other)
            }
        }
        impl<$($generics)*> ops::$trait<$type> for $type {
            type Output = $type;
            fn $method(self, other: $type) -> $type {
                ops::$trait::$method(&self, &other)
            }
        }
        impl<$($generics)*> ops::$trait<$constant> for $type {
            type Output = $type;
            fn $method(self, constant: $constant) -> $type {
                ops::$trait::$method(&self, &self.constant(constant))
            }
        }
        impl<$($generics)*> ops::$trait<$constant> for &$type {
            type Output = $type;
            fn $method(self, constant: $constant) -> $type {
                ops::$trait::$method(self, &self.constant(constant))
            }
        }
        impl<$($generics)*> ops::$assign_trait<&$type> for $type {
            fn $assign(&mut self, other: &$type) {
                *self = ops::$trait::$method(&*self, other);
            }
        }
        impl<$($generics)*> ops::$assign_trait<$type> for $type {
            fn $assign(&mut self, other: $type) {
                *self = ops::$trait::$method(&*self, &other);
            }
        }
    };
    (@shift [$($generics:tt)*] $type:ty, $trait:ident $method:ident, |$bits:ident| $body:expr) => {
        impl<$($generics)*> ops::$trait<usize> for &$type {
            type Output = $type;
            fn $method(self, distance: usize) -> $type {
                self.unary(|_, bits| ($body)(bits, distance))
            }
        }
        impl<$($generics)*> ops::$trait<usize> for $type {
            type Output = $type;
            fn $method(self, distance: usize) -> $type {
                ops::$trait::$method(&self, distance)
            }
        }
    };
    (@unary [$($generics:tt)*] $type:ty, $trait:ident $method:ident, |$g:ident, $a:ident| $body:expr) => {
        impl<$($generics)*> ops::$trait for &$type {
            type Output = $type;
            fn $method(self) -> $type {
                self.unary(|$g, $a| $body)
            }
        }
        impl<$($generics)*> ops::$trait for $type {
            type Output = $type;
            fn $method(self) -> $type {
                ops::$trait::$method(&self)
            }
        }
    };
}

pub(super) use number_operators;
