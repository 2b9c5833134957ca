use std::collections::HashMap;

use serde::Deserialize;

/// The members of every verb; an absent member keeps its default.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub struct Request {
    pub verb: String,
    pub name_server: String,
    pub topic: String,
    pub group: String,
    pub properties: HashMap<String, String>,
    pub timeout_ms: u64,
    pub count: usize,
    // sending
    pub mode: String,
    pub prefix: String,
    pub first: usize,
    pub size: usize,
    pub tags: Vec<String>,
    pub keys: bool,
    pub shards: usize,
    pub batch: usize,
    pub delay_level: i32,
    pub outcomes: Vec<String>,
    pub check: String,
    pub patience_ms: u64,
    pub setter: String,
    pub value: String,
    // receiving
    pub kind: String,
    pub expression: String,
    pub sql: bool,
    pub ordered: bool,
    pub broadcast: bool,
    pub start: String,
    pub timestamp: String,
    pub max_reconsume: Option<i32>,
    pub failures: i32,
    pub instance: String,
    pub with_properties: bool,
    pub handle: usize,
    pub deliveries: bool,
    pub settle_ms: u64,
}
