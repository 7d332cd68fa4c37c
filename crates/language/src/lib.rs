//! Functions in a small Rust-like language, as circuits.
//!
//! The language is [Garble](https://sine-fdn.github.io/garble-lang), and its compiler the crate `garble_lang`. Here its circuits become
//! ours: every parameter of the function is an input value, and the result is output value 0.
//!
//! ```
//! use transpute_circuit::Bits;
//! use transpute_language::{Options, compile};
//!
//! let source = "pub fn main(price: u32, bid: u32) -> bool { bid >= price }";
//! let compiled = compile(source, &Options::default())?;
//! assert_eq!(compiled.circuit.input_widths(), [32, 32]);
//! let inputs = Bits::from_u128(900 << 32 | 700, 64);
//! assert_eq!(compiled.circuit.evaluate(&inputs)?, Bits::from_u128(1, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Bits
//! The first wire of a number is its least significant bit, as everywhere here; the language has it the other way round. The
//! elements of arrays and tuples and the fields of structs follow each other, the first one first. A `bool` has one bit and a `usize` 32. Of an
//! enum the number of the variant comes first, in as few bits as it takes, and then the fields of the variant in the order of
//! the language, most significant bit first, because where numbers are depends on the variant. A function whose only parameter
//! is an array has an input value for each element.
//!
//! # Panics of programs
//! Overflow, division by zero and an index beyond an array make a program of the language panic. A circuit cannot stop: it
//! goes on with a result that means nothing, and says so in an output value of its own, which follows the result
//! ([`Panics::Output`]). It is there only if the compiler could not rule panics out. Where a program panics is not told.
//!
//! # What hostile sources can do
//! The compiler is not ours. It panics on some sources, which is an error here ([`LanguageError::Fault`]), and it recurses as
//! deep as a source is nested, for which it gets a large stack; sources are bounded in length and nesting. It has no bound on memory and time: a loop over an array of
//! billions is a short source. Compile what comes from others in a process with limits, as the `transpute` command does.

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

/// The longest source, in bytes. It bounds how deep a source can be nested.
pub const MAX_SOURCE_BYTES: usize = 64 << 10;

/// The stack of the compiler in bytes: it takes a few kilobytes for each byte that can open another level. The system gives it
/// memory only as far as it is used.
const STACK_BYTES: usize = 1 << 30;

/// What a circuit says of panics of its program.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Panics {
    /// Whether the program has panicked is the last output value, of one bit, if it can.
    #[default]
    Output,
    /// Nothing: overflows wrap, and what an impossible division or index gives is undefined.
    Ignore,
}

/// What to compile of a source.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Options {
    /// The function.
    pub function: String,
    /// Values of the constants that the source leaves open, by `PARTY::NAME`.
    pub constants: Vec<(String, String)>,
    /// What becomes of panics.
    pub panics: Panics,
}

impl Default for Options {
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
    /// The function as a circuit.
    pub circuit: Circuit,
    /// What the input values are: `name: type`.
    pub inputs: Vec<String>,
    /// What the output values are: the type of the result, and `panic: bool`.
    pub outputs: Vec<String>,
}

/// Compiles a function of a source.
///
/// # Errors
/// [`LanguageError`].
pub fn compile(source: &str, options: &Options) -> Result<Compiled, LanguageError> {
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
        // A thread of its own has the stack, and ends where the compiler panics: nothing of it is used any more.
        (thread.join()).unwrap_or_else(|panic| Err(LanguageError::Fault(text_of(&*panic))))
    })
}

fn compile_here(source: &str, options: &Options) -> Result<Compiled, LanguageError> {
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

/// Reads the values of constants, as their types want them.
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
            return Err(wrong("PARTY::NAME is wanted"));
        };
        let declared = program.const_deps.get(party);
        let Some((ty, _)) = declared.and_then(|party| party.get(name)) else {
            return Err(wrong("the program does not ask for it"));
        };
        let value = Literal::parse(program, ty, text)
            .map_err(|_| wrong(&format!("{text:?} is no {ty}")))?;
        let known: &mut HashMap<_, _> = constants.entry(party.to_owned()).or_default();
        if known.insert(name.to_owned(), value).is_some() {
            return Err(wrong("it is given twice"));
        }
    }
    Ok(constants)
}

/// Returns what a thread said when it panicked, on one line.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = (panic.downcast_ref::<String>().map(String::as_str))
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it does not say why");
    error::one_line(text)
}
