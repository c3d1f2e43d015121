//! Errors as replies: `application/problem+json`, with the exit code and the help of the command line.

use menagerie_flows::FlowError;
use menagerie_flows::submission::SubmissionError;
use menagerie_kernel::{CallError, whole};
use menagerie_pipelines::PipelineError;
use menagerie_queues::QueueError;
use menagerie_slots::SlotsError;
use menagerie_types::explain::{Explain, exit_code};
use schemars::JsonSchema;
use serde::Serialize;

/// Why a request was not answered as asked (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// Always `about:blank`: the status says what kind of problem it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What failed, and why.
    pub detail: String,
    /// What to try; not there if the error is self-explanatory.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub help: String,
    /// The exit code with which the command line reports the same error.
    pub code: u8,
    /// Seconds to wait before the next attempt; sent as `Retry-After`, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
}

impl Problem {
    /// A problem with this status.
    pub fn new(status: u16, detail: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            kind: "about:blank".to_owned(),
            title: title(status).to_owned(),
            status,
            detail: detail.into(),
            help: help.into(),
            code: match status {
                400..=404 | 405 | 413 | 415 | 422 => exit_code::USAGE,
                429 | 503 => exit_code::NOT_NOW,
                _ => exit_code::FAILED,
            },
            retry_after_s: None,
        }
    }

    /// A request that makes no sense.
    pub fn bad(detail: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(400, detail, help)
    }

    /// An address where there is nothing.
    pub fn missing(detail: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(404, detail, help)
    }

    /// Too much at once: come again after so many seconds.
    pub fn busy(status: u16, detail: impl Into<String>, retry_after_s: u64) -> Self {
        let help = format!("try again in {retry_after_s} s");
        Self { retry_after_s: Some(retry_after_s), ..Self::new(status, detail, help) }
    }

    fn explained(error: &impl Explain) -> Self {
        let code = error.exit_code();
        let status = match code {
            exit_code::USAGE => 400,
            exit_code::UNAVAILABLE | exit_code::NOT_NOW | exit_code::LOST => 503,
            exit_code::DATA => 500,
            _ => 409,
        };
        Self { code, ..Self::new(status, whole(error).to_string(), error.help()) }
    }

    fn with_status(self, status: u16) -> Self {
        Self { status, title: title(status).to_owned(), ..self }
    }
}

fn title(status: u16) -> &'static str {
    match status {
        400 => "Bad request",
        401 => "Who are you?",
        403 => "Not allowed",
        404 => "Not found",
        405 => "Method not allowed",
        408 => "Too slow",
        409 => "Refused as things stand",
        413 => "Too large",
        415 => "Unsupported media type",
        421 => "Wrong host",
        429 => "Too many attempts",
        503 => "Not available now",
        _ => "Internal error",
    }
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        let is_missing = matches!(error, CallError::NoZnode { .. });
        let problem = Self::explained(&error);
        if is_missing { problem.with_status(404) } else { problem }
    }
}

impl From<SlotsError> for Problem {
    fn from(error: SlotsError) -> Self {
        let is_missing = matches!(error, SlotsError::NoPool { .. });
        let problem = Self::explained(&error);
        if is_missing { problem.with_status(404) } else { problem }
    }
}

impl From<QueueError> for Problem {
    fn from(error: QueueError) -> Self {
        let is_missing = matches!(
            error,
            QueueError::NoQueue { .. } | QueueError::NoPartition { .. } | QueueError::NoWorker { .. }
        );
        let problem = Self::explained(&error);
        if is_missing { problem.with_status(404) } else { problem }
    }
}

impl From<FlowError> for Problem {
    fn from(error: FlowError) -> Self {
        let is_missing = matches!(error, FlowError::NoJob { .. });
        let problem = Self::explained(&error);
        if is_missing { problem.with_status(404) } else { problem }
    }
}

impl From<SubmissionError> for Problem {
    fn from(error: SubmissionError) -> Self {
        match error {
            SubmissionError::Flow(error) => error.into(),
            error => Self::explained(&error),
        }
    }
}

impl From<PipelineError> for Problem {
    fn from(error: PipelineError) -> Self {
        let is_missing = matches!(error, PipelineError::Unknown { .. });
        let problem = Self::explained(&error);
        if is_missing { problem.with_status(404) } else { problem }
    }
}
