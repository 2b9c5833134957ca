//! Drives the stock Rust client: one request a line on standard input, one answer a line on standard output, both JSON
//! objects. The end of the input ends the process.
#![recursion_limit = "512"]

mod payload;
mod receive;
mod request;
mod send;

use std::error::Error;
use std::sync::Arc;

use rocketmq_client_rust::{ClientRuntime, ClientRuntimeConfig};
use serde_json::{json, Value};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::receive::Receivers;
use crate::request::Request;
use crate::send::Senders;

pub type Given = Result<Value, Box<dyn Error>>;

const ANSWER_MARK: &str = "@answer ";

struct Judge {
    senders: Senders,
    receivers: Receivers,
}

impl Judge {
    async fn answer(&mut self, line: &str) -> Given {
        let asked: Request = serde_json::from_str(line)?;
        match asked.verb.as_str() {
            "send" => self.senders.send(&asked).await,
            "timed" => self.senders.send_timed(&asked).await,
            "checks" => Ok(self.senders.checks(&asked)),
            "subscribe" => self.receivers.subscribe(&asked).await,
            "collect" => self.receivers.collect(&asked).await,
            "count" => self.receivers.count(&asked),
            "close" => self.receivers.close(&asked).await,
            "reset" => {
                self.receivers.reset().await;
                self.senders.reset().await;
                Ok(json!({}))
            }
            verb => Ok(json!({"unsupported": format!("no verb {verb}")})),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let owner = rocketmq_runtime::RuntimeOwner::plan(Default::default())?.build()?;
    let mut quiet = rocketmq_observability::TelemetryBootstrapConfig::default();
    quiet.logging.enabled = false;
    let telemetry = rocketmq_observability::install_global(&quiet)?;
    let context = owner.root_context().component("client");
    let runtime: Arc<ClientRuntime> = ClientRuntime::try_new(context, ClientRuntimeConfig::default(), telemetry.handle())?;
    let mut judge = Judge { senders: Senders::new(runtime.clone()), receivers: Receivers::new(runtime) };
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let given = judge.answer(&line).await.unwrap_or_else(|error| json!({"error": error.to_string()}));
        println!("{ANSWER_MARK}{given}");
    }
    std::process::exit(0);
}
