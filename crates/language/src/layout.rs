//! The widths and bit orders of types. The compiler's circuits and the converted circuits have
//! different bit orders (see the crate's documentation).

use std::collections::HashMap;

use garble_lang::{
    TypedProgram,
    ast::{EnumDef, Type, Variant},
    token::{SignedNumType, UnsignedNumType},
};

use crate::LanguageError;

/// Maximum number of bits of a value. It equals the default limit of `transpute_circuit` on the
/// number of input bits of a circuit file.
const MAX_VALUE_BITS: usize = 1 << 24;

/// Computes the widths and bit orders of types.
pub(crate) struct Layout<'a> {
    program: &'a TypedProgram,
    /// The values of the constants that are array lengths, by name.
    sizes: &'a HashMap<String, usize>,
    /// For each struct, its field names in declaration order. `program` has them sorted by name.
    declared: &'a HashMap<String, Vec<String>>,
    /// For each struct and enum, its width in bits, or `None` while the width is being computed.
    known: HashMap<String, Option<usize>>,
}

impl<'a> Layout<'a> {
    pub(crate) fn new(
        program: &'a TypedProgram,
        sizes: &'a HashMap<String, usize>,
        declared: &'a HashMap<String, Vec<String>>,
    ) -> Self {
        Self {
            program,
            sizes,
            declared,
            known: HashMap::new(),
        }
    }

    /// Returns the number of bits of a value of type `ty`.
    pub(crate) fn width(&mut self, ty: &Type) -> Result<usize, LanguageError> {
        let width = match ty {
            Type::Bool | Type::Unsigned(_) | Type::Signed(_) => number_width(ty),
            Type::Array(element, size) => self.width(element)?.saturating_mul(*size),
            Type::ArrayConst(element, name) => {
                let size = *self.sizes.get(name).ok_or_else(|| no_bits(ty))?;
                self.width(element)?.saturating_mul(size)
            }
            Type::Tuple(fields) => self.sum(fields)?,
            Type::Struct(name) | Type::Enum(name) => self.definition(name, ty)?,
            Type::Fn(..) | Type::UntypedTopLevelDefinition(..) => return Err(no_bits(ty)),
        };
        if width > MAX_VALUE_BITS {
            return Err(LanguageError::TooWide {
                ty: ty.to_string(),
                limit: MAX_VALUE_BITS,
            });
        }
        Ok(width)
    }

