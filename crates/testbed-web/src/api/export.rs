//! Runs to take away.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{Stream, stream};

use super::{Pairs, Shared, params};
use crate::{
    app::App,
    error::ApiError,
    jobs::unix_ms,
    run::Run,
    store::{Detailed, Filter},
};

/// Runs that are read at once.
const BLOCK: usize = 100;

/// How runs are written.
#[derive(Clone, Copy)]
enum Form {
    Json,
    Lines,
    Csv,
}

pub(super) async fn json(State(app): Shared, pairs: Pairs) -> Result<Response, ApiError> {
    export(app, pairs, Form::Json)
}

pub(super) async fn lines(State(app): Shared, pairs: Pairs) -> Result<Response, ApiError> {
    export(app, pairs, Form::Lines)
}

pub(super) async fn csv(State(app): Shared, pairs: Pairs) -> Result<Response, ApiError> {
    export(app, pairs, Form::Csv)
}

fn export(app: Arc<App>, pairs: Pairs, form: Form) -> Result<Response, ApiError> {
    let mut params = params(pairs)?;
    let filter = Filter::parse(&mut params)?;
    params.finish()?;
    let (kind, name) = match form {
        Form::Json => ("application/json", "runs.json"),
        Form::Lines => ("application/jsonl", "runs.jsonl"),
        Form::Csv => ("text/csv; charset=utf-8", "runs.csv"),
    };
    let disposition = format!("attachment; filename=\"{name}\"");
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_DISPOSITION, disposition),
    ];
    let course = Course {
        app,
        filter,
        form,
        after: None,
        is_first: true,
        is_over: false,
    };
    Ok((headers, Body::from_stream(course.pieces())).into_response())
}

/// An export under way.
struct Course {
    app: Arc<App>,
    filter: Filter,
    form: Form,
    after: Option<i64>,
    is_first: bool,
    is_over: bool,
}

impl Course {
    /// Writes runs as they are read, a block at a time: no export is ever held in memory.
    fn pieces(self) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
        stream::unfold(self, |mut course| async move {
            if course.is_over {
                return None;
            }
            let piece = course.next().await;
            // The browser sees that the download broke off.
            course.is_over |= piece.is_err();
            Some((piece.map_err(std::io::Error::other), course))
        })
    }

    async fn next(&mut self) -> Result<Bytes, String> {
        let (filter, after) = (self.filter.clone(), self.after);
        let read = self
            .app
            .blocking(move |app| Ok(app.store.details(&filter, after, BLOCK)?));
        let block = read.await.map_err(|error| format!("{error:?}"))?;
        let mut text = Vec::new();
        if self.is_first {
            text.extend(self.form.start().into_bytes());
        }
        for (index, detailed) in block.iter().enumerate() {
            let is_first = self.is_first && index == 0;
            (self.form.write(&mut text, detailed, is_first)).map_err(|error| error.to_string())?;
        }
        self.is_first &= block.is_empty();
        self.after = block.last().map(|detailed| detailed.run.id).or(self.after);
        if block.len() < BLOCK {
            self.is_over = true;
            text.extend(self.form.end().bytes());
        }
        Ok(text.into())
    }
}

impl Form {
    fn start(self) -> String {
        match self {
            Self::Json => format!(
                "{{\"format\":1,\"exported_unix_ms\":{},\"runs\":[",
                unix_ms()
            ),
            Self::Lines | Self::Csv => String::new(),
        }
    }

