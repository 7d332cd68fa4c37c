//! Compiles functions in a small Rust-like language to circuits.
//!
//! The language is [Garble](https://sine-fdn.github.io/garble-lang), and its compiler is the crate
//! `garble_lang`. This crate calls the compiler and converts its circuits to [`Circuit`]s. Every
//! parameter of the function is an input value, and the result is output value 0.
//!
//! ```
//! use transpute_circuit::Bits;
//! use transpute_language::{CompileOptions, compile};
//!
//! let source = "pub fn main(price: u32, bid: u32) -> bool { bid >= price }";
//! let compiled = compile(source, &CompileOptions::default())?;
//! assert_eq!(compiled.circuit.input_widths(), [32, 32]);
//! let inputs = Bits::from_u128(900 << 32 | 700, 64);
//! assert_eq!(compiled.circuit.evaluate(&inputs)?, Bits::from_u128(1, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Bit order
//! The first wire of a number is its least significant bit. This is the reverse of the bit order in
//! the compiler's circuits. Arrays and tuples are the concatenation of their elements, and structs
//! that of their fields in declaration order. A `bool` has one bit and a `usize` has 32.
//!
//! An enum starts with the index of its variant, in the fewest bits that can hold all indices. The
//! fields of the variant follow in the bit order of the compiler's circuits, most significant bit
//! first. They are not reordered, because their positions depend on the variant.
//!
//! A function whose only parameter is an array has one input value per element.
//!
//! # Panics of programs
//! A program of the language panics on overflow, division by zero, and an index out of bounds. A
//! circuit cannot stop: it continues with a meaningless result and sets a panic flag, which is an
//! output value after the result ([`Panics::Output`]). The flag is missing if the compiler can rule
//! out panics. The source position of the panic is not an output.
//!
//! # Untrusted sources
//! The compiler is a third-party crate. It panics on some sources. [`compile`] catches the panic
//! and returns [`LanguageError::Fault`]. The compiler recurses once per nested level of a source.
//! Therefore it runs with a large stack, and the length and the nesting of sources are limited.
//!
//! The compiler's memory and time are not limited: even a short source can loop over an array of
//! billions of elements. Compile untrusted sources in a process with resource limits, as the
//! `transpute` command does.

#![forbid(unsafe_code)]

mod convert;
mod declared;
mod error;
mod layout;
mod nesting;

use std::{any::Any, collections::HashMap, thread};

use garble_lang::{TypedProgram, literal::Literal};
use transpute_circuit::Circuit;

pub use error::LanguageError;
use layout::Layout;

/// Maximum length of a source, in bytes. It also limits how deeply expressions can be nested, and
/// with that the compiler's use of stack.
pub const MAX_SOURCE_BYTES: usize = 64 << 10;

/// Stack size of the compiler's thread, in bytes. The compiler uses a few kilobytes of stack for
/// each nested level of the source. The operating system provides only the pages that are used.
const STACK_BYTES: usize = 1 << 30;

/// The behaviour of a circuit for inputs with which the program would panic.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Panics {
    /// The circuit sets a panic flag of one bit, which is the last output value. The circuit has no
    /// flag if the program cannot panic.
    #[default]
    Output,
    /// The circuit has no panic flag. Arithmetic overflows wrap. A division by zero or an index out
    /// of bounds leads to an undefined result.
    Ignore,
}

/// Options of the compilation.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct CompileOptions {
    /// The name of the function to compile.
    pub function: String,
    /// The values of the constants that the source declares without a value. Each pair is the name
    /// `PARTY::NAME` of a constant, and its value as a literal of the language.
    pub constants: Vec<(String, String)>,
    /// The behaviour of the circuit for inputs with which the program would panic.
    pub panics: Panics,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            function: "main".to_owned(),
            constants: Vec::new(),
            panics: Panics::default(),
        }
    }
}

/// A compiled function.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// The circuit that computes the function.
    pub circuit: Circuit,
    /// A description of each input value, in the form `name: type`.
    pub inputs: Vec<String>,
    /// A description of each output value: the type of the result, and `panic: bool` if the circuit
    /// has a panic flag.
    pub outputs: Vec<String>,
}

/// Compiles a function of the program `source` to a circuit.
///
/// # Errors
/// Returns [`LanguageError`] if the source or the options have an error, or if the compiler fails.
pub fn compile(source: &str, options: &CompileOptions) -> Result<Compiled, LanguageError> {
    if source.len() > MAX_SOURCE_BYTES {
        return Err(LanguageError::TooLong {
            found: source.len(),
        });
    }
    nesting::check(source)?;
    let compiling = || compile_here(source, options);
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, compiling)?;
        // The thread has the large stack, and a panic of the compiler ends only this thread. No
        // shared state remains afterwards.
        (thread.join()).unwrap_or_else(|panic| Err(LanguageError::Fault(text_of(&*panic))))
    })
}

fn compile_here(source: &str, options: &CompileOptions) -> Result<Compiled, LanguageError> {
    let program = garble_lang::check(source).map_err(LanguageError::of)?;
    let Some(function) = program.fn_defs.get(&options.function) else {
        return Err(LanguageError::unknown_function(&options.function, &program));
    };
    let parameters = function.params.iter().map(|parameter| &parameter.ty);
    let declared = declared::fields(source);
    Layout::new(&program, &HashMap::new(), &declared)
        .check_types(parameters.chain([&function.ty]))?;
    let constants = constants(&program, &options.constants)?;
    let (circuit, function, sizes) = program
        .compile_with_constants(&options.function, constants)
        .map_err(LanguageError::of)?;
    let mut layout = Layout::new(&program, &sizes, &declared);
    convert::convert(&circuit, function, &mut layout, options.panics)
}

/// Parses the values of constants according to the types that the program declares. The keys of the
/// result are the party and the name.
fn constants(
    program: &TypedProgram,
    given: &[(String, String)],
) -> Result<HashMap<String, HashMap<String, Literal>>, LanguageError> {
    let mut constants: HashMap<_, HashMap<_, _>> = HashMap::new();
    for (path, text) in given {
        let wrong = |problem: &str| LanguageError::Constant {
            constant: path.clone(),
            problem: problem.to_owned(),
        };
        let Some((party, name)) = path.split_once("::") else {
            return Err(wrong("expected PARTY::NAME"));
        };
        let declared = program.const_deps.get(party);
        let Some((ty, _)) = declared.and_then(|party| party.get(name)) else {
            return Err(wrong("the program does not declare it"));
        };
        let value = Literal::parse(program, ty, text)
            .map_err(|_| wrong(&format!("{text:?} is not a {ty}")))?;
        let known: &mut HashMap<_, _> = constants.entry(party.to_owned()).or_default();
        if known.insert(name.to_owned(), value).is_some() {
            return Err(wrong("it is given twice"));
        }
    }
    Ok(constants)
}

/// Returns the message of a panic, on one line.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = (panic.downcast_ref::<String>().map(String::as_str))
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it panicked without a message");
    error::one_line(text)
}
