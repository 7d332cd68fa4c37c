//! The bit layout of values, in the order of the language and in the order of circuits.

use std::collections::HashMap;

use garble_lang::{
    TypedProgram,
    ast::{EnumDef, Type, Variant},
    token::{SignedNumType, UnsignedNumType},
};

use crate::LanguageError;

/// Maximum number of bits of a value: the default limit on all input bits of a circuit file.
const MAX_VALUE_BITS: usize = 1 << 24;

/// Computes the widths and bit orders of types.
pub(crate) struct Layout<'a> {
    program: &'a TypedProgram,
    /// The array lengths that constants define.
    sizes: &'a HashMap<String, usize>,
    /// The struct fields in declaration order; the program has them sorted by name.
    declared: &'a HashMap<String, Vec<String>>,
    /// Widths of structs and enums; `None` while a width is being computed.
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

    /// Returns the number of bits of a value.
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

    /// Returns the number of bits of the fields of the largest variant.
    fn fields_width(&mut self, definition: &EnumDef) -> Result<usize, LanguageError> {
        (definition.variants.iter()).try_fold(0, |max: usize, variant| {
            Ok(match variant {
                Variant::Unit(_) => max,
                Variant::Tuple(_, fields) => max.max(self.sum(fields)?),
            })
        })
    }

    /// Rejects types that contain themselves, and parameters and results that are too wide, since
    /// the compiler would take very long or not terminate. Types whose widths depend on constants
    /// pass.
    pub(crate) fn check_types<'t>(
        &mut self,
        values: impl IntoIterator<Item = &'t Type>,
    ) -> Result<(), LanguageError> {
        let program = self.program;
        let structs = program.struct_defs.keys().cloned().map(Type::Struct);
        let enums = program.enum_defs.keys().cloned().map(Type::Enum);
        for ty in structs.chain(enums) {
            // A type that no value uses may have any width.
            if let Err(error @ LanguageError::Recursive { .. }) = self.width(&ty) {
                return Err(error);
            }
            // Remove types whose computation failed, which are not recursive.
            self.known.retain(|_, width| width.is_some());
        }
        for ty in values {
            if let Err(error @ LanguageError::TooWide { .. }) = self.width(ty) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns the bit order of a value in the circuit: for each of its bits, the index of the same
    /// bit in the order of the language.
    pub(crate) fn order(&mut self, ty: &Type) -> Result<Vec<usize>, LanguageError> {
        let mut order = Vec::with_capacity(self.width(ty)?);
        self.append(ty, 0, &mut order)?;
        Ok(order)
    }

    /// Appends the bit order of a value that starts at bit `start` in the language.
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
                // All elements have the same bit order.
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
        // For each field in the compiler's sorted order, `sorted` has the index in declaration
        // order. Both sorts are stable.
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

/// Returns the number of bits of the variant's index.
fn tag_width(definition: &EnumDef) -> usize {
    let max_index = definition.variants.len().saturating_sub(1);
    (usize::BITS - max_index.leading_zeros()) as usize
}

fn no_bits(ty: &Type) -> LanguageError {
    LanguageError::Fault(format!("a value of type {ty} has no bits"))
}