    fn end(self) -> &'static str {
        match self {
            Self::Json => "]}\n",
            Self::Lines | Self::Csv => "",
        }
    }

    fn write(
        self,
        text: &mut Vec<u8>,
        detailed: &Detailed,
        is_first: bool,
    ) -> Result<(), Box<dyn std::error::Error>> {
        match self {
            Self::Json => {
                if !is_first {
                    text.push(b',');
                }
                text.push(b'\n');
                let run = serde_json::to_string(&detailed.run)?;
                let rest = (row_text(&detailed.detail)?)
                    .map_or(String::new(), |row| format!(",\"row\":{row}"));
                let run = run.strip_suffix('}').unwrap_or(&run);
                text.extend(format!("{run}{rest}}}").bytes());
            }
            Self::Lines => {
                if let Some(row) = row_text(&detailed.detail)? {
                    text.extend(row.bytes());
                    text.push(b'\n');
                }
            }
            Self::Csv => {
                let mut writer = (csv::WriterBuilder::new().has_headers(is_first))
                    .terminator(csv::Terminator::CRLF)
                    .from_writer(&mut *text);
                writer.serialize(without_formulas(&detailed.run))?;
                writer.flush()?;
            }
        }
        Ok(())
    }
}

/// Returns the row within a detail, as it stands there.
fn row_text(detail: &str) -> Result<Option<String>, serde_json::Error> {
    #[derive(serde::Deserialize)]
    struct WithRow<'a> {
        #[serde(borrow)]
        row: Option<&'a serde_json::value::RawValue>,
    }

    let with_row: WithRow<'_> = serde_json::from_str(detail)?;
    Ok(with_row.row.map(|row| row.get().to_owned()))
}

/// Keeps a spreadsheet from taking text for a formula.
fn without_formulas(run: &Run) -> Run {
    let safe = |text: &String| match text.chars().next() {
        Some('=' | '+' | '-' | '@' | '\t' | '\r') => format!("'{text}"),
        _ => text.clone(),
    };
    Run {
        error: run.error.as_ref().map(safe),
        circuit: safe(&run.circuit),
        circuit_label: safe(&run.circuit_label),
        scheme: safe(&run.scheme),
        transport: safe(&run.transport),
        used_transport: run.used_transport.as_ref().map(safe),
        scenario: safe(&run.scenario),
        ..run.clone()
    }
}

#[cfg(test)]
mod tests {
    use transpute_testbed::report::fixture::row;

    use super::*;

    fn detailed(label: &str) -> Detailed {
        let row = row("aes128", "eu-us", 5.0);
        let detail = serde_json::json!({ "row": row, "samples": [] }).to_string();
        let run = Run::of_row(&row, label);
        Detailed { run, detail }
    }

    #[test]
    fn formulas_and_commas_stay_text() {
        let mut text = Vec::new();
        for (index, label) in ["=1+1", "a, \"b\""].into_iter().enumerate() {
            Form::Csv
                .write(&mut text, &detailed(label), index == 0)
                .unwrap();
        }
        let text = String::from_utf8(text).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let headers = reader.headers().unwrap().clone();
        assert_eq!(&headers[0], "id");
        let column = headers
            .iter()
            .position(|name| name == "circuit_label")
            .unwrap();
        let labels: Vec<_> = reader
            .records()
            .map(|row| row.unwrap()[column].to_owned())
            .collect();
        assert_eq!(labels, ["'=1+1", "a, \"b\""]);
        assert!(text.ends_with("\r\n"));
    }

    #[test]
    fn rows_come_out_as_they_went_in() {
        let mut text = Vec::new();
        Form::Lines.write(&mut text, &detailed("x"), true).unwrap();
        let read: transpute_testbed::row::Row = serde_json::from_slice(&text).unwrap();
        assert_eq!(read, row("aes128", "eu-us", 5.0));
        let mut text = Vec::new();
        Form::Json.write(&mut text, &detailed("x"), true).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(value["row"]["circuit"], "aes128");
        assert_eq!(value["circuit_label"], "x");
        // Programs of one's own have no row.
        let mut text = Vec::new();
        let none = Detailed {
            detail: "{\"programs\":{}}".to_owned(),
            ..detailed("x")
        };
        Form::Lines.write(&mut text, &none, true).unwrap();
        assert!(text.is_empty());
    }
}
