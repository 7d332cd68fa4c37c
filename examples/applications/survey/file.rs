//! Files of tables: plain answers as comma-separated values, and shares of them.
//!
//! A file of shares has comma-separated decimal numbers below a header such as `transpute-shares 1
//! table=0123456789abcdef columns=20 width=3`. Both files of a table have the same `table` number,
//! so that parties detect shares of different tables.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write},
    path::Path,
};

use transpute_applications::Lines;

use crate::{
    error::{Problem, TableError, shortened},
    table::{MAX_CELLS, MAX_COLUMNS, MAX_WIDTH, Table},
};

/// Maximum length of a line, in bytes: 12 for each cell (10 digits, a comma and a space), and the
/// line break.
const MAX_LINE: usize = 12 * MAX_COLUMNS + 2;

/// The first words of a file of shares: its type and version.
const MAGIC: [&str; 2] = ["transpute-shares", "1"];

/// One party's shares of a table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Shares {
    /// The random number of the table. It is equal in the files of both parties.
    pub(crate) tag: u64,
    /// The XOR of both parties' tables is the table of answers.
    pub(crate) table: Table,
}

impl Shares {
    /// Reads a file of shares.
    pub(crate) fn open(path: &Path) -> Result<Self, TableError> {
        let mut lines = Lines::open(path, MAX_LINE)?;
        let Some(first) = lines.next_line()? else {
            return Err(wrong(&lines, Problem::Header));
        };
        let header = header(&first).map_err(|problem| wrong(&lines, problem))?;
        let table = rows(lines, None, Some(header.columns), header.width)?;
        Ok(Self {
            tag: header.tag,
            table,
        })
    }

    /// Writes a file of shares that only its owner may read.
    pub(crate) fn save(&self, path: &Path) -> Result<(), TableError> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let header = format!(
            "{} {} table={:016x} columns={} width={}\n",
            MAGIC[0],
            MAGIC[1],
            self.tag,
            self.table.columns(),
            self.table.width()
        );
        written(
            path,
            options
                .open(path)
                .and_then(|file| write(file, &header, &self.table)),
        )
    }
}

/// Reads plain answers, which must be below `values`. Each line has comma-separated numbers. The
/// first line may have the names of the columns.
pub(crate) fn read_answers(path: &Path, width: u32, values: u64) -> Result<Table, TableError> {
    let mut lines = Lines::open(path, MAX_LINE)?;
    let Some(first) = lines.next_line()? else {
        return Err(TableError::Empty { path: path.into() });
    };
    let begins_with_number = |cell: &str| cell.trim().starts_with(|c: char| c.is_ascii_digit());
    let (first, columns) = match first.split(',').next().is_some_and(begins_with_number) {
        true => (Some(first), None),
        false => (None, Some(first.split(',').count())),
    };
    if let Some(found) = columns.filter(|&columns| columns > MAX_COLUMNS) {
        return Err(wrong(&lines, too_many_columns(found)));
    }
    let table = rows(lines, first, columns, width)?;
    let wrong = (table.iter().enumerate()).find_map(|(row, cells)| {
        Some((row, cells.iter().find(|&&cell| u64::from(cell) >= values)?))
    });
    match wrong {
        None => Ok(table),
        Some((row, &found)) => Err(TableError::Line {
            path: path.into(),
            line: row + 1 + usize::from(columns.is_some()),
            problem: Problem::TooLarge {
                found: found.into(),
                below: values,
            },
        }),
    }
}

/// Writes plain answers below a line with the names of the columns.
pub(crate) fn write_answers(path: &Path, table: &Table) -> Result<(), TableError> {
    let names: Vec<String> = (1..=table.columns()).map(|n| format!("q{n}")).collect();
    let header = names.join(",") + "\n";
    written(
        path,
        File::create(path).and_then(|file| write(file, &header, table)),
    )
}

fn write(file: File, header: &str, table: &Table) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    file.write_all(header.as_bytes())?;
    for row in table.iter() {
        for (column, cell) in row.iter().enumerate() {
            if column > 0 {
                file.write_all(b",")?;
            }
            write!(file, "{cell}")?;
        }
        file.write_all(b"\n")?;
    }
    file.flush()
}

