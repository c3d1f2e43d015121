//! What goes to stdout: tables for people, JSON for programs, both from one value.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use clap::{Args, ValueEnum};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::exit::CliError;

/// Interval of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

/// Moves the cursor to the top and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// `-o`, for whatever prints.
#[derive(Debug, Clone, Copy, Args)]
pub struct FormatArg {
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub output: Format,
}

/// `-o` and `--watch`, for lists and shows.
#[derive(Debug, Clone, Copy, Args)]
pub struct OutputArgs {
    #[command(flatten)]
    format: FormatArg,
    /// Refresh every two seconds and print again on change (JSON: one line each time), until Ctrl-C.
    #[arg(long)]
    watch: bool,
}

/// A value that people can read.
pub trait Show: Serialize {
    /// Its text; ends with a line break unless it is empty.
    fn show(&self) -> String;
}

impl FormatArg {
    /// Prints a value.
    pub fn print(self, value: &impl Show) -> Result<(), CliError> {
        match self.output {
            Format::Table => write(&value.show()),
            Format::Json => write(&json(value, serde_json::to_string_pretty)?),
        }
    }

    /// Reports what was done: as text on stderr, so that stdout stays data; as JSON on stdout.
    pub fn tell(self, text: &str, value: &impl Serialize) -> Result<(), CliError> {
        match self.output {
            Format::Table => eprintln!("{text}"),
            Format::Json => write(&json(value, serde_json::to_string_pretty)?)?,
        }
        Ok(())
    }

    /// Prints one value of a stream: JSON on one line.
    pub fn print_line(self, value: &impl Show) -> Result<(), CliError> {
        match self.output {
            Format::Table => write(&value.show()),
            Format::Json => write(&json(value, serde_json::to_string)?),
        }
    }
}

impl OutputArgs {
    /// Prints what `read` returns: once, or with `--watch` again whenever it changes.
    pub async fn print<T: Show>(
        self,
        mut read: impl AsyncFnMut() -> Result<T, CliError>,
    ) -> Result<(), CliError> {
        if !self.watch {
            return self.format.print(&read().await?);
        }
        let clear = self.format.output == Format::Table && io::stdout().is_terminal();
        let mut last = String::new();
        loop {
            let value = read().await?;
            let text = match self.format.output {
                Format::Table => value.show(),
                Format::Json => json(&value, serde_json::to_string)?,
            };
            if text != last {
                write(&if clear { format!("{CLEAR}{text}") } else { text.clone() })?;
                last = text;
            }
            tokio::time::sleep(WATCH_INTERVAL).await;
            if is_reader_gone() {
                return Err(CliError::OutputClosed);
            }
        }
    }
}

fn json<T: Serialize>(value: &T, write: fn(&T) -> serde_json::Result<String>) -> Result<String, CliError> {
    write(value)
        .map(|text| text + "\n")
        .map_err(|error| CliError::Io { doing: "write JSON".to_owned(), source: error.into() })
}

/// `1 znode`, `2 znodes`.
pub fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Writes to stdout.
pub fn write(text: &str) -> Result<(), CliError> {
    write_bytes(text.as_bytes())
}

/// Writes bytes that may not be text to stdout.
pub fn write_bytes(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(from_stdout)
}

/// Waits until the reader of stdout has gone: for commands that may have nothing to write for a long time.
pub async fn reader_gone() -> CliError {
    while !is_reader_gone() {
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
    CliError::OutputClosed
}

/// Whether the reader of a pipe has gone. A write would tell, too, but `--watch` writes only changes.
fn is_reader_gone() -> bool {
    let stdout = io::stdout();
    let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&now)).is_ok() && asked[0].revents().contains(PollFlags::ERR)
}

/// Maps a broken pipe to an error that is reported silently.
pub fn from_stdout(source: io::Error) -> CliError {
    match source.kind() {
        io::ErrorKind::BrokenPipe => CliError::OutputClosed,
        _ => CliError::Io { doing: "write to stdout".to_owned(), source },
    }
}

/// A value shown as a row of a table.
pub trait Row: Serialize {
    /// Column heads.
    const HEADS: &[&str];
    /// Shown instead of an empty table.
    const NONE: Option<&str> = None;

    /// One cell per column.
    fn cells(&self) -> Vec<String>;
}

/// Rows: a table as text, a list as JSON.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct Rows<T>(pub Vec<T>);

impl<T: Row> Show for Rows<T> {
    fn show(&self) -> String {
        if let Some(none) = T::NONE.filter(|_| self.0.is_empty()) {
            return format!("{none}\n");
        }
        let mut table = Table::new(T::HEADS.iter().copied());
        self.0.iter().for_each(|row| table.row(row.cells()));
        table.text()
    }
}

/// Rows of text in aligned columns.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these heads.
    pub fn new<'a>(heads: impl IntoIterator<Item = &'a str>) -> Self {
        Self { rows: vec![heads.into_iter().map(str::to_owned).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table as text.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let line = |row: &Vec<String>| {
            let cells: String =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}  ")).collect();
            cells.trim_end().to_owned() + "\n"
        };
        self.rows.iter().map(line).collect()
    }
}

/// Escapes control characters; quotes are harmless and stay.
fn escaped(text: &str) -> String {
    text.chars()
        .map(
            |char| {
                if matches!(char, '\'' | '"') { char.to_string() } else { char.escape_debug().to_string() }
            },
        )
        .collect()
}

/// Escapes text that others wrote, so that it cannot control our terminal; `-` if there is none.
pub fn escape_for_terminal(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).map_or("-".to_owned(), escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["NAME", "BYTES"]);
        table.row(["a".to_owned(), "12".to_owned()]);
        table.row(["längere".to_owned(), String::new()]);
        assert_eq!(table.text(), "NAME     BYTES\na        12\nlängere\n");
    }

    #[test]
    fn rows_are_a_table_to_people_and_a_list_to_programs() {
        #[derive(Serialize)]
        struct One(u32);
        impl Row for One {
            const HEADS: &[&str] = &["NUMBER"];
            const NONE: Option<&str> = Some("no numbers");

            fn cells(&self) -> Vec<String> {
                vec![self.0.to_string()]
            }
        }
        let rows = Rows(vec![One(7), One(8)]);
        assert_eq!(
            (rows.show(), json(&rows, serde_json::to_string).unwrap()),
            ("NUMBER\n7\n8\n".into(), "[7,8]\n".into())
        );
        assert_eq!(Rows::<One>(Vec::new()).show(), "no numbers\n");
    }
}
