//! The example as a whole: the function, the protocol with honest and other companies, and the programs.

mod function;
mod hostile;
mod processes;
mod rounds;
mod stage;
