//! What can be changed: one function for each act, the same for REST and for the buttons of pages.

pub mod flows;
pub mod form;
pub mod pipelines;
pub mod queues;
pub mod slots;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Done {
    /// In words.
    pub message: String,
    /// Ids of what was made or changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
}

impl Done {
    /// Something without ids.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ids: Vec::new() }
    }
}

/// An act that needs to be told nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// An act that others may want to know the reason for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WithReason {
    /// Why, for others.
    #[serde(default)]
    pub reason: Option<String>,
}

impl WithReason {
    /// The reason, unless it is empty: forms send empty fields.
    pub fn given(self) -> Option<String> {
        self.reason.filter(|reason| !reason.is_empty())
    }
}