    fn sum<'t>(
        &mut self,
        types: impl IntoIterator<Item = &'t Type>,
    ) -> Result<usize, LanguageError> {
        (types.into_iter()).try_fold(0_usize, |sum, ty| Ok(sum.saturating_add(self.width(ty)?)))
    }

    fn definition(&mut self, name: &str, ty: &Type) -> Result<usize, LanguageError> {
        match self.known.get(name) {
            Some(Some(width)) => return Ok(*width),
            Some(None) => {
                return Err(LanguageError::Recursive {
                    name: name.to_owned(),
                });
            }
            None => {}
        }
        self.known.insert(name.to_owned(), None);
        let program = self.program;
        let width = if let (Type::Enum(_), Some(definition)) = (ty, program.enum_defs.get(name)) {
            tag_width(definition).saturating_add(self.fields_width(definition)?)
        } else if let (Type::Struct(_), Some(definition)) = (ty, program.struct_defs.get(name)) {
            self.sum(definition.fields.iter().map(|(_, field)| field))?
        } else {
            return Err(no_bits(ty));
        };
        self.known.insert(name.to_owned(), Some(width));
        Ok(width)
    }

    /// Returns the number of bits of all fields of the variant that has the most.
    fn fields_width(&mut self, definition: &EnumDef) -> Result<usize, LanguageError> {
        (definition.variants.iter()).try_fold(0, |max: usize, variant| {
            Ok(match variant {
                Variant::Unit(_) => max,
                Variant::Tuple(_, fields) => max.max(self.sum(fields)?),
            })
        })
    }

    /// Rejects structs and enums that contain themselves, and types in `values` that are too wide.
    /// With these, the compiler would take very long or not terminate. A type whose width depends
    /// on an unknown constant is accepted.
    pub(crate) fn check_types<'t>(
        &mut self,
        values: impl IntoIterator<Item = &'t Type>,
    ) -> Result<(), LanguageError> {
        let program = self.program;
        let structs = program.struct_defs.keys().cloned().map(Type::Struct);
        let enums = program.enum_defs.keys().cloned().map(Type::Enum);
        for ty in structs.chain(enums) {
            // The width is not limited here, because there may be no value of this type.
            if let Err(error @ LanguageError::Recursive { .. }) = self.width(&ty) {
                return Err(error);
            }
            // If the computation of a width failed, the entries of types that are not recursive are
            // still `None`.
            self.known.retain(|_, width| width.is_some());
        }
        for ty in values {
            if let Err(error @ LanguageError::TooWide { .. }) = self.width(ty) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns the bit order of a type: for each bit of a value in the converted circuit, the index
    /// of the same bit in the compiler's circuit.
    pub(crate) fn order(&mut self, ty: &Type) -> Result<Vec<usize>, LanguageError> {
        let mut order = Vec::with_capacity(self.width(ty)?);
        self.append(ty, 0, &mut order)?;
        Ok(order)
    }

    /// Appends the bit order of a part of a value, which has type `ty` and starts at bit `start` of
    /// the value in the compiler's circuit.
    fn append(
        &mut self,
        ty: &Type,
        start: usize,
        order: &mut Vec<usize>,
    ) -> Result<(), LanguageError> {
        match ty {
            Type::Bool | Type::Unsigned(_) | Type::Signed(_) => {
                order.extend((start..start + number_width(ty)).rev());
            }
            Type::Array(element, _) | Type::ArrayConst(element, _) => {
                let (width, all) = (self.width(element)?, self.width(ty)?);
                let first = order.len();
                if all > 0 {
                    self.append(element, start, order)?;
                }
                // All elements have the same bit order, so those after the first are copies of it.
                for bit in first + width..first + all {
                    order.push(order[bit - width] + width);
                }
            }
            Type::Tuple(fields) => {
                let mut start = start;
                for field in fields {
                    self.append(field, start, order)?;
                    start += self.width(field)?;
                }
            }
            Type::Struct(name) => self.append_struct(name, ty, start, order)?,
            Type::Enum(name) => {
                let definition = self.program.enum_defs.get(name);
                let tag = tag_width(definition.ok_or_else(|| no_bits(ty))?);
                order.extend((start..start + tag).rev());
                order.extend(start + tag..start + self.width(ty)?);
            }
            Type::Fn(..) | Type::UntypedTopLevelDefinition(..) => return Err(no_bits(ty)),
        }
        Ok(())
    }

    fn append_struct(
        &mut self,
        name: &str,
        ty: &Type,
        mut start: usize,
        order: &mut Vec<usize>,
    ) -> Result<(), LanguageError> {
        let program = self.program;
        let definition = program.struct_defs.get(name).ok_or_else(|| no_bits(ty))?;
        let declared = self.declared.get(name).map_or(&[][..], Vec::as_slice);
        // For each field in the order of the compiler, which sorts fields by name, `sorted` has the
        // index in declaration order. Both sorts are stable.
        let mut sorted: Vec<usize> = (0..declared.len()).collect();
        sorted.sort_by_key(|&index| &declared[index]);
        let names = sorted.iter().map(|&index| &declared[index]);
        if !names.eq(definition.fields.iter().map(|(name, _)| name)) {
            return Err(LanguageError::Fault(format!(
                "the fields of {name} differ from the declared ones"
            )));
        }
        let mut fields = Vec::with_capacity(sorted.len());
        for (place, (_, field)) in sorted.into_iter().zip(&definition.fields) {
            fields.push((place, start, field));
            start += self.width(field)?;
        }
        fields.sort_by_key(|&(place, ..)| place);
        for (_, start, field) in fields {
            self.append(field, start, order)?;
        }
        Ok(())
    }
}

fn number_width(ty: &Type) -> usize {
    match ty {
        Type::Bool => 1,
        Type::Unsigned(UnsignedNumType::U8) | Type::Signed(SignedNumType::I8) => 8,
        Type::Unsigned(UnsignedNumType::U16) | Type::Signed(SignedNumType::I16) => 16,
        Type::Unsigned(UnsignedNumType::U64) | Type::Signed(SignedNumType::I64) => 64,
        // `usize`, and number types that the compiler did not infer, have 32 bits.
        _ => 32,
    }
}

/// Returns the number of bits that an enum uses for the index of its variant.
fn tag_width(definition: &EnumDef) -> usize {
    let max_index = definition.variants.len().saturating_sub(1);
    (usize::BITS - max_index.leading_zeros()) as usize
}

fn no_bits(ty: &Type) -> LanguageError {
    LanguageError::Fault(format!("a value of type {ty} has no bits"))
}
