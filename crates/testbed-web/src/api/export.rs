//! Handlers that download runs as JSON, JSON Lines or CSV.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{Stream, stream};

use super::{QueryPairs, Shared, params};
use crate::{
    app::App,
    error::ApiError,
    jobs::unix_ms,
    run::Run,
    store::{Detailed, Filter},
};

/// Number of runs that are read from the history in one query.
const PAGE_RUNS: usize = 100;

/// The format of an export.
#[derive(Clone, Copy)]
enum Format {
    Json,
    Lines,
    Csv,
}

pub(super) async fn json(State(app): Shared, pairs: QueryPairs) -> Result<Response, ApiError> {
    export(app, pairs, Format::Json)
}

pub(super) async fn lines(State(app): Shared, pairs: QueryPairs) -> Result<Response, ApiError> {
    export(app, pairs, Format::Lines)
}

pub(super) async fn csv(State(app): Shared, pairs: QueryPairs) -> Result<Response, ApiError> {
    export(app, pairs, Format::Csv)
}

fn export(app: Arc<App>, pairs: QueryPairs, format: Format) -> Result<Response, ApiError> {
    let mut params = params(pairs)?;
    let filter = Filter::parse(&mut params)?;
    params.finish()?;
    let (kind, name) = match format {
        Format::Json => ("application/json", "runs.json"),
        Format::Lines => ("application/jsonl", "runs.jsonl"),
        Format::Csv => ("text/csv; charset=utf-8", "runs.csv"),
    };
    let disposition = format!("attachment; filename=\"{name}\"");
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_DISPOSITION, disposition),
    ];
    let export = Export {
        app,
        filter,
        format,
        after: None,
        is_first: true,
        is_over: false,
    };
    Ok((headers, Body::from_stream(export.pieces())).into_response())
}

/// The state of a download that is in progress.
struct Export {
    app: Arc<App>,
    filter: Filter,
    format: Format,
    after: Option<i64>,
    is_first: bool,
    is_over: bool,
}

impl Export {
    /// Streams the runs in blocks of at most [`PAGE_RUNS`], so memory does not grow with the number
    /// of runs.
    fn pieces(self) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
        stream::unfold(self, |mut export| async move {
            if export.is_over {
                return None;
            }
            let piece = export.next().await;
            // An error aborts the response, so the browser reports a failed download.
            export.is_over |= piece.is_err();
            Some((piece.map_err(std::io::Error::other), export))
        })
    }

    async fn next(&mut self) -> Result<Bytes, String> {
        let (filter, after) = (self.filter.clone(), self.after);
        let read = self
            .app
            .blocking(move |app| Ok(app.store.details(&filter, after, PAGE_RUNS)?));
        let block = read.await.map_err(|error| format!("{error:?}"))?;
        let mut text = Vec::new();
        if self.is_first {
            text.extend(self.format.start().into_bytes());
        }
        for (index, detailed) in block.iter().enumerate() {
            let is_first = self.is_first && index == 0;
            (self.format.write(&mut text, detailed, is_first))
                .map_err(|error| error.to_string())?;
        }
        self.is_first &= block.is_empty();
        self.after = block.last().map(|detailed| detailed.run.id).or(self.after);
        if block.len() < PAGE_RUNS {
            self.is_over = true;
            text.extend(self.format.end().bytes());
        }
        Ok(text.into())
    }
}

impl Format {
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
                let rest = (record_text(&detailed.detail)?)
                    .map_or(String::new(), |record| format!(",\"row\":{record}"));
                let run = run.strip_suffix('}').unwrap_or(&run);
                text.extend(format!("{run}{rest}}}").bytes());
            }
            Self::Lines => {
                if let Some(record) = record_text(&detailed.detail)? {
                    text.extend(record.bytes());
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

/// Returns the text of the record in the details of a run, unchanged. None for users' programs,
/// which have no record.
fn record_text(detail: &str) -> Result<Option<String>, serde_json::Error> {
    #[derive(serde::Deserialize)]
    struct WithRecord<'a> {
        #[serde(borrow, rename = "row")]
        record: Option<&'a serde_json::value::RawValue>,
    }

    let with_record: WithRecord<'_> = serde_json::from_str(detail)?;
    Ok(with_record.record.map(|record| record.get().to_owned()))
}

/// Adds an apostrophe before each text that a spreadsheet would evaluate as a formula.
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
    use transpute_testbed::report::fixture::record;

    use super::*;

    fn detailed(label: &str) -> Detailed {
        let record = record("aes128", "eu-us", 5.0);
        let detail = serde_json::json!({ "row": record, "samples": [] }).to_string();
        let run = Run::of_record(&record, label);
        Detailed { run, detail }
    }

    #[test]
    fn csv_keeps_formulas_and_commas_as_text() {
        let mut text = Vec::new();
        for (index, label) in ["=1+1", "a, \"b\""].into_iter().enumerate() {
            Format::Csv
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
            .map(|record| record.unwrap()[column].to_owned())
            .collect();
        assert_eq!(labels, ["'=1+1", "a, \"b\""]);
        assert!(text.ends_with("\r\n"));
    }

    #[test]
    fn exported_records_equal_the_stored_ones() {
        let mut text = Vec::new();
        Format::Lines
            .write(&mut text, &detailed("x"), true)
            .unwrap();
        let read: transpute_testbed::record::RunRecord = serde_json::from_slice(&text).unwrap();
        assert_eq!(read, record("aes128", "eu-us", 5.0));
        let mut text = Vec::new();
        Format::Json.write(&mut text, &detailed("x"), true).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(value["row"]["circuit"], "aes128");
        assert_eq!(value["circuit_label"], "x");
        // Runs of users' programs have no record.
        let mut text = Vec::new();
        let none = Detailed {
            detail: "{\"programs\":{}}".to_owned(),
            ..detailed("x")
        };
        Format::Lines.write(&mut text, &none, true).unwrap();
        assert!(text.is_empty());
    }
}
