//! Where the bits of values are: in the order of the language, and in ours.

use std::collections::HashMap;

use garble_lang::{
    TypedProgram,
    ast::{EnumDef, Type, Variant},
    token::{SignedNumType, UnsignedNumType},
};

use crate::LanguageError;

/// The most bits of a value: what files of circuits may have of all of them.
const MAX_BITS: usize = 1 << 24;

/// How wide types are.
pub(crate) struct Layout<'a> {
    program: &'a TypedProgram,
    /// The lengths of arrays that constants give.
    sizes: &'a HashMap<String, usize>,
    /// The fields of structs as they were declared; the program has them sorted by name.
    declared: &'a HashMap<String, Vec<String>>,
    /// Widths of structs and enums; nothing for those under way.
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

    /// Returns how many bits a value has.
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
        if width > MAX_BITS {
            return Err(LanguageError::TooWide {
                ty: ty.to_string(),
                most: MAX_BITS,
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

    /// Returns how many bits the fields of the largest variant have.
    fn fields_width(&mut self, definition: &EnumDef) -> Result<usize, LanguageError> {
        (definition.variants.iter()).try_fold(0, |most: usize, variant| {
            Ok(match variant {
                Variant::Unit(_) => most,
                Variant::Tuple(_, fields) => most.max(self.sum(fields)?),
            })
        })
    }

    /// Refuses types that hold themselves, and parameters and results that are too wide: the compiler would go on for
    /// ever, or nearly. Types whose widths depend on constants are let through.
    pub(crate) fn check_types<'t>(
        &mut self,
        values: impl IntoIterator<Item = &'t Type>,
    ) -> Result<(), LanguageError> {
        let program = self.program;
        let structs = program.struct_defs.keys().cloned().map(Type::Struct);
        let enums = program.enum_defs.keys().cloned().map(Type::Enum);
        for ty in structs.chain(enums) {
            // One that is used nowhere may have any width.
            if let Err(error @ LanguageError::Recursive { .. }) = self.width(&ty) {
                return Err(error);
            }
            // What failed half-way is none that holds itself.
            self.known.retain(|_, width| width.is_some());
        }
        for ty in values {
            if let Err(error @ LanguageError::TooWide { .. }) = self.width(ty) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns the order of ours: which bit of the language's value each of our bits is.
    pub(crate) fn order(&mut self, ty: &Type) -> Result<Vec<usize>, LanguageError> {
        let mut order = Vec::with_capacity(self.width(ty)?);
        self.append(ty, 0, &mut order)?;
        Ok(order)
    }

    /// Appends the order of a value that starts at bit `start` of the language's.
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
                // Each bit has its place as in the element before.
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
        // Which of the declared fields each of the sorted ones is: the compiler's sort is stable too.
        let mut sorted: Vec<usize> = (0..declared.len()).collect();
        sorted.sort_by_key(|&index| &declared[index]);
        let names = sorted.iter().map(|&index| &declared[index]);
        if !names.eq(definition.fields.iter().map(|(name, _)| name)) {
            return Err(LanguageError::Fault(format!(
                "the fields of {name} are not those that were declared"
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
        // `usize` too, and numbers of no type that is known.
        _ => 32,
    }
}

/// Returns how many bits tell the variants apart.
fn tag_width(definition: &EnumDef) -> usize {
    let most = definition.variants.len().saturating_sub(1);
    (usize::BITS - most.leading_zeros()) as usize
}

fn no_bits(ty: &Type) -> LanguageError {
    LanguageError::Fault(format!("a value of type {ty} has no bits"))
}
