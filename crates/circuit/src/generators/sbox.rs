//! The AES S-box in 32 AND gates.

use crate::Bit;

/// Returns the AES S-box of the byte `x`, whose most significant bit is `x[0]`. The S-box has 32
/// AND gates and AND depth 6.
///
/// This is the straight-line program of Boyar and Peralta (*A small depth-16 circuit for the AES
/// S-box*), in the version with 113 gates of the Yale circuit-minimisation team. It consists of a
/// linear layer, the inversion in GF(2^8) by way of the subfield GF(2^4), and a linear layer.
pub(super) fn sbox<'b>(x: [Bit<'b>; 8]) -> [Bit<'b>; 8] {
    let [x0, x1, x2, x3, x4, x5, x6, x7] = x;
    // This linear layer converts the byte to the basis of the tower field.
    let y14 = x3 ^ x5;
    let y13 = x0 ^ x6;
    let y9 = x0 ^ x3;
    let y8 = x0 ^ x5;
    let t0 = x1 ^ x2;
    let y1 = t0 ^ x7;
    let y4 = y1 ^ x3;
    let y12 = y13 ^ y14;
    let y2 = y1 ^ x0;
    let y5 = y1 ^ x6;
    let y3 = y5 ^ y8;
    let t1 = x4 ^ y12;
    let y15 = t1 ^ x5;
    let y20 = t1 ^ x1;
    let y6 = y15 ^ x7;
    let y10 = y15 ^ t0;
    let y11 = y20 ^ y9;
    let y7 = x7 ^ y11;
    let y17 = y10 ^ y11;
    let y19 = y10 ^ y8;
    let y16 = t0 ^ y11;
    let y21 = y13 ^ y16;
    let y18 = x0 ^ y16;
    // Nine AND gates compute the norm of the byte, an element of GF(2^4).
    let t2 = y12 & y15;
    let t3 = y3 & y6;
    let t4 = t3 ^ t2;
    let t5 = y4 & x7;
    let t6 = t5 ^ t2;
    let t7 = y13 & y16;
    let t8 = y5 & y1;
    let t9 = t8 ^ t7;
    let t10 = y2 & y7;
    let t11 = t10 ^ t7;
    let t12 = y9 & y11;
    let t13 = y14 & y17;
    let t14 = t13 ^ t12;
    let t15 = y8 & y10;
    let t16 = t15 ^ t12;
    let t17 = t4 ^ y20;
    let t18 = t6 ^ t16;
    let t19 = t9 ^ t14;
    let t20 = t11 ^ t16;
    let t21 = t17 ^ t14;
    let t22 = t18 ^ y19;
    let t23 = t19 ^ y21;
    let t24 = t20 ^ y18;
    // Five AND gates compute the inverse of the norm.
    let t25 = t21 ^ t22;
    let t26 = t21 & t23;
    let t27 = t24 ^ t26;
    let t28 = t25 & t27;
    let t29 = t28 ^ t22;
    let t30 = t23 ^ t24;
    let t31 = t22 ^ t26;
    let t32 = t31 & t30;
    let t33 = t32 ^ t24;
    let t34 = t23 ^ t33;
    let t35 = t27 ^ t33;
    let t36 = t24 & t35;
    let t37 = t36 ^ t34;
    let t38 = t27 ^ t36;
    let t39 = t29 & t38;
    let t40 = t25 ^ t39;
    let t41 = t40 ^ t37;
    let t42 = t29 ^ t33;
    let t43 = t29 ^ t40;
    let t44 = t33 ^ t37;
    let t45 = t42 ^ t41;
    // Eighteen AND gates compute the inverse of the byte from the inverse of the norm.
    let z0 = t44 & y15;
    let z1 = t37 & y6;
    let z2 = t33 & x7;
    let z3 = t43 & y16;
    let z4 = t40 & y1;
    let z5 = t29 & y7;
    let z6 = t42 & y11;
    let z7 = t45 & y17;
    let z8 = t41 & y10;
    let z9 = t44 & y12;
    let z10 = t37 & y3;
    let z11 = t33 & y4;
    let z12 = t43 & y13;
    let z13 = t40 & y5;
    let z14 = t29 & y2;
    let z15 = t42 & y9;
    let z16 = t45 & y14;
    let z17 = t41 & y8;
    // This linear layer converts the inverse to the standard basis and applies the affine map.
    let c1 = z15 ^ z16;
    let c2 = z10 ^ c1;
    let c3 = z9 ^ c2;
    let c4 = z0 ^ z2;
    let c5 = z1 ^ z0;
    let c6 = z3 ^ z4;
    let c7 = z12 ^ c4;
    let c8 = z7 ^ c6;
    let c9 = z8 ^ c7;
    let c10 = c8 ^ c9;
    let c11 = c6 ^ c5;
    let c12 = z3 ^ z5;
    let c13 = z13 ^ c1;
    let c14 = c4 ^ c12;
    let s3 = c3 ^ c11;
    let c16 = z6 ^ c8;
    let c17 = z14 ^ c10;
    let c18 = c13 ^ c14;
    let c20 = z15 ^ c16;
    let c21 = c2 ^ z11;
    let c26 = c17 ^ c20;
    [
        c3 ^ c16,
        (!(s3 ^ c16)).materialize(),
        (!(c26 ^ z17)).materialize(),
        s3,
        c14 ^ s3,
        c21 ^ c17,
        (!(c10 ^ c18)).materialize(),
        (!(z12 ^ c18)).materialize(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bits, Builder, Op};

    /// Computes the S-box from the definition in FIPS 197: the inverse in GF(2^8), then the affine
    /// map.
    fn reference(byte: u8) -> u8 {
        fn multiply(mut a: u8, b: u8) -> u8 {
            let mut product = 0;
            for i in 0..8 {
                if b >> i & 1 == 1 {
                    product ^= a;
                }
                a = a << 1 ^ if a >> 7 == 1 { 0x1b } else { 0 };
            }
            product
        }
        let inverse = (1..=255).find(|&b| multiply(byte, b) == 1).unwrap_or(0);
        (0..5).fold(0x63, |sum, i| sum ^ inverse.rotate_left(i))
    }

    #[test]
    fn all_bytes_agree_with_the_field_inverse() {
        let circuit = Builder::build(|b| {
            let mut byte = b.input::<[Bit<'_>; 8]>();
            byte.reverse();
            let mut result = sbox(byte);
            result.reverse();
            b.output(result);
        })
        .unwrap();
        assert_eq!(circuit.count(Op::And), 32);
        for byte in 0..=255 {
            let output = circuit
                .evaluate(&Bits::from_u128(u128::from(byte), 8))
                .unwrap();
            assert_eq!(
                output.to_u128(),
                Some(u128::from(reference(byte))),
                "{byte}"
            );
        }
        assert_eq!(reference(0x53), 0xed, "the example of FIPS 197");
    }
}