fn written(path: &Path, outcome: io::Result<()>) -> Result<(), TableError> {
    outcome.map_err(|source| TableError::Write {
        path: path.into(),
        source,
    })
}

/// The header of a file of shares.
struct Header {
    tag: u64,
    columns: usize,
    width: u32,
}

fn header(line: &str) -> Result<Header, Problem> {
    let mut words = line.split_ascii_whitespace();
    if [words.next(), words.next()] != MAGIC.map(Some) {
        return Err(Problem::Header);
    }
    let mut field = |name: &'static str| {
        let word = words.next().ok_or(Problem::Header)?;
        let value = (word.strip_prefix(name)).and_then(|rest| rest.strip_prefix('='));
        value.ok_or(Problem::Header)
    };
    let (tag, columns, width) = (field("table")?, field("columns")?, field("width")?);
    if words.next().is_some() {
        return Err(Problem::Header);
    }
    let wrong = |name, found, expected: &str| Problem::Field {
        name,
        found: shortened(found),
        expected: expected.to_owned(),
    };
    let is_hex = tag.len() == 16 && tag.bytes().all(|byte| byte.is_ascii_hexdigit());
    let tag = (u64::from_str_radix(tag, 16).ok().filter(|_| is_hex))
        .ok_or_else(|| wrong("table", tag, "16 hexadecimal digits"))?;
    let columns = (columns.parse().ok())
        .filter(|columns| (1..=MAX_COLUMNS).contains(columns))
        .ok_or_else(|| wrong("columns", columns, "a number from 1 to 4096"))?;
    let width = (width.parse().ok())
        .filter(|width| (1..=MAX_WIDTH).contains(width))
        .ok_or_else(|| wrong("width", width, "a number of bits from 1 to 32"))?;
    Ok(Header {
        tag,
        columns,
        width,
    })
}

fn too_many_columns(found: usize) -> Problem {
    Problem::Field {
        name: "columns",
        found: found.to_string(),
        expected: "a number from 1 to 4096".to_owned(),
    }
}

/// Reads the remaining lines as rows of numbers of `width` bits. `first` is a row before them, if
/// one was already read.
fn rows(
    mut lines: Lines,
    first: Option<String>,
    mut columns: Option<usize>,
    width: u32,
) -> Result<Table, TableError> {
    let mut cells = Vec::new();
    let mut next = match first {
        Some(line) => Some(line),
        None => lines.next_line()?,
    };
    while let Some(line) = next {
        let before = cells.len();
        for cell in line.split(',') {
            if cells.len() == MAX_CELLS {
                return Err(wrong(&lines, Problem::TooMany { limit: MAX_CELLS }));
            }
            cells.push(number(cell, width).map_err(|problem| wrong(&lines, problem))?);
        }
        let found = cells.len() - before;
        let expected = *columns.get_or_insert(found);
        if found != expected {
            return Err(wrong(&lines, Problem::Cells { found, expected }));
        }
        if expected > MAX_COLUMNS {
            return Err(wrong(&lines, too_many_columns(expected)));
        }
        next = lines.next_line()?;
    }
    match columns {
        Some(columns) if !cells.is_empty() => Table::new(columns, width, cells),
        _ => Err(TableError::Empty {
            path: lines.path().into(),
        }),
    }
}

fn number(cell: &str, width: u32) -> Result<u32, Problem> {
    let cell = cell.trim();
    let is_number = !cell.is_empty() && cell.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 =
        (cell.parse().ok().filter(|_| is_number)).ok_or_else(|| Problem::not_a_number(cell))?;
    u32::try_from(number)
        .ok()
        .filter(|_| number >> width == 0)
        .ok_or(Problem::TooLarge {
            found: number,
            below: 1 << width,
        })
}

/// Creates the error for the line that was read last, which has this problem.
fn wrong(lines: &Lines, problem: Problem) -> TableError {
    TableError::Line {
        path: lines.path().into(),
        line: lines.number().max(1),
        problem,
    }
}
